"""Verdicts that give every nugget a grade: what the graded judges have in common."""

from collections.abc import Sequence
from typing import Any, Protocol

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from freshstack_dspy.signatures.filled import FilledText
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


class ChunkReason(BaseModel):
    """Which chunk the grades are of, and why; each scale adds its `grades`."""

    model_config = ConfigDict(extra="forbid")

    chunk: int = Field(description="the number of the chunk")
    reason: FilledText = Field(description="one sentence: what in the chunk decides it")


class Graded(Protocol):
    """A nugget with its grade, of whatever scale."""

    @property
    def nugget(self) -> int:
        """The number of the nugget."""
        ...

    @property
    def grade(self) -> int:
        """Its grade."""
        ...


class GradedChunk(Protocol):
    """A chunk with the grades of its nuggets, of whatever scale."""

    @property
    def chunk(self) -> int:
        """The number of the chunk."""
        ...

    @property
    def grades(self) -> Sequence[Graded]:
        """One for each nugget."""
        ...


def grade_of(grades: Sequence[Graded], number: int) -> int:
    """The grade of the nugget with a number, wherever it stands."""
    return next(graded.grade for graded in grades if graded.nugget == number)


def check_grades(verdicts: Sequence[GradedChunk], info: ValidationInfo) -> None:
    """Refuse grades of what is not there, two grades of one nugget, and nuggets without a grade.

    A left-out nugget is no 0: nobody said so. A left-out chunk is asked about again by itself.
    """
    inputs = info.context or {}
    chunks, nuggets = numbers_of(inputs, "chunks"), numbers_of(inputs, "nuggets")
    if not chunks:
        return
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
