"""The prompts, which answers each signature accepts, and what the model is told of the others."""

import json
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from freshstack_dspy import Query
from freshstack_dspy.lm.reask import correction
from freshstack_dspy.lm.schemas import in_order
from freshstack_dspy.lm.typed import (
    ACCEPT_LESSER_FAULTS,
    answer_model,
    answer_schema,
    plain,
    validating_against,
)
from freshstack_dspy.records import SCALES, ScaleName
from freshstack_dspy.signatures.answers import AnswerClosedBook, AnswerQuestion, DecomposeQuestion
from freshstack_dspy.signatures.documents import DecontextualizePassages, SynthesizeQueries
from freshstack_dspy.signatures.judge_support import JUDGES, JudgeSupport
from freshstack_dspy.signatures.nuggets import NuggetizeAnswer
from freshstack_dspy.signatures.question import ShownQuestion
from freshstack_dspy.signatures.without_answers import GradeRelevance, RateImportance, UpdateNuggets

from .examples import EXAMPLES, PROMPTS, prompt


@pytest.mark.parametrize("signature", EXAMPLES, ids=lambda signature: signature.__name__)
def test_the_prompt_is_the_reviewed_one(signature: Any) -> None:
    reviewed = (PROMPTS / f"{signature.__name__}.txt").read_text(encoding="utf-8")

    assert prompt(signature) == reviewed


def validated(signature: Any, answer: Any, **inputs: Any) -> BaseModel:
    with validating_against(plain({**EXAMPLES[signature], **inputs})):
        return answer_model(signature).model_validate_json(json.dumps(answer), strict=True)


def faults(signature: Any, answer: Any, **inputs: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        validated(signature, answer, **inputs)
    return str(caught.value)


def verdict(chunk: Any, *supported: Any, reason: str = "because") -> dict[str, Any]:
    return {"chunk": chunk, "reason": reason, "supported": list(supported)}


def test_a_judgment_of_all_or_some_of_the_chunks_in_any_order_is_accepted() -> None:
    """The rest is asked for by itself; see `lm/reask.py`."""
    validated(JudgeSupport, {"verdicts": [verdict(2), verdict(1, 2, 1)]})
    validated(JudgeSupport, {"verdicts": [verdict(2, 1, reason="")]})


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        ([], "at least 1 item"),
        ([verdict(1), verdict(3)], "there is no chunk [3]"),
        ([verdict(2), verdict(2, 1)], "more than one verdict for chunk [2]"),
        ([verdict(1, 3), verdict(2, 0, 1)], "chunk 1 names nugget [3], which does not exist"),
        ([verdict("1")], "valid integer"),
        ([{**verdict(1), "score": 1}], "Extra inputs"),
        ([{"chunk": 1, "supported": []}], "Field required"),
    ],
)
def test_a_judgment_of_what_is_not_there_or_of_a_chunk_twice_is_sent_back(
    verdicts: Any, said: str
) -> None:
    assert said in faults(JudgeSupport, {"verdicts": verdicts})


def nugget(text: str, quote: str = "") -> dict[str, Any]:
    return {"quote": quote, "text": text, "importance": "vital", "doubtful": False}


LIMITED: list[tuple[Any, str, Any]] = [
    (NuggetizeAnswer, "nuggets", [nugget("one"), nugget("two")]),
    (DecomposeQuestion, "sub_questions", ["one", "two"]),
    (DecontextualizePassages, "passages", ["It reads.", "Reads them."]),
    (
        SynthesizeQueries,
        "queries",
        [{"question": "one", "answer": "a"}, {"question": "two", "answer": "a"}],
    ),
]


@pytest.mark.parametrize(("signature", "field", "items"), LIMITED)
def test_the_limit_that_the_prompt_names_is_held(signature: Any, field: str, items: Any) -> None:
    validated(signature, {field: items}, limit=2)
    said = faults(signature, {field: items}, limit=1)

    assert f"at most 1 {field.replace('_', '-')} are allowed, and there are 2" in said


@pytest.mark.parametrize(
    ("signature", "answer"),
    [
        (AnswerClosedBook, {"answer": "{}"}),
        (NuggetizeAnswer, {"nuggets": [nugget("{}")]}),
        (DecomposeQuestion, {"sub_questions": ["one", "{}"]}),
        (DecontextualizePassages, {"passages": ["{}"]}),
        (SynthesizeQueries, {"queries": [{"question": "{}", "answer": "a"}]}),
        (SynthesizeQueries, {"queries": [{"question": "q", "answer": "{}"}]}),
    ],
)
def test_a_blank_text_is_no_answer(signature: Any, answer: Any) -> None:
    text = json.dumps(answer)
    validated(signature, json.loads(text.replace("{}", "it reads")))

    assert "at least 1 character" in faults(signature, json.loads(text.replace("{}", "")))
    assert "the text is blank" in faults(signature, json.loads(text.replace("{}", " ")))


