"""Which chunks were pooled for a query, and what found them."""

from typing import Literal, Self

from pydantic import Field, model_validator

from freshstack_dspy.records.record import Record, Whole

Technique = Literal["question", "sub_questions", "closed_book_answer", "answer", "nuggets"]
CandidateOrigin = Literal[
    "pooled",
    "run",  # a hole of a run, filled by `freshstack extend`
    "seed",  # what a synthetic query was made from
    "carried",  # judged before a refresh, and pooled no more
    "imported",
]

TECHNIQUES: tuple[Technique, ...] = (
    "question",
    "sub_questions",
    "closed_book_answer",
    "answer",
    "nuggets",
)
"""The five pooling techniques: three see the question only, the last two are the oracle's."""


class TechniqueRank(Record):
    """At which rank a technique's fused list holds a chunk (from 1)."""

    technique: Technique
    rank: Whole = Field(ge=1)


class Found(Record):
    """At which rank one retriever found a chunk with one technique's text (from 1)."""

    technique: Technique
    retriever: str
    rank: Whole = Field(ge=1)


class RunRank(Record):
    """At which rank a run that the collection was extended with holds a chunk (from 1)."""

    run: str
    rank: Whole = Field(ge=1)


class Candidate(Record):
    """A chunk to be judged for a query, with everything that found it."""

    query_id: str
    chunk_id: str
    origin: CandidateOrigin = "pooled"
    pooled_by: tuple[TechniqueRank, ...] = ()
    """The fused lists that hold it among their `pool.top_k`."""
    ranked_below: tuple[TechniqueRank, ...] = ()
    """The fused lists that hold it further down, to `pool.depth`."""
    found_by: tuple[Found, ...] = ()
    lost_without: tuple[str, ...] = ()
    """Retrievers without any one of which it would not have been pooled."""
    runs: tuple[RunRank, ...] = ()

    @model_validator(mode="after")
    def _led_back_to_what_brought_it(self) -> Self:
        if self.origin == "pooled" and not (self.pooled_by and self.found_by):
            raise ValueError("a pooled candidate names what pooled it in pooled_by and found_by")
        if self.origin == "run" and not self.runs:
            raise ValueError("a candidate of a run names it in runs")
        return self
