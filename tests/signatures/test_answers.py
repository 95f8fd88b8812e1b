"""Which answers each signature accepts, and what the model is told of the others."""

import json
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from freshstack_dspy.lm.typed import answer_model, plain, validating_against
from freshstack_dspy.signatures.answer_closed_book import AnswerClosedBook
from freshstack_dspy.signatures.decompose_question import DecomposeQuestion
from freshstack_dspy.signatures.decontextualize_passages import DecontextualizePassages
from freshstack_dspy.signatures.judge_support import JudgeSupport
from freshstack_dspy.signatures.nuggetize_answer import NuggetizeAnswer
from freshstack_dspy.signatures.synthesize_queries import SynthesizeQueries

from .examples import EXAMPLES


def validated(signature: Any, answer: Any, **inputs: Any) -> BaseModel:
    with validating_against(plain({**EXAMPLES[signature], **inputs})):
        return answer_model(signature).model_validate_json(json.dumps(answer), strict=True)


def faults(signature: Any, answer: Any, **inputs: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        validated(signature, answer, **inputs)
    return str(caught.value)


def verdict(chunk: Any, *supported: Any, reason: str = "because") -> dict[str, Any]:
    return {"chunk": chunk, "reason": reason, "supported": list(supported)}


def test_a_judgment_of_every_chunk_in_any_order_is_accepted() -> None:
    validated(JudgeSupport, {"verdicts": [verdict(2), verdict(1, 2, 1)]})


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        ([], "at least 1 item"),
        ([verdict(1), verdict(2), verdict(3)], "there is no chunk [3]"),
        ([verdict(0), verdict(1)], "there is no chunk [0]"),
        ([verdict(1), verdict(2), verdict(2)], "more than one verdict for chunk [2]"),
        ([verdict(1, 3), verdict(2, 0, 1)], "chunk 1 supports nugget [3], which does not exist"),
        ([verdict(1, 3), verdict(2, 0, 1)], "chunk 2 supports nugget [0], which does not exist"),
        ([verdict(1, 1, 1), verdict(2)], "chunk 1 names a nugget twice"),
        ([verdict(1, reason=""), verdict(2)], "at least 1 character"),
        ([verdict(1, reason=" \n"), verdict(2)], "the text is blank"),
        ([verdict("1"), verdict(2)], "valid integer"),
        ([verdict(True), verdict(2)], "valid integer"),
        ([verdict(1, "1"), verdict(2)], "valid integer"),
        ([verdict(1, 1.5), verdict(2)], "valid integer"),
        ([{**verdict(1), "score": 1}, verdict(2)], "Extra inputs"),
        ([{"chunk": 1, "supported": []}, verdict(2)], "Field required"),
    ],
)
def test_a_judgment_of_what_is_not_there_or_of_a_chunk_twice_is_sent_back(
    verdicts: Any, said: str
) -> None:
    assert said in faults(JudgeSupport, {"verdicts": verdicts})


def test_a_judgment_of_some_of_the_chunks_is_valid_as_far_as_it_goes() -> None:
    """The rest is asked for by itself; see `lm/targeted.py`."""
    validated(JudgeSupport, {"verdicts": [verdict(2, 1)]})


LIMITED: list[tuple[Any, str, Any]] = [
    (NuggetizeAnswer, "nuggets", [{"quote": "", "text": "one"}, {"quote": "", "text": "two"}]),
    (DecomposeQuestion, "sub_questions", ["one", "two"]),
    (DecontextualizePassages, "passages", ["one", "two"]),
    (
        SynthesizeQueries,
        "queries",
        [{"question": "one", "answer": "a"}, {"question": "two", "answer": "a"}],
    ),
]


@pytest.mark.parametrize(("signature", "field", "items"), LIMITED)
def test_the_limit_that_the_prompt_names_is_held(signature: Any, field: str, items: Any) -> None:
    validated(signature, {field: items}, limit=2)
    validated(signature, {field: items[:1]}, limit=2)
    said = faults(signature, {field: items}, limit=1)

    assert f"at most 1 {field.replace('_', '-')} are allowed, and there are 2" in said
    assert "at least 1 item" in faults(signature, {field: []}, limit=2)


@pytest.mark.parametrize(
    ("signature", "answer"),
    [
        (AnswerClosedBook, {"answer": "{}"}),
        (NuggetizeAnswer, {"nuggets": [{"quote": "", "text": "{}"}]}),
        (DecomposeQuestion, {"sub_questions": ["one", "{}"]}),
        (DecontextualizePassages, {"passages": ["{}"]}),
        (SynthesizeQueries, {"queries": [{"question": "{}", "answer": "a"}]}),
        (SynthesizeQueries, {"queries": [{"question": "q", "answer": "{}"}]}),
    ],
)
def test_a_blank_text_is_no_answer(signature: Any, answer: Any) -> None:
    text = json.dumps(answer)
    validated(signature, json.loads(text.replace("{}", "something")))

    assert "at least 1 character" in faults(signature, json.loads(text.replace("{}", "")))
    assert "the text is blank" in faults(signature, json.loads(text.replace("{}", " ")))


def test_a_fact_that_is_stated_twice_is_sent_back() -> None:
    nuggets = [
        {"quote": "", "text": "Use `width`."},
        {"quote": "", "text": "use  `Width`.\n"},
    ]

    assert "two nuggets have the same text" in faults(NuggetizeAnswer, {"nuggets": nuggets})
