"""Which nuggets does each of several chunks support, and how far? One question for each scale."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import dspy
from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from freshstack_dspy.lm.reask import OneForEach
from freshstack_dspy.records import ScaleName
from freshstack_dspy.signatures.checks import FilledText, Item, number_faults, numbers_of, raise_if

EACH_CHUNK = OneForEach("chunks", number="number", answered="chunk")


class NumberedNugget(Item):
    """A nugget as the judge sees it."""

    number: int
    text: str


class NumberedChunk(Item):
    """A chunk as the judge sees it."""

    number: int
    path: str
    text: str


class JudgingInputs(dspy.Signature):
    """What the judge of every scale is given."""

    question: str = dspy.InputField(desc="the question that the nuggets belong to")
    nuggets: list[NumberedNugget] = dspy.InputField(desc="the nuggets, numbered")
    chunks: list[NumberedChunk] = dspy.InputField(desc="the chunks, numbered, each with its path")


def _checked(faults_of: Callable[[Any, set[int]], list[str]]) -> AfterValidator:
    """Check that verdicts are of given chunks, once each, and what they say of the nuggets.

    A chunk that was left out is no fault: it is asked about again by itself.
    """

    def check(verdicts: list[Any], info: ValidationInfo) -> list[Any]:
        if chunks := numbers_of(info.context, "chunks"):
            nuggets = numbers_of(info.context, "nuggets")
            judged = (verdict.chunk for verdict in verdicts)
            faults = number_faults("chunk", "verdict", judged, chunks)
            for verdict in verdicts:
                faults += [
                    f"chunk {verdict.chunk} {fault}" for fault in faults_of(verdict, nuggets)
                ]
            raise_if(faults)
        return verdicts

    return AfterValidator(check)


# --- binary: the nuggets that a chunk supports


class ChunkVerdict(Item):
    """What the judge says of one chunk."""

    chunk: int = Field(description="the number of the chunk")
    reason: FilledText = Field(description="one sentence: what in the chunk decides it")
    supported: list[int] = Field(
        description="the numbers of the nuggets that the chunk supports; may be empty"
    )

    def label_of(self, number: int) -> int:
        """1 if the chunk supports the nugget with this number, else 0."""
        return int(number in self.supported)


def _supported_faults(verdict: ChunkVerdict, nuggets: set[int]) -> list[str]:
    faults = []
    if invented := sorted(set(verdict.supported) - nuggets):
        faults.append(f"supports nugget {invented}, which does not exist")
    if len(set(verdict.supported)) != len(verdict.supported):
        faults.append("names a nugget twice")
    return faults


class JudgeSupport(JudgingInputs):
    """Judge which nuggets each document chunk supports.

    A nugget is a fact that a good answer to the question must hold. A chunk supports a nugget if
    someone who reads only that chunk finds the nugget's information stated, shown in code, or
    following directly from it. Being about the same topic is not support; nor is stating half of
    the nugget. Judge every chunk by itself and every nugget by itself: a chunk may support
    several nuggets or, as most do, none. For each chunk first give the reason, then the numbers
    of the nuggets that it supports. Answer for every chunk exactly once.
    """

    verdicts: Annotated[list[ChunkVerdict], _checked(_supported_faults), EACH_CHUNK] = (
        dspy.OutputField(desc="one verdict for each chunk", min_length=1)
    )


# --- graded: a grade for every nugget


class NuggetNumber(Item):
    """Which nugget a grade is of; each scale adds its `grade`."""

    nugget: int = Field(description="the number of the nugget")

    @field_validator("grade", mode="before", check_fields=False)
    @classmethod
    def _grade_is_a_whole_number(cls, grade: Any) -> Any:
        """`true` and `1.0` equal 1, which is all that a `Literal` asks, strict or not."""
        if type(grade) is not int:
            raise ValueError(f"a grade is a whole number, not {grade!r}")
        return grade


class GradedChunk(Item):
    """The grades of one chunk's nuggets, and why; each scale names its own kind of grades."""

    chunk: int = Field(description="the number of the chunk")
    reason: FilledText = Field(description="one sentence: what in the chunk decides it")
    grades: list[Any] = Field(description="one grade for each nugget")

    def label_of(self, number: int) -> int:
        """The grade of the nugget with this number."""
        return next(int(graded.grade) for graded in self.grades if graded.nugget == number)


