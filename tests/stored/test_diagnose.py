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

import pytest

from freshstack_dspy import Judgment, Nugget, diagnose
from freshstack_dspy.errors import CollectionError
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
from freshstack_dspy.stored.diagnose import (
    Pooled,
    estimated_relevant,
    finders,
    leave_one_out,
    pooled,
    pooling_results,
)
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


EXTENDED = contents((*POOL, added_for_a_run("q", "y")), further=[judgment("q_2", "y", 1)])
"""Chunk y was judged for a run: no technique is needed for it."""


@pytest.fixture
def pool() -> Pooled:
    return pooled(contents(), EVALUATED)


def test_who_found_the_relevant_chunks(pool: Pooled) -> None:
    assert {
        (each.technique, each.retriever): (each.found, each.alone) for each in finders(pool)
    } == {
        ("question", "bm25"): (2, 1),
        ("question", "lsa"): (2, 1),
        ("nuggets", "bm25"): (0, 0),
        ("nuggets", "lsa"): (1, 0),
    }


def test_what_would_be_lost_without_each_technique_and_retriever(pool: Pooled) -> None:
    assert [tuple(loss.model_dump().values()) for loss in leave_one_out(pool)] == [
        ("question", "technique", 2, 2, 2, 1),  # b and x
        ("nuggets", "technique", 2, 1, 1, 1),  # c and d
        ("bm25", "retriever", 1, 1, 1, 1),  # b
        ("lsa", "retriever", 2, 2, 2, 1),  # d and x
    ]


def test_a_nugget_that_a_run_brought_support_for_is_not_lost() -> None:
    (_, nuggets, _, lsa) = leave_one_out(pooled(EXTENDED, EVALUATED))

    assert (nuggets.chunks, nuggets.relevant, nuggets.nuggets, nuggets.queries) == (2, 1, 0, 0)
    assert (lsa.relevant, lsa.nuggets) == (2, 1)


def test_pooling_results_leave_out_what_was_judged_outside_of_the_pool() -> None:
    assert pooling_results(pooled(EXTENDED, EVALUATED)) == pooling_results(
        pooled(contents(), EVALUATED)
    )


def test_a_diagnosis_counts_what_no_technique_pooled() -> None:
    found = diagnose(EXTENDED, EVALUATED)

    assert (found.queries, found.answerable, found.nuggets, found.top_k) == (2, 1, 4, 3)
    assert (found.pooled, found.relevant, found.relevant_outside) == (5, 4, 1)
    assert found.by_fusion == 1, "d is fifth with lsa"
    assert found.outside == {"run": 1}
    assert found.unknown is None


def test_an_imported_pool_is_said_to_be_unknown() -> None:
    imported = [
        Candidate(query_id=each.query_id, chunk_id=each.chunk_id, origin="imported")
        for each in POOL
    ]

    found = diagnose(contents(imported), EVALUATED)

    assert found.unknown is not None
    assert (found.pooled, found.outside, found.relevant_outside) == (0, {"imported": 5}, 4)
    assert (found.finders, found.losses, found.depths, found.results) == ((), (), (), ())


def test_slices_are_diagnosed_apart() -> None:
    assert diagnose(contents(), ("partly_supported",)).pooled == 1
    nothing = diagnose(contents(), ("unanswerable",))
    assert (nothing.queries, nothing.pooled) == (1, 0)
    with pytest.raises(CollectionError, match="no query is in the slices undetermined"):
        diagnose(contents(), ("undetermined",))


def test_pools_without_anything_relevant_are_diagnosed() -> None:
    found = diagnose(
        contents([candidate("u", "z", {"question": 1}, [("question", "bm25", 1)])]),
        ("unanswerable",),
    )

    assert (found.relevant, [each.relevant for each in found.depths]) == (0, [0])
    assert list(found.to_pandas().columns)[:3] == ["technique", "knows", "retriever"]
    assert found.results[0].means == {"alpha_nDCG@10": 0, "Coverage@20": 0, "Recall@50": 0}


def test_the_overlap_of_techniques_says_how_many_relevant_chunks_there_are(pool: Pooled) -> None:
    """Three relevant chunks were pooled by one technique, one by two: 4 + (t - 1) / t 6 / 4."""
    techniques = len(pool.techniques)
    assert estimated_relevant(pool) == 4 + (techniques - 1) / techniques * 1.5
    assert estimated_relevant(pooled(contents([POOL[1]]), EVALUATED)) is None