@pytest.mark.parametrize(
    ("signature", "answer", "once"),
    [
        (JudgeSupport, {"verdicts": [verdict(1, 1, 2, 1)]}, {"verdicts": [verdict(1, 1, 2)]}),
        (
            JudgeSupport,
            {"verdicts": [verdict(1, 1, 2), verdict(1, 2, 1, reason="again")]},
            {"verdicts": [verdict(1, 1, 2)]},
        ),
        (
            RateImportance,
            {"ratings": [{"nugget": 1, "importance": "okay"}] * 2},
            {"ratings": [{"nugget": 1, "importance": "okay"}]},
        ),
        (DecomposeQuestion, {"sub_questions": ["Why?", "why? "]}, {"sub_questions": ["Why?"]}),
        (
            AnswerQuestion,
            {"answerable": True, "sentences": [{"text": "So.", "citations": [2, 1, 2]}]},
            {"answerable": True, "sentences": [{"text": "So.", "citations": [2, 1]}]},
        ),
    ],
)
def test_what_an_answer_says_twice_it_says_once(signature: Any, answer: Any, once: Any) -> None:
    assert validated(signature, answer).model_dump() == once


def bounds(schema: Any, *names: str) -> list[Any]:
    """All values of these keywords in a schema, in its order."""
    if not isinstance(schema, dict):
        return []
    found = [value for name, value in schema.items() if name in names]
    inner = [*schema.get("properties", {}).values(), schema.get("items")]
    return found + [bound for part in inner for bound in bounds(part, *names)]


def test_the_schema_of_a_call_lists_its_numbers_and_bounds_its_lists_and_reasons() -> None:
    inputs = plain(EXAMPLES[JudgeSupport])
    call = answer_schema(JudgeSupport, {**inputs, "chunks": inputs["chunks"][1:]})
    general = answer_schema(JudgeSupport)

    assert bounds(call, "enum") == [[2], [1, 2]], "of a chunk and of its nuggets"
    assert bounds(call, "maxItems") == [1, 2]
    assert bounds(call, "maxLength") == [240]
    assert bounds(call, "minItems") == [1], "a verdict for each chunk"
    assert bounds(general["$defs"]["ChunkVerdict"], "enum", "maxItems", "maxLength") == []
    assert bounds(answer_schema(UpdateNuggets, {**inputs, "limit": 3}), "maxItems") == [3, 2]
    none_yet = answer_schema(UpdateNuggets, plain({**EXAMPLES[UpdateNuggets], "nuggets": []}))
    assert bounds(none_yet, "enum", "maxItems") == [2, 0, 2, [1, 2]]
    nuggets = answer_schema(NuggetizeAnswer, {"limit": 10})
    assert bounds(nuggets, "maxItems") == [20], "doubtful ones do not count"


def test_a_grammar_has_one_item_for_each_number_in_their_order() -> None:
    inputs = plain(EXAMPLES[JUDGES["graded_3"]])
    verdicts = in_order(answer_schema(JUDGES["graded_3"], inputs))["properties"]["verdicts"]
    chunks = [verdict["properties"]["chunk"]["enum"] for verdict in verdicts["prefixItems"]]
    grades = verdicts["prefixItems"][0]["properties"]["grades"]["prefixItems"]

    assert chunks == [[chunk["number"]] for chunk in inputs["chunks"]]
    assert [grade["properties"]["nugget"]["enum"] for grade in grades] == [[1], [2]]
    assert "items" not in verdicts, "llama.cpp would read it in place of prefixItems"


@pytest.mark.parametrize("signature", EXAMPLES, ids=lambda signature: signature.__name__)
def test_the_schema_of_a_call_is_closed_and_refers_to_nothing(signature: Any) -> None:
    def check(schema: Any) -> None:
        assert not {"$ref", "$defs", "x-bound", "title"} & schema.keys()
        assert schema.get("enum") != []
        if schema["type"] == "object":
            assert schema["additionalProperties"] is False
            assert schema["required"] == list(schema["properties"])
        for part in [*schema.get("properties", {}).values(), schema.get("items")]:
            if part is not None:
                check(part)

    check(answer_schema(signature, plain(EXAMPLES[signature])))


GRADED: tuple[ScaleName, ...] = ("graded_3", "graded_5")


def graded(chunk: Any, *grades: tuple[Any, Any], reason: str = "because") -> dict[str, Any]:
    graded = [{"nugget": nugget, "grade": grade} for nugget, grade in grades]
    return {"chunk": chunk, "reason": reason, "grades": graded}


