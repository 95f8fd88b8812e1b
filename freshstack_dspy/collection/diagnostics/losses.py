"""Leave one out: what the qrels would lose without one technique or one retriever."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Literal

from freshstack_dspy.collection.diagnostics.pooled import Pooled, QueryChunk
from freshstack_dspy.records import Record


class Loss(Record):
    """What a pool would lack without one technique, or without one retriever."""

    kind: Literal["technique", "retriever"]
    without: str
    """Its name."""
    chunks: int
    """Chunks that would not have been pooled, and so not judged."""
    relevant: int
    """Relevant chunks among them."""
    nuggets: int
    """Supported nuggets that would have no supporting chunk left."""
    queries: int
    """Answerable queries that would not be answerable: a nugget of theirs is lost."""


class Losses(Record):
    """What there is, and what would be lost without each technique and each retriever."""

    chunks: int
    """Pooled chunks."""
    relevant: int
    """Relevant chunks among them."""
    nuggets: int
    """Supported nuggets."""
    queries: int
    """Answerable queries."""
    without: tuple[Loss, ...]
    """The techniques in their order, then the retrievers by name."""


def leave_one_out(pool: Pooled) -> Losses:
    """Say what would be lost without each technique, and without each retriever, alone.

    A chunk is lost without a technique if no other technique pooled it, and without a retriever
    if pooling found so (`Candidate.lost_without`): the lists of every technique were fused anew
    without that retriever. So a chunk that would come in instead is not counted.
    What was judged besides the pool, as the holes of a run, is never lost.
    """
    relevant = pool.relevant
    answerable = {query_id for query_id, part in pool.queries.items() if part.slice == "answerable"}
    supporters: defaultdict[str, set[QueryChunk]] = defaultdict(set)
    for pair, nuggets in pool.support.items():
        for nugget in nuggets:
            supporters[nugget].add(pair)
    losses = []
    for kind, name, lost in _lost(pool):
        gone = [pairs for pairs in supporters.values() if pairs <= lost]
        losses.append(
            Loss(
                kind=kind,
                without=name,
                chunks=len(lost),
                relevant=len(lost & relevant.keys()),
                nuggets=len(gone),
                queries=len({pair.query_id for pairs in gone for pair in pairs} & answerable),
            )
        )
    return Losses(
        chunks=len(pool.candidates),
        relevant=len(relevant),
        nuggets=len(supporters),
        queries=len(answerable),
        without=tuple(losses),
    )


def _lost(
    pool: Pooled,
) -> Iterator[tuple[Literal["technique", "retriever"], str, set[QueryChunk]]]:
    for technique in pool.techniques:
        alone = {
            pair
            for pair, each in pool.candidates.items()
            if {by.technique for by in each.pooled_by} == {technique}
        }
        yield "technique", technique, alone
    for retriever in pool.retrievers:
        needing = {pair for pair, each in pool.candidates.items() if retriever in each.lost_without}
        yield "retriever", retriever, needing
