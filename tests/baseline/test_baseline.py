"""The baseline's replies: valid by their signatures, within their limits, always the same."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.baseline.replies import FULL, SENTENCES, STEP, THRESHOLD, reply, threshold
from freshstack_dspy.baseline.words import statements, subjects, support
from freshstack_dspy.errors import FatalModelError, ReplyError
from freshstack_dspy.lm.typed import answer_model, validating_against
from freshstack_dspy.records import SCALES, ScaleName
from freshstack_dspy.signatures.answers import AnswerClosedBook, AnswerQuestion, DecomposeQuestion
from freshstack_dspy.signatures.documents import (
    DecontextualizePassages,
    SynthesizeQueries,
    WriteReportRequest,
)
from freshstack_dspy.signatures.judge_support import JUDGES
from freshstack_dspy.signatures.nuggets import NuggetizeAnswer
from freshstack_dspy.signatures.reranking import ChooseBestPassage, RankPassages
from freshstack_dspy.signatures.without_answers import GradeRelevance, RateImportance, UpdateNuggets

QUESTION = """\
How do I stop JSONLoader from splitting my file? I have an array of jobs:

```js
const loader = new JSONLoader("./jobs.json");
```

Each property becomes a document of its own. Is there a way to get one document per job?
"""
ANSWER = """\
The JSONLoader makes one document of every string in the file.

```js
import { Document } from "langchain/document";
```

1. `JSON.stringify` keeps all properties of a job together.
2. Set **metadata** to keep the
   identifier of each job.