def _grade_faults(verdict: GradedChunk, nuggets: set[int]) -> list[str]:
    """What is wrong with the grades; a left-out nugget is a fault, and no 0."""
    graded = [grade.nugget for grade in verdict.grades]
    faults = []
    if invented := sorted(set(graded) - nuggets):
        faults.append(f"grades nugget {invented}, which does not exist")
    if missing := sorted(nuggets - set(graded)):
        faults.append(f"has no grade for nugget {missing}")
    if len(set(graded)) != len(graded):
        faults.append("grades a nugget twice")
    return faults


COMPLETE = _checked(_grade_faults)


class NuggetLevel(NuggetNumber):
    """How far a chunk supports one nugget."""

    grade: Literal[0, 1, 2] = Field(description="0: no support, 1: partial, 2: full")


class ChunkLevels(GradedChunk):
    """How far one chunk supports each nugget."""

    grades: list[NuggetLevel] = Field(description="one grade for each nugget")


class JudgeSupportLevel(JudgingInputs):
    """Judge how far each document chunk supports each nugget.

    A nugget is a fact that a good answer to the question must hold. Imagine someone who reads
    only the chunk, and give each nugget its grade:

    2, full support: the reader finds everything that the nugget says stated, shown in code, or
    following directly from the chunk.
    1, partial support: the reader finds some of what the nugget says, and a part that matters is
    missing, vaguer or restricted to another case.
    0, no support: the reader finds nothing of it, or the contrary. Being about the same topic is
    no support.

    Judge every chunk by itself and every nugget by itself. For each chunk first give the reason,
    then the grade of every nugget. Answer for every chunk exactly once.
    """

    verdicts: Annotated[list[ChunkLevels], COMPLETE, EACH_CHUNK] = dspy.OutputField(
        desc="one verdict for each chunk", min_length=1
    )


class NuggetGrade(NuggetNumber):
    """How well a chunk supports one nugget."""

    grade: Literal[0, 1, 2, 3] = Field(description="from 0, unrelated, to 3, stated in full")


class ChunkGrades(GradedChunk):
    """How well one chunk supports each nugget."""

    grades: list[NuggetGrade] = Field(description="one grade for each nugget")


class GradeSupport(JudgingInputs):  # after UMBRELA's scale
    """Grade how well each document chunk supports each nugget.

    A nugget is a fact that a good answer to the question must hold. Give each nugget a grade:

    3: the chunk is about this fact and states or shows all of it.
    2: the chunk holds the fact or most of it, but among other things, in passing or not plainly.
    1: the chunk is about the same matter and does not hold the fact.
    0: the chunk has nothing to do with the fact.

    Judge every chunk by itself and every nugget by itself. For each chunk first give the reason,
    then the grade of every nugget. Answer for every chunk exactly once.
    """

    verdicts: Annotated[list[ChunkGrades], COMPLETE, EACH_CHUNK] = dspy.OutputField(
        desc="one verdict for each chunk", min_length=1
    )


class NuggetRating(NuggetNumber):
    """How well one nugget can be had from a chunk."""

    grade: Literal[0, 1, 2, 3, 4, 5] = Field(description="from 0, not at all, to 5, perfectly")


class ChunkRatings(GradedChunk):
    """How well each nugget can be had from one chunk."""

    grades: list[NuggetRating] = Field(description="one grade for each nugget")


class GradeAnswerability(JudgingInputs):  # after CRUX's scale
    """Grade how well whoever has only one document chunk could come to know each nugget.

    A nugget is a fact that a good answer to the question must hold. Take it as a question of its
    own, ask that of the chunk alone, and grade what the chunk has to answer:

    5: all of the fact, exact and beyond doubt.
    4: nearly all of it; what is missing is a detail.
    3: enough of it to be used, though something is left open.
    2: some of it, too little to be used alone.
    1: a hint in its direction and no more.
    0: nothing of it.

    Judge every chunk by itself and every nugget by itself. For each chunk first give the reason,
    then the grade of every nugget. Answer for every chunk exactly once.
    """

    verdicts: Annotated[list[ChunkRatings], COMPLETE, EACH_CHUNK] = dspy.OutputField(
        desc="one verdict for each chunk", min_length=1
    )


JUDGES: dict[ScaleName, Any] = {
    "binary": JudgeSupport,
    "support": JudgeSupportLevel,
    "graded_3": GradeSupport,
    "graded_5": GradeAnswerability,
}
"""The judge's question on each scale; the items of `verdicts` give the label of a nugget by its
number (`label_of`)."""
