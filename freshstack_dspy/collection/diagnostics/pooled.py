"""The pool of some queries, beside what its chunks were judged to support."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.records import (
    TECHNIQUES,
    Candidate,
    CandidateOrigin,
    QuerySlice,
    SliceName,
    Technique,
)


class QueryChunk(NamedTuple):
    """A chunk as a candidate of a query."""

    query_id: str
    chunk_id: str


class Pooled(NamedTuple):
    """The pool of some queries. A chunk is relevant to a query if it supports one of its nuggets."""

    queries: dict[str, QuerySlice]
    """The queries by id, ascending."""
    candidates: dict[QueryChunk, Candidate]
    """What the techniques pooled."""
    outside: dict[CandidateOrigin, int]
    """Candidates that no technique pooled, by how they came in; their ranks are not known."""
    support: dict[QueryChunk, frozenset[str]]
    """Each relevant chunk, pooled or not, with the nuggets that it supports."""
    top_k: int
    """The deepest rank that was pooled; 0 where nothing was."""

    @property
    def relevant(self) -> dict[QueryChunk, Candidate]:
        """The pooled chunks that are relevant."""
        return {pair: each for pair, each in self.candidates.items() if pair in self.support}

    @property
    def techniques(self) -> tuple[Technique, ...]:
        """The techniques that pooled anything, in the order of `TECHNIQUES`."""
        pooled = {by.technique for each in self.candidates.values() for by in each.pooled_by}
        return tuple(technique for technique in TECHNIQUES if technique in pooled)

    @property
    def retrievers(self) -> tuple[str, ...]:
        """The retrievers that found anything of the pool, by name."""
        found = {by.retriever for each in self.candidates.values() for by in each.found_by}
        return tuple(sorted(found))


def pooled(contents: Contents, slices: Sequence[SliceName]) -> Pooled:
    """Take the pool of the queries in some slices, with what supports their nuggets.

    Args:
        contents: The records of a collection.
        slices: Whose queries; those without nuggets are left out, as from every evaluation.

    Raises:
        CollectionError: A name is not that of a slice.
    """
    wanted = set(contents.queries_in(slices))
    candidates: dict[QueryChunk, Candidate] = {}
    outside: Counter[CandidateOrigin] = Counter()
    for candidate in contents.pool:
        if candidate.query_id not in wanted:
            continue
        if candidate.pooled_by:
            candidates[QueryChunk(candidate.query_id, candidate.chunk_id)] = candidate
        else:
            outside[candidate.origin] += 1
    support: defaultdict[QueryChunk, set[str]] = defaultdict(set)
    for judgment in contents.judgments:
        supports = judgment.label is not None and judgment.label >= contents.threshold
        if supports and judgment.query_id in wanted:
            pair = QueryChunk(judgment.query_id, judgment.chunk_id)
            support[pair].add(judgment.nugget_id)
    return Pooled(
        queries={part.query_id: part for part in contents.slices if part.query_id in wanted},
        candidates=candidates,
        outside={origin: outside[origin] for origin in sorted(outside)},
        support={pair: frozenset(nuggets) for pair, nuggets in support.items()},
        top_k=max((by.rank for each in candidates.values() for by in each.pooled_by), default=0),
    )


def best_rank(candidate: Candidate) -> int:
    """The best rank that any technique's fused list gives a pooled chunk."""
    return min(by.rank for by in candidate.pooled_by)
