"""Verdicts that give every nugget a grade: what the graded judges have in common."""

from typing import Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from freshstack_dspy.signatures.checks import FilledText
from freshstack_dspy.signatures.judge_support import chunk_faults, numbers_of


def _whole(grade: Any) -> Any:
    if type(grade) is not int:
        raise ValueError(f"a grade is a whole number, not {grade!r}")
    return grade


WHOLE = BeforeValidator(_whole)
"""For `true` and `1.0` are equal to 1, which is all that a `Literal` asks, strict or not."""


class NuggetNumber(BaseModel):
    """Which nugget a grade is of; each scale adds its `grade`."""

    model_config = ConfigDict(extra="forbid")

    nugget: int = Field(description="the number of the nugget")


class GradedChunk(BaseModel):
    """The grades of one chunk's nuggets, and why; each scale names its own kind of grades."""

    model_config = ConfigDict(extra="forbid")

    chunk: int = Field(description="the number of the chunk")
    reason: FilledText = Field(description="one sentence: what in the chunk decides it")
    grades: list[Any] = Field(description="one grade for each nugget")

    def label_of(self, number: int) -> int:
        """The grade of the nugget with this number, wherever it stands."""
        return next(int(graded.grade) for graded in self.grades if graded.nugget == number)


Verdict = TypeVar("Verdict", bound=GradedChunk)


def _complete(verdicts: list[Verdict], info: ValidationInfo) -> list[Verdict]:
    """Refuse grades of what is not there, two grades of one nugget, and nuggets without a grade.

    A left-out nugget is no 0: nobody said so. A left-out chunk is asked about again by itself.
    """
    inputs = info.context or {}
    chunks, nuggets = numbers_of(inputs, "chunks"), numbers_of(inputs, "nuggets")
    if not chunks:
        return verdicts
    faults = chunk_faults([verdict.chunk for verdict in verdicts], chunks)
    for verdict in verdicts:
        graded = [grade.nugget for grade in verdict.grades]
        if invented := sorted(set(graded) - nuggets):
            faults.append(f"chunk {verdict.chunk} grades nugget {invented}, which does not exist")
        if missing := sorted(nuggets - set(graded)):
            faults.append(f"chunk {verdict.chunk} has no grade for nugget {missing}")
        if len(set(graded)) != len(graded):
            faults.append(f"chunk {verdict.chunk} grades a nugget twice")
    if faults:
        raise ValueError("; ".join(faults))
    return verdicts


COMPLETE = AfterValidator(_complete)
"""Of verdicts: every nugget of every chunk has one grade."""
