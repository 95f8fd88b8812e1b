"""Which nuggets does each of several chunks support, and how far? One question for each scale."""

import functools
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import dspy
from pydantic import Field, TypeAdapter

from freshstack_dspy.lm.reask import OneForEach
from freshstack_dspy.lm.schemas import Bound, ChunkNumber, NuggetNumber, Reason
from freshstack_dspy.lm.typed import ACCEPT_LESSER_FAULTS, named
from freshstack_dspy.records import ScaleName
from freshstack_dspy.signatures.question import PromptPart, ShownQuestion
from freshstack_dspy.signatures.reply_rules import (
    DISTINCT,
    WHOLE,
    each_once,
    numbers_of,
    quoted,
)
from freshstack_dspy.text import find_quotation

EACH_CHUNK = OneForEach("chunks", number="number", answered="chunk")


class NumberedNugget(PromptPart):
    """A nugget as the judge sees it."""

    number: int
    text: str


class NumberedChunk(PromptPart):
    """A chunk as the judge sees it, without path and headings where it has none."""

    number: int
    path: str = ""
    headings: tuple[str, ...] = ()
    text: str


class JudgingInputs(dspy.Signature):
    """What the judge of every scale is given."""

    question: ShownQuestion = dspy.InputField(desc="the question that the nuggets belong to")
    nuggets: list[NumberedNugget] = dspy.InputField(desc="the nuggets, numbered")
    chunks: list[NumberedChunk] = dspy.InputField(
        desc="the chunks, numbered, each with its path and the headings that it is below"
    )


class OneChunk(PromptPart):
    """What the judge says of one chunk; each scale adds its own."""

    chunk: ChunkNumber = Field(description="the number of the chunk")
    reason: Reason = Field(description="one sentence: what in the chunk decides it")

    def quotes_of(self, _number: int) -> list[str]:
        """The words that show the support of the nugget with this number, where it is asked for."""
        return []


# --- binary: the nuggets that a chunk supports


class ChunkVerdict(OneChunk):
    """What the judge says of one chunk."""

    supported: Annotated[list[NuggetNumber], DISTINCT] = Field(
        description="the numbers of the nuggets that the chunk supports; may be empty"
    )

    def label_of(self, number: int) -> int:
        """1 if the chunk supports the nugget with this number, else 0."""
        return int(number in self.supported)


def _named_faults(named: list[int], inputs: Mapping[str, Any]) -> list[str]:
    """What is wrong with the nuggets that a chunk's verdict names; for the chunks, see `each_once`."""
    faults = []
    if invented := sorted(set(named) - numbers_of(inputs, "nuggets")):
        faults.append(f"names nugget {invented}, which does not exist")
    if repeated := sorted(number for number, count in Counter(named).items() if count > 1):
        faults.append(f"has two different grades for nugget {repeated}; give one")
    return faults


def _supported_faults(verdict: ChunkVerdict, inputs: Mapping[str, Any]) -> list[str]:
    return _named_faults(verdict.supported, inputs)


@named
class JudgeSupport(JudgingInputs):
    """Judge which nuggets each document chunk supports.

    A nugget is a fact that a good answer to the question must hold. A chunk supports a nugget if
    someone who reads only that chunk finds the nugget's information stated, shown in code or
    tests, or following directly from it. Being about the same topic is not support; nor is stating
    half of the nugget. Judge every chunk by itself and every nugget by itself: a chunk may support
    several nuggets or, as most do, none. For each chunk first give the reason, then the numbers
    of the nuggets that it supports. Answer for every chunk exactly once.
    """

    verdicts: Annotated[
        list[ChunkVerdict], DISTINCT, each_once("verdict", "chunk", _supported_faults), EACH_CHUNK
    ] = dspy.OutputField(desc="one verdict for each chunk", min_length=1)


# --- support: full or partial, with the words that show it


