"""The diagnostics of a pool, against what was worked out by hand (see `pools.py`)."""

import pytest

from freshstack_dspy.collection.diagnose import (
    Pooled,
    depth_curve,
    diagnose,
    finders,
    leave_one_out,
    missing_support,
    pooled,
    pooling_results,
)
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.run import Run
from freshstack_dspy.records import Candidate, ScoredChunk

from .pools import EVALUATED, POOL, added_for_a_run, candidate, contents, judgment


@pytest.fixture
def pool() -> Pooled:
    return pooled(contents(), EVALUATED)


def test_relevant_is_what_supports_a_nugget_of_its_query(pool: Pooled) -> None:
    assert {chunk_id for _, chunk_id in pool.relevant} == {"a", "b", "d", "x"}
    assert (pool.top_k, pool.techniques, pool.retrievers) == (
        3,
        ("question", "nuggets"),
        ("bm25", "lsa"),
    )


def test_who_found_the_relevant_chunks(pool: Pooled) -> None:
    found = finders(pool)

    assert (found.relevant, found.by_fusion) == (4, 1)  # d is fifth with lsa
    assert {
        (each.technique, each.retriever): (each.found, each.first, each.alone)
        for each in found.finders
    } == {
        ("question", "bm25"): (2, 1.5, 1),  # a is shared with lsa
        ("question", "lsa"): (2, 1.5, 1),
        ("nuggets", "bm25"): (0, 0, 0),
        ("nuggets", "lsa"): (1, 1, 0),  # d, fifth, is nobody else's
    }


def test_what_would_be_lost_without_each_technique_and_retriever(pool: Pooled) -> None:
    losses = leave_one_out(pool)

    assert (losses.chunks, losses.relevant, losses.nuggets, losses.queries) == (5, 4, 4, 1)
    assert [
        (loss.kind, loss.without, loss.chunks, loss.relevant, loss.nuggets, loss.queries)
        for loss in losses.without
    ] == [
        ("technique", "question", 2, 2, 2, 1),  # b and x
        ("technique", "nuggets", 2, 1, 1, 1),  # c and d
        ("retriever", "bm25", 1, 1, 1, 1),  # b
        ("retriever", "lsa", 2, 2, 2, 1),  # d and x
    ]


def test_a_nugget_that_a_run_brought_support_for_is_not_lost() -> None:
    """Chunk y was judged for a run: no technique is needed for it."""
    of_run = added_for_a_run("q", "y")
    extended = contents((*POOL, of_run), further=[judgment("q_2", "y", 1)])

    (_, nuggets, _, lsa) = leave_one_out(pooled(extended, EVALUATED)).without

    assert (nuggets.chunks, nuggets.relevant, nuggets.nuggets, nuggets.queries) == (2, 1, 0, 0)
    assert (lsa.relevant, lsa.nuggets) == (2, 1)


def test_what_a_pool_of_each_depth_would_hold(pool: Pooled) -> None:
    assert [
        (each.depth, each.chunks, each.relevant, each.nuggets) for each in depth_curve(pool)
    ] == [
        (1, 3, 2, 2),
        (2, 4, 3, 3),
        (3, 5, 4, 4),
    ]
    assert depth_curve(pool)[0].chunk_share == 3 / 5
    assert depth_curve(pool)[0].nugget_share == 2 / 4


def test_estimates_of_what_is_missing(pool: Pooled) -> None:
    """Three relevant chunks were pooled by one technique, one by two: 4 + 9/2, 4 + 6/4."""
    missing = missing_support(pool)

    assert (missing.bottom_from, missing.bottom_chunks, missing.bottom_relevant) == (3, 1, 1)
    assert missing.bottom_nuggets == 1
    assert [(each.rank, each.chunks, each.relevant) for each in missing.rates] == [
        (1, 3, 2),
        (2, 1, 1),
        (3, 1, 1),
    ]
    assert missing.by_techniques == {1: 3, 2: 1}
    assert missing.chao1.value == 8.5
    assert missing.chao1_corrected.value == 5.5


def test_one_technique_alone_says_nothing_of_what_is_missing() -> None:
    missing = missing_support(pooled(contents([POOL[1]]), EVALUATED))

    assert missing.chao1.value is None
    assert missing.chao1_corrected.value is None


def test_pooling_results_keep_the_places_of_chunks_that_were_not_pooled() -> None:
    """Chunk d is fifth with lsa: ranks 3 and 4 are taken by chunks that nobody judged."""
    results = {
        (each.technique, each.retriever): each for each in pooling_results(contents(), EVALUATED)
    }
    ranking = ("c", "a", "?", "??", "d")
    run = Run(
        "by hand",
        {"q": tuple(ScoredChunk(each, -float(rank)) for rank, each in enumerate(ranking))},
    )

    by_hand = evaluate(contents().qrels_of(EVALUATED), run)

    assert results["nuggets", "lsa"].means == by_hand.means
    assert results["nuggets", "lsa"].without_results == 1
    assert results["question", "bm25"].means["Recall@50"] == (2 / 3 + 0) / 2
    assert results["question", None].means["Coverage@20"] == (2 / 3 + 1) / 2


def test_pooling_results_leave_out_what_was_judged_besides_the_pool() -> None:
    of_run = added_for_a_run("q", "y")
    extended = contents((*POOL, of_run), further=[judgment("q_2", "y", 1)])

    assert pooling_results(extended, EVALUATED) == pooling_results(contents(), EVALUATED)


def test_a_diagnosis_counts_what_no_technique_pooled() -> None:
    of_run = added_for_a_run("q", "y")

    found = diagnose(contents((*POOL, of_run), [judgment("q_2", "y", 1)]), EVALUATED)

    assert (found.queries, found.pooled, found.relevant, found.relevant_outside) == (2, 5, 5, 1)
    assert found.outside == {"run": 1}
    assert found.unknown is None


def test_an_imported_pool_is_said_to_be_unknown() -> None:
    imported = [
        Candidate(query_id=each.query_id, chunk_id=each.chunk_id, origin="imported")
        for each in POOL
    ]

    found = diagnose(contents(imported), EVALUATED)

    assert found.unknown is not None
    assert (found.pooled, found.outside, found.relevant) == (0, {"imported": 5}, 4)
    assert (found.finders, found.losses, found.depths, found.results) == (None, None, (), ())


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

    assert found.finders is not None
    assert found.finders.relevant == 0
    assert [each.relevant_share for each in found.depths] == [None]
    assert list(found.to_pandas().columns)[:3] == ["technique", "setting", "retriever"]
    assert found.results[0].means == {"alpha_nDCG@10": 0, "Coverage@20": 0, "Recall@50": 0}
