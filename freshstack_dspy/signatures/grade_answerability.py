"""How well can each nugget be had from each of several chunks, from 0 to 5? After CRUX's scale."""

from typing import Annotated, Literal

import dspy
from pydantic import Field

from freshstack_dspy.signatures.grades import COMPLETE, GradedChunk, NuggetNumber
from freshstack_dspy.signatures.judge_support import EACH_CHUNK, JudgingInputs


class NuggetRating(NuggetNumber):
    """How well one nugget can be had from a chunk."""

    grade: Literal[0, 1, 2, 3, 4, 5] = Field(description="from 0, not at all, to 5, perfectly")


class ChunkRatings(GradedChunk):
    """How well each nugget can be had from one chunk."""

    grades: list[NuggetRating] = Field(description="one grade for each nugget")


class GradeAnswerability(JudgingInputs):
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
