"""Verdicts that give every nugget a grade: what the graded judges have in common."""

from typing import Any, TypeVar

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from freshstack_dspy.signatures.checks import FilledText, Item, number_faults, numbers_of, raise_if


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
        """The grade of the nugget with this number, wherever it stands."""
        return next(int(graded.grade) for graded in self.grades if graded.nugget == number)


Verdict = TypeVar("Verdict", bound=GradedChunk)


def _complete(verdicts: list[Verdict], info: ValidationInfo) -> list[Verdict]:
    """A left-out nugget is no 0, but a fault. A left-out chunk is asked about again by itself."""
    chunks, nuggets = numbers_of(info.context, "chunks"), numbers_of(info.context, "nuggets")
    if not chunks:
        return verdicts
    faults = number_faults("chunk", "verdict", (verdict.chunk for verdict in verdicts), chunks)
    for verdict in verdicts:
        graded = [grade.nugget for grade in verdict.grades]
        if invented := sorted(set(graded) - nuggets):
            faults.append(f"chunk {verdict.chunk} grades nugget {invented}, which does not exist")
        if missing := sorted(nuggets - set(graded)):
            faults.append(f"chunk {verdict.chunk} has no grade for nugget {missing}")
        if len(set(graded)) != len(graded):
            faults.append(f"chunk {verdict.chunk} grades a nugget twice")
    raise_if(faults)
    return verdicts


COMPLETE = AfterValidator(_complete)
"""Of verdicts: every nugget of every chunk has one grade."""
