"""How well does each of several chunks answer each nugget, from 0 to 3? After UMBRELA's scale."""

from typing import Annotated, Literal

import dspy
from pydantic import Field

from freshstack_dspy.signatures.grades import COMPLETE, GradedChunk, NuggetNumber
from freshstack_dspy.signatures.judge_support import EACH_CHUNK, JudgingInputs


class NuggetGrade(NuggetNumber):
    """How well a chunk supports one nugget."""

    grade: Literal[0, 1, 2, 3] = Field(description="from 0, unrelated, to 3, stated in full")


class ChunkGrades(GradedChunk):
    """How well one chunk supports each nugget."""

    grades: list[NuggetGrade] = Field(description="one grade for each nugget")


class GradeSupport(JudgingInputs):
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