class OneNugget(PromptPart):
    """Which nugget a grade is of; each scale adds its `grade`."""

    nugget: NuggetNumber = Field(description="the number of the nugget")


class SupportedNugget(OneNugget):
    """How far a chunk supports one nugget, and the words that show it."""

    grade: Annotated[Literal[1, 2], WHOLE] = Field(
        description="2: full support, 1: partial support"
    )
    quotes: list[str] = Field(
        min_length=1,
        max_length=2,
        description="the words of the chunk's text that show it, copied exactly and as few as "
        "will do: one quote, or two where one place does not show it",
    )


class ChunkSupport(OneChunk):
    """Which nuggets one chunk supports; those that it does not list have no support."""

    supported: Annotated[list[SupportedNugget], DISTINCT] = Field(
        description="the nuggets with full or partial support, and no others; may be empty"
    )

    def label_of(self, number: int) -> int:
        """The grade of the nugget with this number; 0 where it is not listed."""
        return next((graded.grade for graded in self.supported if graded.nugget == number), 0)

    def quotes_of(self, number: int) -> list[str]:
        """The words that show the support of the nugget with this number."""
        return next((graded.quotes for graded in self.supported if graded.nugget == number), [])


def _evidence_faults(verdict: ChunkSupport, inputs: Mapping[str, Any]) -> list[str]:
    faults = _named_faults([graded.nugget for graded in verdict.supported], inputs)
    if ACCEPT_LESSER_FAULTS not in inputs:
        texts = {chunk["number"]: chunk["text"] for chunk in inputs["chunks"]}
        faults += [
            f"does not have the words {quoted(quote)}, quoted for nugget {graded.nugget}; copy them "
            "exactly"
            for graded in verdict.supported
            for quote in graded.quotes
            if not find_quotation(quote, texts.get(verdict.chunk, ""))
        ]
    return faults


@named
class JudgeSupportLevel(JudgingInputs):
    """Judge how far each document chunk supports each nugget, and quote the words that show it.

    A nugget is a fact that a good answer to the question should hold. Read every chunk by itself
    and go through all nuggets one by one. Give each its grade:

    2, full support: someone who reads only this chunk learns what the nugget says.
    1, partial support: the reader learns a substantial part of what the nugget says: its main
    point without a qualifier, a number or an example; one of several parts; the same claim made
    weaker, more general or more special.
    0, no support: the reader learns none of what the nugget claims. That the chunk is about the
    same topic is not support.

    Judge the meaning, not the words: paraphrases, near-synonyms and other languages count, and so
    does what any attentive reader concludes at once, also from several places of the chunk
    together. What takes an expert's further reasoning does not count. Code and tests count as
    evidence. For full support every conjunct, number and qualifier that changes the meaning must
    be there. A reported or hedged claim fully supports a nugget that is hedged as much and a firmer
    one partially. A claim that the chunk denies, or makes of another subject, cause, version or
    direction, is no support; one of another version of the same API is partial support where the
    nugget's fact still holds. Pronouns in a nugget are read with the question in mind; the chunk's
    path and headings may supply the subject. Facts are judged as of the documents.

    For each chunk first give the reason, then list the nuggets with grade 1 or 2 only, each with
    its evidence: the words of the chunk that show it, copied exactly and as few as will do, in
    one quote, or two where one place does not show it. Answer for every chunk exactly once.
    """

    verdicts: Annotated[
        list[ChunkSupport], DISTINCT, each_once("verdict", "chunk", _evidence_faults), EACH_CHUNK
    ] = dspy.OutputField(desc="one verdict for each chunk", min_length=1)


# --- graded: a grade for every nugget


class GradedChunk(OneChunk):
    """The grades of one chunk's nuggets; each scale names its own kind of grades."""

    grades: list[Any] = Field(description="one grade for each nugget")

    def label_of(self, number: int) -> int:
        """The grade of the nugget with this number."""
        return next(int(graded.grade) for graded in self.grades if graded.nugget == number)


