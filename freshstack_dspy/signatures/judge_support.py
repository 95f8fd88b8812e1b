"""Which nuggets does each of several chunks support?"""

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any

import dspy
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo

from freshstack_dspy.lm.reask import OneForEach
from freshstack_dspy.signatures.checks import FilledText


class NumberedNugget(BaseModel):
    """A nugget as the judge sees it."""

    model_config = ConfigDict(extra="forbid")

    number: int
    text: str


class NumberedChunk(BaseModel):
    """A chunk as the judge sees it."""

    model_config = ConfigDict(extra="forbid")

    number: int
    path: str
    text: str


class ChunkVerdict(BaseModel):
    """What the judge says of one chunk."""

    model_config = ConfigDict(extra="forbid")

    chunk: int = Field(description="the number of the chunk")
    reason: FilledText = Field(description="one sentence: what in the chunk decides it")
    supported: list[int] = Field(
        description="the numbers of the nuggets that the chunk supports; may be empty"
    )

    def label_of(self, number: int) -> int:
        """1 if the chunk supports the nugget with this number, else 0."""
        return int(number in self.supported)


def numbers_of(inputs: Mapping[str, Any], name: str) -> set[int]:
    """The numbers of the nuggets or chunks of a question."""
    return {item["number"] for item in inputs.get(name, [])}


def chunk_faults(answered: Sequence[int], chunks: Collection[int]) -> list[str]:
    """What is wrong with the chunks that verdicts name: one that is not there, or one twice."""
    faults = []
    if unknown := sorted(set(answered) - set(chunks)):
        faults.append(f"there is no chunk {unknown}")
    if repeated := sorted({number for number in answered if answered.count(number) > 1}):
        faults.append(f"more than one verdict for chunk {repeated}")
    return faults


def _no_chunk_twice(verdicts: list[ChunkVerdict], info: ValidationInfo) -> list[ChunkVerdict]:
    inputs = info.context or {}
    chunks, nuggets = numbers_of(inputs, "chunks"), numbers_of(inputs, "nuggets")
    if not chunks:
        return verdicts
    faults = chunk_faults([verdict.chunk for verdict in verdicts], chunks)
    for verdict in verdicts:
        if invented := sorted(set(verdict.supported) - nuggets):
            faults.append(f"chunk {verdict.chunk} supports nugget {invented}, which does not exist")
        if len(set(verdict.supported)) != len(verdict.supported):
            faults.append(f"chunk {verdict.chunk} names a nugget twice")
    if faults:
        raise ValueError("; ".join(faults))
    return verdicts


class JudgeSupport(dspy.Signature):
    """Judge which nuggets each document chunk supports.

    A nugget is a fact that a good answer to the question must hold. A chunk supports a nugget if
    someone who reads only that chunk finds the nugget's information stated, shown in code, or
    following directly from it. Being about the same topic is not support; nor is stating half of
    the nugget. Judge every chunk by itself and every nugget by itself: a chunk may support
    several nuggets or, as most do, none. For each chunk first give the reason, then the numbers
    of the nuggets that it supports. Answer for every chunk exactly once.
    """

    question: str = dspy.InputField(desc="the question that the nuggets belong to")
    nuggets: list[NumberedNugget] = dspy.InputField(desc="the nuggets, numbered")
    chunks: list[NumberedChunk] = dspy.InputField(desc="the chunks, numbered, each with its path")
    verdicts: Annotated[
        list[ChunkVerdict],
        AfterValidator(_no_chunk_twice),
        OneForEach("chunks", number="number", answered="chunk"),
    ] = dspy.OutputField(desc="one verdict for each chunk", min_length=1)