@pytest.mark.parametrize("scale", GRADED)
def test_every_grade_of_the_scale_and_no_other_is_accepted(scale: ScaleName) -> None:
    """Labels follow the numbers of nuggets, and not their places."""
    highest = SCALES[scale].highest
    answer: Any = validated(JUDGES[scale], {"verdicts": [graded(2, (2, 1), (1, 0))]})
    [said] = answer.verdicts

    assert (said.label_of(1), said.label_of(2)) == (0, 1)
    for grade in range(highest + 1):
        validated(JUDGES[scale], {"verdicts": [graded(2, (2, grade), (1, 0))]})
    for wrong in (-1, highest + 1, "1", None, True, 1.0):
        assert "grade" in faults(JUDGES[scale], {"verdicts": [graded(1, (1, wrong), (2, 0))]})


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        ([graded(3, (1, 0), (2, 0))], "there is no chunk [3]"),
        ([graded(1, (1, 0), (2, g)) for g in (0, 1)], "more than one verdict for chunk [1]"),
        ([graded(1, (1, 0))], "chunk 1 has no grade for nugget [2]"),
        ([graded(1, (1, 0), (2, 0), (99, 1))], "chunk 1 names nugget [99], which does not exist"),
        ([graded(1, (1, 0), (2, 0), (1, 1))], "chunk 1 has two different grades for nugget [1]"),
    ],
)
def test_grades_of_other_than_every_nugget_once_are_sent_back(verdicts: Any, said: str) -> None:
    assert said in faults(JUDGES["graded_3"], {"verdicts": verdicts})


def quoted(nugget: Any, grade: Any, *quotes: str) -> dict[str, Any]:
    return {"nugget": nugget, "grade": grade, "quotes": list(quotes)}


def test_support_is_full_or_partial_with_the_words_that_show_it() -> None:
    """White space may differ; what is not listed has no support."""
    supported = [quoted(2, 1, "def read_rwl(path): ..."), quoted(1, 2, "path", "read_rwl")]
    answer: Any = validated(JUDGES["support"], {"verdicts": [verdict(1, *supported), verdict(2)]})
    one, other = answer.verdicts

    assert [(one.label_of(number), one.quotes_of(number)) for number in (1, 2, 3)] == [
        (2, ["path", "read_rwl"]),
        (1, ["def read_rwl(path): ..."]),
        (0, []),
    ]
    assert other.label_of(1) == 0


@pytest.mark.parametrize(
    ("supported", "said"),
    [
        ([quoted(1, 0, "path")], "1 or 2"),
        ([quoted(1, 3, "path")], "1 or 2"),
        ([quoted(1, True, "path")], "a grade is a whole number"),
        ([quoted(1, 2)], "at least 1 item"),
        ([quoted(1, 2, "a", "b", "c")], "at most 2 items"),
        ([quoted(1, 2, " ")], 'does not have the words " "'),
        ([quoted(1, 2, "# xylo")], 'chunk 1 does not have the words "# xylo", quoted for nugget 1'),
        ([quoted(3, 2, "path")], "chunk 1 names nugget [3], which does not exist"),
        ([quoted(1, 2, "path"), quoted(1, 1, "path")], "two different grades for nugget [1]"),
    ],
)
def test_support_without_words_of_the_chunk_is_sent_back(supported: Any, said: str) -> None:
    assert said in faults(JUDGES["support"], {"verdicts": [verdict(1, *supported)]})


def test_only_the_words_may_be_wrong_where_no_better_reply_comes_from_the_judge() -> None:
    lenient: dict[str, Any] = {ACCEPT_LESSER_FAULTS: True}
    validated(JUDGES["support"], {"verdicts": [verdict(1, quoted(1, 2, "no such"))]}, **lenient)
    wrong = {"verdicts": [verdict(1, quoted(3, 2, "path"))]}

    assert "does not exist" in faults(JUDGES["support"], wrong, **lenient)


ANSWER = "Nothing is broken. **`width`** holds whole µm,\nnot 1/100 mm."
QUESTION = {
    "title": "How do I read a ring width of a series?",
    "body": "I use `read_rwl` of version 2.",
}


def accepted(made: Any, **context: Any) -> None:
    with validating_against({"question": QUESTION, "answer": ANSWER, "limit": 10, **context}):
        answer_model(NuggetizeAnswer).model_validate_json(json.dumps(made), strict=True)


