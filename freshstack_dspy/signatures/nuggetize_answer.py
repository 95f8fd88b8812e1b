"""Which atomic facts does an accepted answer hold?"""

from typing import Annotated

import dspy
from pydantic import AfterValidator, BaseModel, ConfigDict

from freshstack_dspy.signatures.filled import FilledText
from freshstack_dspy.signatures.limit import within_limit


class NuggetText(BaseModel):
    """One atomic fact."""

    model_config = ConfigDict(extra="forbid")

    text: FilledText


def _each_once(nuggets: list[NuggetText]) -> list[NuggetText]:
    texts = [" ".join(nugget.text.lower().split()) for nugget in nuggets]
    if len(set(texts)) != len(texts):
        raise ValueError("two nuggets have the same text; state each fact once")
    return nuggets


class NuggetizeAnswer(dspy.Signature):
    """List the nuggets of an accepted answer: the atomic facts that any good answer must hold.

    You write grading notes for a technical question. From the question and its accepted answer,
    list the facts that are essential to answering the question, most important first.
    Each nugget is one short, self-contained statement that can be checked against a document
    without seeing the question: it names the functions, options, values and causes it is about.
    Take facts only from the answer. Leave out greetings, opinions, repetitions, and what the
    question itself already says. Give at most `limit` nuggets; fewer is better than padding.
    """

    question: str = dspy.InputField(desc="the question, as Markdown")
    answer: str = dspy.InputField(desc="the accepted answer, as Markdown")
    limit: int = dspy.InputField(desc="the largest number of nuggets allowed")
    nuggets: Annotated[list[NuggetText], within_limit("nuggets"), AfterValidator(_each_once)] = (
        dspy.OutputField(desc="the nuggets, most important first", min_length=1)
    )
