"""The baseline's reply to a prompt: from a task's name and its inputs to its outputs."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from freshstack_dspy.errors import FatalModelError, ReplyError
from freshstack_dspy.lm.baseline.answers import answer, compare
from freshstack_dspy.lm.baseline.nuggets import importance, nuggets
from freshstack_dspy.lm.baseline.passages import passages
from freshstack_dspy.lm.baseline.questions import closed_book_answer, queries, sub_questions
from freshstack_dspy.lm.baseline.support import Judged, JudgeInputs, graded_verdicts, verdicts
from freshstack_dspy.records import ScaleName

Json = dict[str, Any]
Demo = tuple[Json, Json]
Inputs = TypeVar("Inputs", bound=BaseModel)


class _Answer(BaseModel):
    question: str
    answer: str
    limit: int = Field(ge=1)


class _Question(BaseModel):
    question: str


class _NuggetToRate(BaseModel):
    number: int
    text: str


class _ToRate(_Question):
    nuggets: list[_NuggetToRate]


class _LimitedQuestion(_Question):
    limit: int = Field(ge=1)


class _Passage(BaseModel):
    path: str
    text: str


class _Passages(BaseModel):
    passages: list[_Passage]
    style_examples: list[str]
    limit: int = Field(ge=1)


class _NumberedText(BaseModel):
    number: int
    text: str


class _ToAnswer(_Question):
    passages: list[_NumberedText]


class _ToCompare(_Question):
    references: list[_NumberedText] = Field(min_length=1)
    answer: str


class _Document(BaseModel):
    document: str
    title: str
    limit: int = Field(ge=1)


def reply(task: str, inputs: Json, demos: Sequence[Demo] = ()) -> Json:
    """Answer one prompt.

    Args:
        task: Name of the signature.
        inputs: The prompt's inputs, as JSON has them.
        demos: Inputs and outputs of the demonstrations in the prompt. `JudgeSupport` takes its
            threshold from their labels; the other tasks do not use them.

    Returns:
        The outputs, as JSON has them.

    Raises:
        FatalModelError: The task is unknown, or its inputs or a demonstration do not fit it.
        ReplyError: The text to work on is blank, so there is nothing to answer.
    """
    do = _TASKS.get(task)
    if do is None:
        raise FatalModelError(
            f"extractive/baseline cannot do {task!r}; it does {', '.join(sorted(_TASKS))}. "
            "For anything else name a real model in [model] name, as openai/gpt-4o"
        )
    outputs = do(task, inputs, demos)
    for field, value in outputs.items():
        if not value and field not in _MAY_BE_EMPTY:
            raise ReplyError(
                f"{task}: the baseline has no {field} to give, because the text is blank",
                status="failed",
                call_id=None,
            )
    return outputs


def _nuggetize(task: str, inputs: Json, demos: Sequence[Demo]) -> Json:
    given = _read(_Answer, task, inputs)
    found = nuggets(given.question, given.answer, given.limit)
    if not found and given.answer.strip():
        raise ReplyError(
            f"{task}: the baseline has no nuggets to give: the answer says what the question says",
            status="refused",
            call_id=None,
        )
    return {"nuggets": [nugget._asdict() for nugget in found]}


def _rate(task: str, inputs: Json, demos: Sequence[Demo]) -> Json:
    given = _read(_ToRate, task, inputs)
    ratings = importance(given.question, [nugget.text for nugget in given.nuggets])
    return {
        "ratings": [
            {"nugget": nugget.number, "importance": rating}
            for nugget, rating in zip(given.nuggets, ratings, strict=True)
        ]
    }


def _decompose(task: str, inputs: Json, demos: Sequence[Demo]) -> Json:
    given = _read(_LimitedQuestion, task, inputs)
    return {"sub_questions": sub_questions(given.question, given.limit)}


def _answer_closed_book(task: str, inputs: Json, demos: Sequence[Demo]) -> Json:
    return {"answer": closed_book_answer(_read(_Question, task, inputs).question)}


def _judge(task: str, inputs: Json, demos: Sequence[Demo]) -> Json:
    given = _read(JudgeInputs, task, inputs)
    judged = [
        _read(Judged, f"a demonstration of {task}", before | after) for before, after in demos
    ]
    return {"verdicts": [verdict._asdict() for verdict in verdicts(given, judged)]}


def _grade(task: str, inputs: Json, demos: Sequence[Demo]) -> Json:
    found = graded_verdicts(_read(JudgeInputs, task, inputs), _SCALES[task])
    return {
        "verdicts": [
            verdict._asdict() | {"grades": [grade._asdict() for grade in verdict.grades]}
            for verdict in found
        ]
    }


def _synthesize(task: str, inputs: Json, demos: Sequence[Demo]) -> Json:
    given = _read(_Passages, task, inputs)
    texts = [passage.text for passage in given.passages]
    found = queries(texts, given.style_examples, given.limit)
    return {"queries": [query._asdict() for query in found]}


def _decontextualize(task: str, inputs: Json, demos: Sequence[Demo]) -> Json:
    given = _read(_Document, task, inputs)
    return {"passages": passages(given.document, given.title, given.limit)}


def _answer(task: str, inputs: Json, demos: Sequence[Demo]) -> Json:
    given = _read(_ToAnswer, task, inputs)
    passages = {passage.number: passage.text for passage in given.passages}
    found = answer(given.question, passages)
    return {"answerable": bool(found), "sentences": [extract._asdict() for extract in found]}


def _compare(task: str, inputs: Json, demos: Sequence[Demo]) -> Json:
    given = _read(_ToCompare, task, inputs)
    references = {reference.number: reference.text for reference in given.references}
    found = compare(given.question, references, given.answer)
    return {"reason": found.reason, "agrees": "yes" if found.agrees else "no"}


_MAY_BE_EMPTY = frozenset(["verdicts", "answerable", "sentences"])
"""Outputs that say by it that there is nothing."""
_SCALES: dict[str, ScaleName] = {
    "GradeAnswerability": "graded_5",
    "GradeSupport": "graded_3",
    "JudgeSupportLevel": "support",
}
_TASKS: dict[str, Callable[[str, Json, Sequence[Demo]], Json]] = {
    "AnswerClosedBook": _answer_closed_book,
    "AnswerQuestion": _answer,
    "CompareAnswers": _compare,
    "DecomposeQuestion": _decompose,
    "DecontextualizePassages": _decontextualize,
    "GradeAnswerability": _grade,
    "GradeSupport": _grade,
    "JudgeSupport": _judge,
    "JudgeSupportLevel": _grade,
    "NuggetizeAnswer": _nuggetize,
    "RateImportance": _rate,
    "SynthesizeQueries": _synthesize,
}


def _read(model: type[Inputs], task: str, values: Json) -> Inputs:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()
        )
        raise FatalModelError(
            f"extractive/baseline cannot read {task}: {faults}. It answers the signatures of this "
            "package as they are; for changed ones name a real model in [model] name"
        ) from None