def told(made: Any, **context: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        accepted(made, **context)
    return correction(caught.value)


def nuggets(*made: Any) -> Any:
    return {"nuggets": list(made)}


@pytest.mark.parametrize(
    "quote", ["", " ", "`width`** holds whole µm,", "width holds whole µm, not 1/100 mm."]
)
def test_a_quote_that_stands_in_the_answer_or_is_empty_is_accepted(quote: str) -> None:
    accepted(nuggets(nugget("One.", quote)))


def test_a_quote_that_is_not_there_is_sent_back_by_its_words() -> None:
    made = nuggets(
        nugget("One.", "whole µm"), nugget("Two.", "width is\nin µm"), nugget("3", "x" * 999)
    )
    said = told(made)

    assert 'the quote "width is\\nin µm" is not in the answer; copy its words' in said
    assert "whole µm" not in said
    assert f'the quote "{"x" * 120}…" is not' in said


def test_only_quotes_may_be_wrong_where_no_better_reply_comes() -> None:
    lenient: dict[str, Any] = {ACCEPT_LESSER_FAULTS: True}
    accepted(nuggets(nugget("One.", "no such")), **lenient)
    for made in (
        nuggets(nugget("One."), {**nugget("one."), "doubtful": True}),
        nuggets(nugget("Read a ring width of a series."), nugget("One.", "no such")),
        nuggets({"text": "One."}),
    ):
        told(made, **lenient)


def test_a_nugget_that_restates_the_question_or_another_is_sent_back_by_its_words() -> None:
    twice = nuggets(nugget("Use `width`."), {**nugget("use  `Width`.\n"), "importance": "okay"})
    made = nuggets(nugget("`width` holds µm."), nugget("Read a ring width of a series."))
    said = told(made)

    assert 'the nugget "Read a ring width of a series." only restates the question' in said
    assert "holds" not in said
    assert "two nuggets have the same text" in told(twice)


@pytest.mark.parametrize("wrong", [{"importance": "important"}, {"doubtful": None}])
def test_a_nugget_is_vital_or_okay_and_doubtful_or_not(wrong: Any) -> None:
    told(nuggets(nugget("One.") | wrong))


def test_doubtful_nuggets_use_up_none_of_the_limit() -> None:
    sure = [nugget("One."), nugget("Two.")]
    doubtful = nugget("Three.") | {"doubtful": True}
    validated(NuggetizeAnswer, {"nuggets": [*sure, doubtful]}, limit=2)

    assert "at most 1 nuggets are allowed, and there are 2" in faults(
        NuggetizeAnswer, {"nuggets": [*sure, doubtful]}, limit=1
    )


def test_a_question_is_shown_without_what_is_not_known_of_it() -> None:
    query = Query(
        query_id="1",
        title="Why?",
        body="",
        answer="So.",
        tags=("rwl",),
        asked_at="2017-05-16T18:53:00.123",
    )
    label = ShownQuestion(body="Why is it so?")

    assert plain({"question": ShownQuestion.of(query)}) == {
        "question": {"title": "Why?", "asked": "2017-05-16", "tags": ["rwl"]}
    }
    assert plain({"question": label}) == {"question": {"body": "Why is it so?"}}


# --- from passages


def found(text: str, nuggets: list[int], passages: list[int]) -> dict[str, Any]:
    return {"text": text, "nuggets": nuggets, "passages": passages}


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ([found("A.", [], [])], "names no passage and no listed nugget"),
        ([found("A.", [], [3])], "names passages [3]"),
        ([found("A.", [4], [])], "names nuggets [4]"),
        ([found("A.", [1], []), found("a.", [], [2])], "state each fact once"),
        ([found('How do I read a "ring" width?', [], [1])], "only restates the question"),
        ([found(text, [1], [1]) for text in "ABC"], "at most 2 nuggets"),
    ],
)
def test_a_nugget_from_nowhere_or_told_already_is_sent_back(listed: Any, said: str) -> None:
    assert validated(UpdateNuggets, {"found": [found("A.", [1, 2], [])]})
    assert said in faults(UpdateNuggets, {"found": listed})


@pytest.mark.parametrize("grade", [4, -1, True, 1.0, "1"])
def test_relevance_is_graded_from_0_to_3_once_for_each_passage(grade: Any) -> None:
    def grades(*pairs: Any) -> dict[str, Any]:
        return {"grades": [{"passage": n, "reason": "because", "grade": of} for n, of in pairs]}

    assert validated(GradeRelevance, grades((2, 3), (1, 0)))
    assert faults(GradeRelevance, grades((1, grade)))
    assert "more than one grade for passage [1]" in faults(GradeRelevance, grades((1, 0), (1, 1)))
    ratings = [{"nugget": 3, "importance": "vital"}]
    assert "there is no nugget [3]" in faults(RateImportance, {"ratings": ratings})