def _grade_faults(verdict: GradedChunk, inputs: Mapping[str, Any]) -> list[str]:
    """What is wrong with the grades; a left-out nugget is a fault, and no 0."""
    graded = [grade.nugget for grade in verdict.grades]
    faults = _named_faults(graded, inputs)
    if missing := sorted(numbers_of(inputs, "nuggets") - set(graded)):
        faults.append(f"has no grade for nugget {missing}")
    return faults


COMPLETE = each_once("verdict", "chunk", _grade_faults)


class NuggetGrade(OneNugget):
    """How well a chunk supports one nugget."""

    grade: Annotated[Literal[0, 1, 2, 3], WHOLE] = Field(
        description="from 0, unrelated, to 3, stated in full"
    )


class ChunkGrades(GradedChunk):
    """How well one chunk supports each nugget."""

    grades: Annotated[list[NuggetGrade], DISTINCT, Bound(least=True)] = Field(
        description="one grade for each nugget"
    )


@named
class GradeSupport(JudgingInputs):  # after UMBRELA's scale
    """Grade how well each document chunk supports each nugget.

    A nugget is a fact that a good answer to the question must hold. Give each nugget a grade:

    3: the chunk is about this fact and states or shows all of it.
    2: the chunk holds the fact or most of it, but among other things, in passing or not plainly.
    1: the chunk is about the same matter and does not hold the fact.
    0: the chunk has nothing to do with the fact.

    Code and tests count as evidence. Judge every chunk by itself and every nugget by itself. For
    each chunk first give the reason, then the grade of every nugget. Answer for every chunk exactly
    once.
    """

    verdicts: Annotated[list[ChunkGrades], DISTINCT, COMPLETE, EACH_CHUNK] = dspy.OutputField(
        desc="one verdict for each chunk", min_length=1
    )


class NuggetRating(OneNugget):
    """How well one nugget can be had from a chunk."""

    grade: Annotated[Literal[0, 1, 2, 3, 4, 5], WHOLE] = Field(
        description="from 0, not at all, to 5, perfectly"
    )


class ChunkRatings(GradedChunk):
    """How well each nugget can be had from one chunk."""

    grades: Annotated[list[NuggetRating], DISTINCT, Bound(least=True)] = Field(
        description="one grade for each nugget"
    )


@named
class GradeAnswerability(JudgingInputs):  # after CRUX's scale
    """Grade how well whoever has only one document chunk could come to know each nugget.

    A nugget is a fact that a good answer to the question must hold, or a sub-question that it must
    answer. Take a fact as a question of its own too, ask each question of the chunk alone, and
    grade what the chunk has to answer:

    5: all of the answer, exact and beyond doubt.
    4: nearly all of it; what is missing is a detail.
    3: enough of it to be used, though something is left open.
    2: some of it, too little to be used alone.
    1: a hint in its direction and no more.
    0: nothing of it.

    Code and tests count as evidence. Judge every chunk by itself and every nugget by itself. For
    each chunk first give the reason, then the grade of every nugget. Answer for every chunk exactly
    once.
    """

    verdicts: Annotated[list[ChunkRatings], DISTINCT, COMPLETE, EACH_CHUNK] = dspy.OutputField(
        desc="one verdict for each chunk", min_length=1
    )


JUDGES: dict[ScaleName, Any] = {
    "binary": JudgeSupport,
    "support": JudgeSupportLevel,
    "graded_3": GradeSupport,
    "graded_5": GradeAnswerability,
}
"""The judge's question on each scale; the items of `verdicts` give the label of a nugget by its
number (`label_of`). The classes' names are sent with a request and are in the keys of recorded
replies, so they stay."""


@functools.cache
def verdicts_on(scale: ScaleName) -> TypeAdapter[Any]:
    """What makes the items of `verdicts` from plain JSON."""
    annotation: Any = JUDGES[scale].output_fields["verdicts"].annotation
    return TypeAdapter(annotation)
