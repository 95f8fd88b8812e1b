"""The baseline's reply to a prompt: from a task's name and its inputs to its outputs."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError, validate_call

from freshstack_dspy.errors import FatalModelError, ReplyError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.lm.baseline.answers import answer, compare, grade
from freshstack_dspy.lm.baseline.nuggets import importance, nuggets
from freshstack_dspy.lm.baseline.questions import (
    closed_book_answer,
    queries,
    report_questions,
    report_request,
    sub_questions,
)
from freshstack_dspy.lm.baseline.relevance import grades, updated
from freshstack_dspy.lm.baseline.standalone import passages
from freshstack_dspy.lm.baseline.support import Json, JudgeInputs, Numbered, verdicts
from freshstack_dspy.records import ScaleName


class _Passage(BaseModel):
    text: str


def reply(task: str, inputs: Json, demos: Sequence[tuple[Json, Json]] = ()) -> Json:
    """Answer one prompt, by the name of its signature; all values are as JSON has them.

    Only `JudgeSupport` and `JudgeSupportLevel` use the demonstrations: their labels set the
    threshold. A task or inputs of others are a FatalModelError, and a blank text a ReplyError.
    """
    if task not in _TASKS:
        named = "" if task == "answer" else f", {task}"  # `typed.UNNAMED`
        raise FatalModelError(
            "extractive/baseline answers the signatures of this package alone, and was asked for "
            f"another{named}: name a real model in [model] name, "
            "as openai/gpt-4o, or give the program a model of its own, set_lm(connect(…))"
        )
    answered = _TASKS[task]
    if task in ("JudgeSupport", "JudgeSupportLevel"):
        answered = partial(answered, demos=[(_flat(given), said) for given, said in demos])
    try:
        outputs = answered(**_flat(inputs))
    except ValidationError as error:
        raise FatalModelError(
            f"extractive/baseline cannot read {task}: {first_fault(error)}. It answers the "
            "signatures of this package as they are; for changed ones name a real model in [model] "
            "name"
        ) from None
    for field, value in outputs.items():
        if not value and field not in _MAY_BE_EMPTY:
            raise ReplyError(
                f"{task}: the baseline has no {field} to give, because the text is blank",
                status="failed",
                call_id=None,
            )
    return outputs


def _flat(inputs: Json) -> Json:
    """The inputs with the question as its title and body, in one text."""
    if isinstance(question := inputs.get("question"), dict):
        text = f"{question.get('title', '')} {question.get('body', '')}".strip()
        return {**inputs, "question": text}
    return inputs


def _judge(scale: ScaleName, demos: Sequence[tuple[Json, Json]] = (), **inputs: Any) -> Json:
    judged = [JudgeInputs.model_validate(before | after) for before, after in demos]
    return {"verdicts": verdicts(JudgeInputs.model_validate(inputs), scale, judged)}


@validate_call
def _synthesize(passages: list[_Passage], style_examples: list[str], limit: int) -> Json:
    return {"queries": queries([passage.text for passage in passages], style_examples, limit)}


@validate_call
def _answer(question: str, passages: list[Numbered]) -> Json:
    found = answer(question, {passage.number: passage.text for passage in passages})
    return {"answerable": bool(found), "sentences": found}


_References = Annotated[list[Numbered], Field(min_length=1)]


@validate_call
def _relevance(question: str, passages: list[Numbered]) -> Json:
    return {"grades": grades(question, {passage.number: passage.text for passage in passages})}


@validate_call
def _update(question: str, passages: list[Numbered], nuggets: list[Numbered], limit: int) -> Json:
    shown, listed = ({one.number: one.text for one in given} for given in (passages, nuggets))
    return {"found": updated(question, shown, listed, limit)}


@validate_call
def _rate(question: str, nuggets: list[Numbered]) -> Json:
    rated = zip(nuggets, importance(question, [one.text for one in nuggets]), strict=True)
    return {"ratings": [{"nugget": one.number, "importance": how} for one, how in rated]}


@validate_call
def _compare(question: str, references: _References, answer: str) -> Json:
    return compare(question, {one.number: one.text for one in references}, answer)


@validate_call
def _grade(question: str, references: _References, answer: str) -> Json:
    return grade(question, {one.number: one.text for one in references}, answer)


@validate_call
def _report(request: dict[str, Any], passages: list[Numbered], words: int) -> Json:
    asked = _flat({"question": request})["question"]
    found = answer(asked, {passage.number: passage.text for passage in passages})
    text = " ".join(sentence["text"] for sentence in found) or closed_book_answer(asked)
    return {"report": " ".join(text.split()[:words])}


def _giving(field: str, function: Callable[..., Any]) -> Callable[..., Json]:
    validated = validate_call(function)
    return lambda **inputs: {field: validated(**inputs)}


_MAY_BE_EMPTY = frozenset(["nuggets", "found", "verdicts", "answerable", "sentences"])
"""Outputs that say by it that there is nothing."""
_TASKS: dict[str, Callable[..., Json]] = {
    "AnswerClosedBook": _giving("answer", closed_book_answer),
    "AnswerQuestion": _answer,
    "CompareAnswers": _compare,
    "DecomposeQuestion": _giving("sub_questions", sub_questions),
    "DecontextualizePassages": _giving("passages", passages),
    "GradeAgreement": _grade,
    "GradeAnswerability": partial(_judge, "graded_5"),
    "GradeRelevance": _relevance,
    "GradeSupport": partial(_judge, "graded_3"),
    "JudgeSupport": partial(_judge, "binary"),
    "JudgeSupportLevel": partial(_judge, "support"),
    "NuggetizeAnswer": _giving("nuggets", nuggets),
    "RateImportance": _rate,
    "SynthesizeQueries": _synthesize,
    "UpdateNuggets": _update,
    "WriteReport": _report,
    "WriteReportRequest": _giving("request", report_request),
    "WriteSubQuestions": _giving("questions", report_questions),
}
