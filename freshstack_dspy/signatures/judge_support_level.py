"""How far does each of several chunks support each nugget: not, in part, or in full?"""

from typing import Annotated, Literal

import dspy
from pydantic import Field

from freshstack_dspy.signatures.grades import COMPLETE, GradedChunk, NuggetNumber
from freshstack_dspy.signatures.judge_support import EACH_CHUNK, JudgingInputs


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
