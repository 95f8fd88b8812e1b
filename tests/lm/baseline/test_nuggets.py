"""The baseline's nuggets: quoted exactly, never the question again, and rated."""

from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.errors import ReplyError
from freshstack_dspy.lm.baseline.nuggets import importance
from freshstack_dspy.lm.baseline.replies import reply
from freshstack_dspy.lm.typed import answer_model, validating_against
from freshstack_dspy.questions.reading import read_queries
from freshstack_dspy.signatures.nuggetize_answer import NuggetizeAnswer

DUMP = Path(__file__).parents[4] / "shared/data/stackexchange-bioinformatics/Posts.xml"
SIGNATURE: Any = NuggetizeAnswer
QUESTION = "Why does `read_rwl` fail on my file? The file has no stop marker."


def nuggets(answer: str, question: str = QUESTION, limit: int = 10) -> list[dict[str, str]]:
    inputs = {"question": question, "answer": answer, "limit": limit}
    found: list[dict[str, str]] = reply("NuggetizeAnswer", inputs)["nuggets"]
    return found


def test_a_quote_is_the_statement_as_the_answer_has_it() -> None:
    answer = "Use **`units=`** for\nsuch files, see [the docs](http://a.b).\n\n    >>> xc.read(path, units='mm')\n"

    assert [nugget["quote"] for nugget in nuggets(answer)] == [
        "Use **`units=`** for\nsuch files, see [the docs](http://a.b).",
        "xc.read(path, units='mm')",
    ]


def test_a_statement_over_several_lines_is_quoted_with_all_that_stands_between() -> None:
    (nugget,) = nuggets("```\n$ samtools view \\\n    -f 4 a.bam\n```")

    assert nugget == {
        "quote": "samtools view \\\n    -f 4 a.bam",
        "text": "`samtools view -f 4 a.bam`",
    }


def test_what_the_question_says_is_left_out() -> None:
    found = nuggets("The file has no stop marker! Pass `units=`.")

    assert [nugget["text"] for nugget in found] == ["Pass `units=`."]


def test_an_answer_that_says_the_question_again_has_no_nuggets() -> None:
    with pytest.raises(ReplyError, match="the answer says what the question says"):
        nuggets("The file has no stop marker.")


@pytest.mark.slow
@pytest.mark.skipif(not DUMP.exists(), reason="the dump is not part of the repository")
def test_its_nuggets_of_real_answers_pass_the_validation_of_models() -> None:
    counted, quoted = 0, 0
    config = QueriesConfig.model_validate({"source": "stackexchange", "path": DUMP})
    for query in read_queries(config).queries:
        inputs = {"question": query.text, "answer": query.answer, "limit": 10}
        with validating_against(inputs):
            made: Any = answer_model(SIGNATURE).model_validate(reply("NuggetizeAnswer", inputs))
        counted += len(made.nuggets)
        quoted += sum(bool(nugget.quote) for nugget in made.nuggets)

    assert counted > 1300
    assert quoted / counted > 0.99


def test_a_nugget_that_names_what_the_question_names_is_vital() -> None:
    rated = importance(QUESTION, ["`read_rwl` needs a marker.", "Years are astronomical."])

    assert rated == ["vital", "okay"]
    assert importance(QUESTION, ["Years are astronomical.", "Use pandas."]) == ["vital", "vital"]
