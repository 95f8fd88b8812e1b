"""Which atomic facts does an accepted answer hold, and which must a good answer hold?"""

import json
from collections.abc import Sequence
from typing import Annotated

import dspy
from pydantic import AfterValidator, Field, ValidationInfo

from freshstack_dspy.lm.typed import ACCEPT_LESSER_FAULTS
from freshstack_dspy.records import Importance
from freshstack_dspy.signatures.checks import (
    FilledText,
    Item,
    number_faults,
    numbers_of,
    raise_if,
    within_limit,
)
from freshstack_dspy.signatures.judge_support import NumberedNugget
from freshstack_dspy.text import find_quotation, restates

_SHOWN = 120


class NuggetText(Item):
    """One atomic fact, and where it stands."""

    quote: str = Field(
        description="the words of the answer that state it, copied exactly and as few as will do; "
        "empty if it takes several places"
    )
    text: FilledText


def _faultless(nuggets: list[NuggetText], info: ValidationInfo) -> list[NuggetText]:
    inputs = info.context or {}
    faults = []
    if len({" ".join(nugget.text.lower().split()) for nugget in nuggets}) != len(nuggets):
        faults.append("two nuggets have the same text; state each fact once")
    faults += [
        f"the nugget {_shown(nugget.text)} only restates the question; state what the answer adds, "
        "or leave it out"
        for nugget in nuggets
        if restates(nugget.text, inputs.get("question", ""))
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
        f"the quote {_shown(nugget.quote)} does not stand in the answer; copy its words exactly, "
        "or leave the quote empty"
        for nugget in nuggets
        if nugget.quote.strip() and answer.strip() and not find_quotation(nugget.quote, answer)
    ]


def _shown(text: str) -> str:
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return json.dumps(shown, ensure_ascii=False)


class NuggetizeAnswer(dspy.Signature):
    """List the nuggets of an accepted answer: the atomic facts that any good answer must hold.

    You write grading notes for a technical question. From the question and its accepted answer,
    list the facts that are essential to answering the question, most important first.
    For each nugget first quote the place of the answer that states it, word for word; leave the
    quote empty where the nugget takes several places together.
    Each nugget is one short, self-contained statement that can be checked against a document
    without seeing the question: it names the functions, options, values and causes it is about.
    Take facts only from the answer. Leave out greetings, opinions, repetitions, and what the
    question itself already says. Give at most `limit` nuggets; fewer is better than padding.
    """

    question: str = dspy.InputField(desc="the question, as Markdown")
    answer: str = dspy.InputField(desc="the accepted answer, as Markdown")
    limit: int = dspy.InputField(desc="the largest number of nuggets allowed")
    nuggets: Annotated[list[NuggetText], within_limit("nuggets"), AfterValidator(_faultless)] = (
        dspy.OutputField(desc="the nuggets, most important first", min_length=1)
    )


class RatedNugget(Item):
    """How important one nugget is."""

    nugget: int = Field(description="the number of the nugget")
    importance: Importance


def _each_exactly_once(ratings: list[RatedNugget], info: ValidationInfo) -> list[RatedNugget]:
    if numbers := numbers_of(info.context, "nuggets"):
        rated = [rating.nugget for rating in ratings]
        faults = number_faults("nugget", "rating", rated, numbers)
        if left_out := sorted(numbers - set(rated)):
            faults.append(f"no rating for nugget {left_out}")
        raise_if(faults)
    return ratings


class RateImportance(dspy.Signature):
    """Rate how important each nugget is to a good answer to the question.

    A nugget is a fact that an answer may hold. It is `vital` if an answer without it would not
    answer the question: what solves the problem, or explains it. It is `okay` if it is true and
    worth knowing, but an answer without it could still be a good one: background, alternatives,
    details, cautions. Rate every nugget exactly once, by its number.
    """

    question: str = dspy.InputField(desc="the question that the nuggets belong to, as Markdown")
    nuggets: list[NumberedNugget] = dspy.InputField(desc="the nuggets, numbered")
    ratings: Annotated[list[RatedNugget], AfterValidator(_each_exactly_once)] = dspy.OutputField(
        desc="one rating for each nugget", min_length=1
    )