The JSONLoader makes one document of every string in the file.
What do you think?
"""
LINES = st.text(st.characters(codec="utf-8"), max_size=200)
LIMITS = st.integers(1, 6)
SHOWN = {"number": 1, "path": "a.md", "text": "The dial shows the moon. Call `reset(dial)` twice."}
LISTED = [{"number": 1, "text": "The dial shows the phase of the moon."}]


def seed(text: str) -> dict[str, str]:
    return {"path": "docs/a.md", "text": text}


def judge_inputs(nuggets: list[str], chunks: list[str], question: str = "") -> dict[str, Any]:
    return {
        "question": question,
        "nuggets": [{"number": n, "text": text} for n, text in enumerate(nuggets, 1)],
        "chunks": [
            {"number": n, "path": f"file{n}.md", "text": text} for n, text in enumerate(chunks, 1)
        ],
    }


def judge(nuggets: list[str], chunks: list[str], demos: Any = ()) -> list[Any]:
    verdicts: list[Any] = reply("JudgeSupport", judge_inputs(nuggets, chunks), demos)["verdicts"]
    return verdicts


def validated(signature: Any, inputs: dict[str, Any]) -> Any:
    """Answer twice, alike and by the signature."""
    outputs = reply(signature.__name__, inputs)

    assert outputs == reply(signature.__name__, inputs)
    with validating_against(inputs):
        return answer_model(signature).model_validate_json(json.dumps(outputs), strict=True)


def of_questions(text: str, limit: int) -> list[tuple[Any, dict[str, Any]]]:
    return [
        (DecomposeQuestion, {"question": {"title": text}, "limit": limit}),
        (AnswerClosedBook, {"question": {"title": text}}),
        (SynthesizeQueries, {"passages": [seed(text)], "style_examples": [], "limit": limit}),
        (DecontextualizePassages, {"document": text, "title": "", "limit": limit}),
        (WriteReportRequest, {"report": text}),
    ]


def of_passages(text: str, limit: int) -> list[tuple[Any, dict[str, Any]]]:
    asked = {"question": {"title": text}}
    return [
        (NuggetizeAnswer, {"question": {}, "answer": text, "limit": limit}),
        (GradeRelevance, {**asked, "passages": [SHOWN]}),
        (RankPassages, {**asked, "passages": [SHOWN]}),
        (ChooseBestPassage, {**asked, "passages": [SHOWN]}),
        (UpdateNuggets, {**asked, "passages": [SHOWN], "nuggets": LISTED, "limit": limit}),
        (RateImportance, {**asked, "nuggets": LISTED}),
    ]


@given(LINES, LIMITS)
def test_every_reply_is_valid_by_its_signature_and_always_the_same(text: str, limit: int) -> None:
    """Limits, minimal lengths and uniqueness, for any text that is not blank."""
    if text.strip():
        for signature, inputs in [*of_questions(text, limit), *of_passages(text, limit)]:
            validated(signature, inputs)


@given(LINES, st.lists(LINES, max_size=4))
def test_every_answer_from_passages_is_valid(question: str, texts: list[str]) -> None:
    passages = [{"number": n, "path": "a", "text": text} for n, text in enumerate(texts, 1)]
    answer = validated(AnswerQuestion, {"question": question, "passages": passages})

    assert len(answer.sentences) <= SENTENCES


@given(st.lists(LINES, min_size=1, max_size=3), st.lists(LINES, min_size=1, max_size=3))
def test_verdicts_are_valid_and_agree_on_every_scale(nuggets: list[str], chunks: list[str]) -> None:
    inputs = judge_inputs(nuggets, [*chunks, *nuggets])
    binary = reply("JudgeSupport", inputs)["verdicts"]
    scales: tuple[ScaleName, ...] = ("support", "graded_3", "graded_5")

    for scale in scales:
        for verdict, plain in zip(validated(JUDGES[scale], inputs).verdicts, binary, strict=True):
            numbers = range(1, len(nuggets) + 1)
            supported = [n for n in numbers if verdict.label_of(n) >= SCALES[scale].threshold]
            assert (verdict.chunk, supported) == (plain["chunk"], plain["supported"])


def test_blank_texts_unknown_tasks_and_changed_signatures_are_refused() -> None:
    for signature, inputs in of_questions("  \n\t ", 3):
        with pytest.raises(ReplyError, match="blank") as caught:
            reply(signature.__name__, inputs)
        assert caught.value.status == "failed"
    with pytest.raises(FatalModelError, match=r"was asked for another, .*\[model\] name"):
        reply("Translate", {})
    with pytest.raises(FatalModelError, match="cannot read DecomposeQuestion"):
        reply("DecomposeQuestion", {"question": QUESTION, "limit": "a few"})


def test_nuggets_are_quoted_facts_of_the_answer_in_its_order() -> None:
    asked = {"question": {"title": QUESTION}, "answer": ANSWER, "limit": 10}
    nuggets = reply("NuggetizeAnswer", asked)["nuggets"]

    assert [(nugget["text"], nugget["importance"]) for nugget in nuggets] == [
        ("The JSONLoader makes one document of every string in the file.", "vital"),
        ('`import { Document } from "langchain/document";`', "vital"),
        ("`JSON.stringify` keeps all properties of a job together.", "vital"),
        ("Set metadata to keep the identifier of each job.", "vital"),
    ]
    assert all(nugget["quote"] in ANSWER for nugget in nuggets)
    assert nuggets[3]["quote"] == "Set **metadata** to keep the\n   identifier of each job."


def test_a_question_is_cut_into_what_it_asks() -> None:
    found = reply("DecomposeQuestion", {"question": QUESTION, "limit": 5})["sub_questions"]

    assert "How do I stop JSONLoader from splitting my file?" in found
    assert all(text.endswith("?") for text in found)
    closed_book = reply("AnswerClosedBook", {"question": QUESTION})["answer"]
    assert "JSONLoader" in closed_book
    assert "?" not in closed_book


def test_queries_follow_the_style_and_are_of_all_passages() -> None:
    passages = [seed("Use `load_rings` for ring widths."), seed("`detrend` removes growth trends.")]
    inputs = {"passages": passages, "style_examples": ["load json jobs"], "limit": 3}
    (bare,) = reply("SynthesizeQueries", inputs)["queries"]
    (marked,) = reply("SynthesizeQueries", {**inputs, "style_examples": []})["queries"]

    assert "load_rings" in bare["question"]
    assert "detrend" in bare["question"]
    assert bare["answer"] == "\n\n".join(passage["text"] for passage in passages)
    assert marked["question"] == bare["question"] + "?"


def test_passages_are_packed_with_their_title() -> None:
    words = [f"Sentence {n} tells of thing{n} and nothing more." for n in range(100)]
    inputs = {"document": "## Rotors\n\n" + " ".join(words), "title": "Turbines", "limit": 50}
    found = reply("DecontextualizePassages", inputs)["passages"]

    assert all(150 < len(text.split()) <= 201 for text in found[:-1])
    assert all(text.startswith("Turbines: ") for text in found)
    assert "thing99" in found[-1]


def test_an_answer_is_extracted_with_every_passage_that_has_it() -> None:
    texts = [
        "# Care\n\nGrease protects the bearing in winter. The cover is blue.",
        "The lighthouse was built in 1901. Its lens weighs two tons.",
        "Grease protects the bearing in winter.\n\nRust comes from salt water.",
    ]
    passages = [{"number": n, "path": "a", "text": text} for n, text in enumerate(texts, 1)]
    asked = {"question": "How do I keep the bearing from rust in winter?", "passages": passages}
    found = reply("AnswerQuestion", asked)["sentences"]

    assert {"text": "Grease protects the bearing in winter.", "citations": [1, 3]} in found
    assert all(2 not in sentence["citations"] for sentence in found)
    nothing = {"question": "How do I tune a violin?", "passages": passages}
    assert reply("AnswerQuestion", nothing) == {"answerable": False, "sentences": []}


@pytest.mark.parametrize(
    ("answer", "agrees", "grade"),
    [
        ("It was built in August 1901.", "yes", "full"),
        ("By the Canadian Pacific Railway", "yes", "full"),
        ("In 1902.", "no", "none"),
    ],
)
def test_an_answer_that_repeats_a_reference_agrees(answer: str, agrees: str, grade: str) -> None:
    references = ["August 1901", "the Canadian Pacific Railway"]
    inputs = {
        "question": "When was the lighthouse built?",
        "references": [{"number": n, "text": text} for n, text in enumerate(references, 1)],
        "answer": answer,
    }

    assert reply("CompareAnswers", inputs)["agrees"] == agrees
    assert reply("GradeAgreement", inputs)["grade"] == grade


def test_a_verdict_names_the_nuggets_the_chunk_states_and_says_why() -> None:
    nuggets = ["The turbine converts wind.", "Grease protects the bearing."]
    chunks = ["Every winter, grease protects the bearing from rust.", "Nothing of the sort."]
    stated, nothing = judge(nuggets, chunks)

    assert (stated["supported"], nothing["supported"]) == ([2], [])
    assert "Nugget 2 is nearest" in stated["reason"]
    assert nothing["reason"] == "It shares no words with any nugget."


def test_demonstrations_move_the_threshold_of_the_judge() -> None:
    """What few-shot optimizers have to work with."""
    nugget = "The turbine converts strong wind into cheap electricity"
    partly = "The turbine stands in strong wind and converts it near the harbour."
    strict = (
        judge_inputs([nugget], [partly] * 20),
        {"verdicts": [{"chunk": n, "reason": "-", "supported": []} for n in range(1, 21)]},
    )

    assert judge([nugget], [partly])[0]["supported"] == [1]
    assert judge([nugget], [partly], [strict])[0]["supported"] == []
    assert threshold([]) == THRESHOLD
    assert threshold([(0.1, False), (0.15, True)] * 10) < THRESHOLD < threshold([(0.4, False)] * 10)
    assert threshold([(THRESHOLD + 2 * STEP, False)]) == THRESHOLD  # one label is worth one step


def test_the_score_is_computed_by_hand() -> None:
    """Each unlisted word weighs 1; half of it counts near, half anywhere; 2 is added below."""
    units = [f"{word} alpha bravo charly delta echo foxtrot golfo hotel." for word in "abcdefgh"]
    ((near,),) = support("", ["gadget widget"], ["gadget widget here."])
    ((scattered,),) = support("", ["gadget widget"], [" ".join(["gadget.", *units, "widget."])])
    ((number,),) = support("gadget", ["gadget 42"], ["42"])

    assert near.score == pytest.approx(2 / 4)
    assert scattered.score == pytest.approx((1 + 2) / 2 / 4)
    assert number.score == pytest.approx(2 / (2 + 0.5 + 2))
    assert near.nearest == "gadget widget here."
    assert near.score >= THRESHOLD + FULL


@given(st.lists(LINES, max_size=4), LINES, LINES)
def test_scores_are_bounded_and_the_same_in_any_company(
    nuggets: list[str], chunk: str, other: str
) -> None:
    found = support("what is it?", nuggets, [other, chunk])

    assert all(0 <= match.score < 1 for matches in found for match in matches)
    assert found[1:] == support("what is it?", nuggets, [chunk])
    assert all(match.nearest in chunk for match in found[1])


@given(st.text(alphabet="ab.*`_#>-|[]()<~\\ \n\t", max_size=300))
def test_any_markdown_can_be_cut(text: str) -> None:
    assert all(statement.text for statement in statements(text))
    assert bool(statements(text)) == bool(text.strip())
    assert len(subjects(text, 3)) <= 3
