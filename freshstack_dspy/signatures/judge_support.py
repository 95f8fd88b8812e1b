"""Which nuggets does each of several chunks support?"""

from typing import Annotated

import dspy
from pydantic import AfterValidator, Field, ValidationInfo

from freshstack_dspy.lm.reask import OneForEach
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


def _no_chunk_twice(verdicts: list[ChunkVerdict], info: ValidationInfo) -> list[ChunkVerdict]:
    chunks, nuggets = numbers_of(info.context, "chunks"), numbers_of(info.context, "nuggets")
    if not chunks:
        return verdicts
    faults = number_faults("chunk", "verdict", (verdict.chunk for verdict in verdicts), chunks)
    for verdict in verdicts:
        if invented := sorted(set(verdict.supported) - nuggets):
            faults.append(f"chunk {verdict.chunk} supports nugget {invented}, which does not exist")
        if len(set(verdict.supported)) != len(verdict.supported):
            faults.append(f"chunk {verdict.chunk} names a nugget twice")
    raise_if(faults)
    return verdicts


class JudgeSupport(JudgingInputs):
    """Judge which nuggets each document chunk supports.

    A nugget is a fact that a good answer to the question must hold. A chunk supports a nugget if
    someone who reads only that chunk finds the nugget's information stated, shown in code, or
    following directly from it. Being about the same topic is not support; nor is stating half of
    the nugget. Judge every chunk by itself and every nugget by itself: a chunk may support
    several nuggets or, as most do, none. For each chunk first give the reason, then the numbers
    of the nuggets that it supports. Answer for every chunk exactly once.
    """

    verdicts: Annotated[list[ChunkVerdict], AfterValidator(_no_chunk_twice), EACH_CHUNK] = (
        dspy.OutputField(desc="one verdict for each chunk", min_length=1)
    )
