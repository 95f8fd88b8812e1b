"""Which facts do passages hold that answer a question? For questions without an answer."""

from typing import Annotated, Literal

import dspy
from pydantic import AfterValidator, Field, ValidationInfo

from freshstack_dspy.lm.reask import OneForEach
from freshstack_dspy.lm.schemas import Bound, NuggetNumber, PassageNumber, Reason
from freshstack_dspy.lm.typed import named
from freshstack_dspy.records import Importance
from freshstack_dspy.signatures.judge_support import NumberedChunk, NumberedNugget
from freshstack_dspy.signatures.question import PromptPart, ShownQuestion
from freshstack_dspy.signatures.reply_rules import (
    DISTINCT,
    WHOLE,
    Sentence,
    each_once,
    numbers_of,
    quoted,
    raise_if,
    within_limit,
)
from freshstack_dspy.text import restates


class PassageGrade(PromptPart):
    """How relevant one passage is."""

    passage: PassageNumber = Field(description="the number of the passage")
    reason: Reason = Field(description="one sentence: what in the passage decides it")
    grade: Annotated[Literal[0, 1, 2, 3], WHOLE] = Field(
        description="from 0, unrelated, to 3, dedicated to it"
    )


@named
class GradeRelevance(dspy.Signature):  # UMBRELA's scale, several passages in one call
    """Grade how relevant each passage is to a question.

    3: the passage is about what was asked, and what answers it is stated there exactly.
    2: it holds some of the answer, but unclearly, incompletely or among other things.
    1: it is about the same matter and does not answer any of the question.
    0: it has nothing to do with the question.

    Think of what the asker wants to know or to do, and how much of that someone learns who reads
    the passage. Code and tests count: code that does what was asked states it exactly, also if it
    calls a public library for it, is written for one library or format where the question names
    none, or looks as if it had a bug. It is 2 if the lines that matter stand within code for
    another purpose, if the code ignores a condition of the question, or if a helper that is not
    shown does the main step. Where only a name, a signature or a comment says that it is done, and
    for the inverse of what was asked, it is 1. A short question that can be read in several ways
    is answered by a passage that answers any plausible reading.

    Grade every passage by itself. For each passage first give the reason, then the grade. Answer
    for every passage exactly once.
    """

    question: ShownQuestion = dspy.InputField(desc="the question; its body is Markdown")
    passages: list[NumberedChunk] = dspy.InputField(
        desc="the passages, numbered, each with its path and the headings that it is below"
    )
    grades: Annotated[
        list[PassageGrade],
        DISTINCT,
        each_once("grade", "passage"),
        OneForEach("passages", number="number", answered="passage"),
    ] = dspy.OutputField(desc="one grade for each passage", min_length=1)


class FoundNugget(PromptPart):
    """A nugget of the list as it is now, and where it comes from."""

    text: Sentence
    nuggets: Annotated[list[NuggetNumber], DISTINCT] = Field(
        description="the numbers of the listed nuggets that it keeps, rewords or merges; empty for "
        "a new one"
    )
    passages: Annotated[list[PassageNumber], DISTINCT] = Field(
        description="the numbers of the passages that state it; may be empty for a listed one"
    )


def _grounded(nuggets: list[FoundNugget], info: ValidationInfo) -> list[FoundNugget]:
    inputs = info.context or {}
    question = ShownQuestion.model_validate(inputs.get("question", {})).text
    faults = []
    if len({" ".join(nugget.text.lower().split()) for nugget in nuggets}) != len(nuggets):
        faults.append("two nuggets have the same text; state each fact once")
    for nugget in nuggets:
        name = f"the nugget {quoted(nugget.text)}"
        if not nugget.nuggets and not nugget.passages:
            faults.append(
                f"{name} names no passage and no listed nugget; leave it out, or say where"
            )
        if restates(nugget.text, question):
            faults.append(f"{name} only restates the question; leave it out")
        for key, numbers in (("passages", nugget.passages), ("nuggets", nugget.nuggets)):
            if inputs and (unknown := sorted(set(numbers) - numbers_of(inputs, key))):
                faults.append(f"{name} names {key} {unknown}, which do not exist")
    raise_if(faults)
    return nuggets


@named
class UpdateNuggets(dspy.Signature):  # after AutoNuggetizer's iterative creation
    """Update the nuggets of a question, the facts that a good answer holds, from more passages.

    You write grading notes for a question that nobody has answered yet. From the passages, and
    from nothing else that you know, take the facts that answer the question. Given are the nuggets
    found so far; return the whole list as it should be now: keep what is there, reword or merge
    nuggets where the passages show how, and add what is new. Drop a nugget only if there are
    better ones and the list is full.
    A nugget is one fact, in one short sentence that stands alone: it names the concepts, products,
    functions, options, values and causes that it is about. Leave out what the question itself
    says, what does not help its asker, opinions and bare links. State each fact once.
    For each nugget give the numbers of the listed nuggets that it takes up, and of the passages
    here that state it; one that is new is stated by at least one of them. Give the most important
    first, and at most `limit`; passages that answer nothing add nothing.
    """

    question: ShownQuestion = dspy.InputField(desc="the question; its body is Markdown")
    passages: list[NumberedChunk] = dspy.InputField(
        desc="the passages, numbered, each with its path and the headings that it is below"
    )
    nuggets: list[NumberedNugget] = dspy.InputField(
        desc="the nuggets found so far, numbered; may be empty"
    )
    limit: int = dspy.InputField(desc="the largest number of nuggets allowed")
    found: Annotated[
        list[FoundNugget],
        DISTINCT,
        within_limit("nuggets"),
        AfterValidator(_grounded),
        Bound(most="limit"),
    ] = dspy.OutputField(desc="the whole list of nuggets now, most important first; may be empty")


class RatedNugget(PromptPart):
    """How much a good answer needs one nugget."""

    nugget: NuggetNumber = Field(description="the number of the nugget")
    importance: Importance


@named
class RateImportance(dspy.Signature):
    """Rate how much a good answer to a question needs each nugget.

    vital: an answer without it would not answer the question.
    okay: it is worth saying and not needed: background, an alternative, a detail or a caution.

    Rate every nugget exactly once.
    """

    question: ShownQuestion = dspy.InputField(desc="the question; its body is Markdown")
    nuggets: list[NumberedNugget] = dspy.InputField(desc="the nuggets, numbered")
    ratings: Annotated[
        list[RatedNugget],
        DISTINCT,
        each_once("rating", "nugget"),
        OneForEach("nuggets", number="number", answered="nugget"),
    ] = dspy.OutputField(desc="one rating for each nugget", min_length=1)
