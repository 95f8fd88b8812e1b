"""A pool small enough to work out by hand: two queries, two techniques, two retrievers, top 3.

query  chunk  supports  pooled by                  found by
q      a      q_0       question 1, nuggets 2      question: bm25 1, lsa 1; nuggets: lsa 2
q      b      q_1       question 2                 question: bm25 2; lost without bm25
q      c                nuggets 1 (question 4)     question: bm25 3; nuggets: lsa 1
q      d      q_2       nuggets 3                  nuggets: lsa 5; lost without lsa
r      x      r_0       question 1                 question: lsa 1; lost without lsa

Query q is answerable; r is partly supported, for nothing supports r_1; u has no support at all.
"""

from collections.abc import Sequence

from freshstack_dspy import Judgment, Nugget
from freshstack_dspy.records import (
    Candidate,
    Found,
    QuerySlice,
    RunRank,
    SliceName,
    Technique,
    TechniqueRank,
)
from freshstack_dspy.stored.contents import Contents
from tests.collection.small import judgment, query

EVALUATED: tuple[SliceName, ...] = ("answerable", "partly_supported")
Ranks = dict[Technique, int]


def candidate(
    query_id: str,
    chunk_id: str,
    pooled: Ranks,
    found: Sequence[tuple[Technique, str, int]],
    *,
    below: Ranks | None = None,
    lost_without: tuple[str, ...] = (),
) -> Candidate:
    return Candidate(
        query_id=query_id,
        chunk_id=chunk_id,
        pooled_by=technique_ranks(pooled),
        ranked_below=technique_ranks(below or {}),
        found_by=tuple(
            Found(technique=technique, retriever=retriever, rank=rank)
            for technique, retriever, rank in found
        ),
        lost_without=lost_without,
    )


def added_for_a_run(query_id: str, chunk_id: str) -> Candidate:
    runs = (RunRank(run="splade", rank=1),)
    return Candidate(query_id=query_id, chunk_id=chunk_id, origin="run", runs=runs)


def technique_ranks(ranks: Ranks) -> tuple[TechniqueRank, ...]:
    return tuple(TechniqueRank(technique=each, rank=rank) for each, rank in ranks.items())


def nugget(nugget_id: str) -> Nugget:
    return Nugget(nugget_id=nugget_id, query_id=nugget_id[0], text=nugget_id, call_id=None)


def query_slice(query_id: str, name: str, nuggets: int, supported: int) -> QuerySlice:
    return QuerySlice.model_validate(
        {"query_id": query_id, "slice": name, "nuggets": nuggets, "supported": supported}
        | {"undetermined": 0}
    )


POOL = (
    candidate(
        "q",
        "a",
        {"question": 1, "nuggets": 2},
        [("question", "bm25", 1), ("question", "lsa", 1), ("nuggets", "lsa", 2)],
    ),
    candidate("q", "b", {"question": 2}, [("question", "bm25", 2)], lost_without=("bm25",)),
    candidate(
        "q",
        "c",
        {"nuggets": 1},
        [("question", "bm25", 3), ("nuggets", "lsa", 1)],
        below={"question": 4},
    ),
    candidate("q", "d", {"nuggets": 3}, [("nuggets", "lsa", 5)], lost_without=("lsa",)),
    candidate("r", "x", {"question": 1}, [("question", "lsa", 1)], lost_without=("lsa",)),
)
SUPPORT = {("q_0", "a"), ("q_1", "b"), ("q_2", "d"), ("r_0", "x")}
NUGGETS = ("q_0", "q_1", "q_2", "r_0", "r_1", "u_0")


def contents(
    pool: Sequence[Candidate] = POOL, further: Sequence[Judgment] = (), threshold: int = 1
) -> Contents:
    """The records, with every pooled chunk judged against every nugget of its query."""
    judged = tuple(
        judgment(nugget_id, each.chunk_id, int((nugget_id, each.chunk_id) in SUPPORT) * threshold)
        for each in POOL
        for nugget_id in NUGGETS
        if nugget_id[0] == each.query_id
    )
    return Contents(
        queries=tuple(map(query, "qru")),
        nuggets=tuple(map(nugget, NUGGETS)),
        pool=tuple(pool),
        judgments=(*judged, *further),
        slices=(
            query_slice("q", "answerable", 3, 3),
            query_slice("r", "partly_supported", 2, 1),
            query_slice("u", "unanswerable", 1, 0),
        ),
        threshold=threshold,
    )
