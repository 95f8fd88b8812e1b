"""Which atomic facts does an accepted answer hold?"""

from collections.abc import Sequence
from typing import Annotated

import dspy
from pydantic import AfterValidator, Field, ValidationInfo

from freshstack_dspy.lm.schemas import Bound
from freshstack_dspy.lm.typed import ACCEPT_LESSER_FAULTS, named
from freshstack_dspy.records import Importance
from freshstack_dspy.signatures.question import PromptPart, ShownQuestion
from freshstack_dspy.signatures.reply_rules import (
    DISTINCT,
    Sentence,
    quoted,
    raise_if,
    within_limit,
)
from freshstack_dspy.text import find_quotation, restates


class NuggetText(PromptPart):
    """One atomic fact, the words that state it, and how much a good answer needs it."""

    quote: str = Field(
        description="the words of the answer that state it, copied exactly and as few as will do; "
        "empty if it takes several places"
    )
    text: Sentence
    importance: Importance = Field(
        description="vital: an answer without it would not answer the question; okay: background, "
        "an alternative, a detail or a caution"
    )
    doubtful: bool = Field(
        description="true if it is plainly wrong, or the answer itself takes it back or "
        "contradicts it"
    )


def _faultless(nuggets: list[NuggetText], info: ValidationInfo) -> list[NuggetText]:
    inputs = info.context or {}
    question = ShownQuestion.model_validate(inputs.get("question", {})).text
    faults = []
    if len({" ".join(nugget.text.lower().split()) for nugget in nuggets}) != len(nuggets):
        faults.append("two nuggets have the same text; state each fact once")
    faults += [
        f"the nugget {quoted(nugget.text)} only restates the question; state what the answer adds, "
        "or leave it out"
        for nugget in nuggets
        if restates(nugget.text, question)
    ]
    if ACCEPT_LESSER_FAULTS not in inputs:
        faults += misquotations(nuggets, inputs.get("answer", ""))
    raise_if(faults)
    return nuggets


def misquotations(nuggets: Sequence[NuggetText], answer: str) -> list[str]:
    """What is wrong with the quotes of nuggets: one line for each that is not in the answer.

    A blank quote is right, and so is every quote where the answer is unknown, and so blank.
    """
    return [
        f"the quote {quoted(nugget.quote)} is not in the answer; copy its words exactly, "
        "or leave the quote empty"
        for nugget in nuggets
        if nugget.quote.strip() and answer.strip() and not find_quotation(nugget.quote, answer)
    ]


@named
class NuggetizeAnswer(dspy.Signature):
    """List the nuggets of an accepted answer: the atomic facts that a good answer holds.

    You write grading notes for a question. From the question and its accepted answer, list the
    facts that answer the question, most important first.
    For each nugget first quote the place of the answer that states it, word for word; leave the
    quote empty where the nugget takes several places together.
    Then state it: one fact, in one short sentence that stands alone. Two facts are two nuggets.
    Someone who sees neither the question nor the answer must be able to check it against a
    document, so it names the concepts, products, functions, options, values and causes that it is
    about, and has no "it" or "this" that refers to something else.
    Take facts only from the answer. That something it recommends does what was asked for is one.
    Leave out greetings, other opinions, repetitions, what the question itself already says, bare
    links, names in a list that were not asked for, and versions that make no difference to the
    answer.
    Then rate it vital or okay, and mark it as doubtful if it is plainly wrong, or if the answer
    itself takes it back or contradicts it.
    Give at most `limit` nuggets, doubtful ones not counted; fewer is better than padding, and an
    answer that states no fact, such as one that only refers to another page, has none.
    """

    question: ShownQuestion = dspy.InputField(desc="the question; its body is Markdown")
    answer: str = dspy.InputField(desc="the accepted answer, as Markdown")
    limit: int = dspy.InputField(desc="the largest number of nuggets allowed")
    nuggets: Annotated[
        list[NuggetText],
        DISTINCT,
        within_limit("nuggets", counted=lambda nugget: not nugget.doubtful),
        AfterValidator(_faultless),
        Bound(most="limit", times=2),  # doubtful ones do not count
    ] = dspy.OutputField(desc="the nuggets, most important first; may be empty")
