"""What the records of a pool say, against pooling again: they must be exact, whatever was found."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.collection.diagnose import depth_curve, leave_one_out, pooled, pooling_results
from freshstack_dspy.config import FusionConfig, PoolConfig
from freshstack_dspy.index.fusion import fuse
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.run import Run
from freshstack_dspy.recipes.pooling import pool
from freshstack_dspy.records import Candidate, Technique
from tests.collection.diagnostics.pools import judgment, nugget, query, query_slice

from .test_pooling import Scores, WrittenRankings

TECHNIQUES: tuple[Technique, ...] = ("question", "answer", "nuggets")
RETRIEVERS = ("bm25", "lsa", "small")
DEPTH, TOP_K = 6, 2
TEXTS: Any = {"q": {technique: (technique,) for technique in TECHNIQUES}}
FUSIONS = (
    FusionConfig(),
    FusionConfig(method="rrf"),
    FusionConfig(method="weighted", weights={"bm25": 0, "lsa": 0.5}),
    FusionConfig(method="weighted", weights={"bm25": 0, "lsa": 0}),
)
rankings = st.dictionaries(st.sampled_from("abcdefghij"), st.integers(1, 8), max_size=8)
found = st.fixed_dictionaries(
    {
        retriever: st.fixed_dictionaries(dict.fromkeys(TECHNIQUES, rankings))
        for retriever in RETRIEVERS
    }
)
supporting = st.sets(st.tuples(st.sampled_from(["q_0", "q_1"]), st.sampled_from("abcdefghij")))


def pooled_from(scores: Scores, fusion: FusionConfig, **settings: Any) -> list[Candidate]:
    index: Any = WrittenRankings(scores)
    every: dict[str, Any] = {
        "techniques": TECHNIQUES,
        "retrievers": RETRIEVERS,
        "depth": DEPTH,
        "top_k": TOP_K,
    }
    return pool(index, TEXTS, PoolConfig(**(every | settings)), fusion)


def ids(candidates: list[Candidate]) -> set[str]:
    return {each.chunk_id for each in candidates}


def judged(candidates: list[Candidate], support: set[tuple[str, str]]) -> Contents:
    return Contents(
        queries=(query("q"),),
        nuggets=(nugget("q_0"), nugget("q_1")),
        pool=tuple(candidates),
        judgments=tuple(
            judgment(nugget_id, each.chunk_id, int((nugget_id, each.chunk_id) in support))
            for each in candidates
            for nugget_id in ("q_0", "q_1")
        ),
        slices=(query_slice("q", "answerable", 2, 2),),
    )


@given(found, st.sampled_from(FUSIONS))
def test_lost_without_a_retriever_is_what_pooling_without_it_lacks(
    scores: Scores, fusion: FusionConfig
) -> None:
    candidates = pooled_from(scores, fusion)

    for left_out in RETRIEVERS:
        others = tuple(name for name in RETRIEVERS if name != left_out)
        weigh = fusion.method != "weighted" or any(fusion.weights.get(name, 1) for name in others)
        kept = ids(pooled_from(scores, fusion, retrievers=others)) if weigh else set[str]()
        lost = {each.chunk_id for each in candidates if left_out in each.lost_without}
        assert lost == ids(candidates) - kept


@given(found)
def test_a_single_retriever_is_needed_for_all_that_it_found(scores: Scores) -> None:
    candidates = pooled_from(scores, FusionConfig(), retrievers=("lsa",))

    assert {each.lost_without for each in candidates} <= {("lsa",)}


@given(found, st.sampled_from(FUSIONS))
def test_every_rank_in_a_fused_list_is_known(scores: Scores, fusion: FusionConfig) -> None:
    candidates = pooled_from(scores, fusion)
    index: Any = WrittenRankings(scores)

    for technique in TECHNIQUES:
        by_retriever = {
            name: index.search(name, [technique], DEPTH, fusion=fusion)[0] for name in RETRIEVERS
        }
        ranking = [chunk_id for chunk_id, _ in fuse(by_retriever, DEPTH, fusion)]
        told = {
            by.rank: each.chunk_id
            for each in candidates
            for by in (*each.pooled_by, *each.ranked_below)
            if by.technique == technique
        }
        assert told == {
            rank: chunk_id
            for rank, chunk_id in enumerate(ranking, 1)
            if chunk_id in ids(candidates)
        }
    assert all(by.rank <= TOP_K for each in candidates for by in each.pooled_by)
    assert all(by.rank > TOP_K for each in candidates for by in each.ranked_below)


@given(found, supporting)
def test_the_loss_of_a_technique_is_what_pooling_without_it_lacks(
    scores: Scores, support: set[tuple[str, str]]
) -> None:
    candidates = pooled_from(scores, FusionConfig())
    losses = leave_one_out(pooled(judged(candidates, support), ("answerable",)))

    for loss in losses:
        if loss.kind == "technique":
            others = tuple(name for name in TECHNIQUES if name != loss.without)
            lost = ids(candidates) - ids(pooled_from(scores, FusionConfig(), techniques=others))
            assert loss.chunks == len(lost)


@given(found, supporting)
def test_the_depth_curve_is_what_shallower_pools_hold(
    scores: Scores, support: set[tuple[str, str]]
) -> None:
    candidates = pooled_from(scores, FusionConfig(), top_k=4)

    for depth in depth_curve(pooled(judged(candidates, support), ("answerable",))):
        there = ids(pooled_from(scores, FusionConfig(), top_k=depth.depth))
        supported = {(nugget_id, chunk) for nugget_id, chunk in support if chunk in there}
        assert depth.chunks == len(there)
        assert depth.relevant == len({chunk for _, chunk in supported})
        assert depth.nuggets == len({nugget_id for nugget_id, _ in supported})


@pytest.mark.filterwarnings("ignore:no document of run")
@given(found, supporting)
def test_pooling_results_are_those_of_runs_by_the_retrievers(
    scores: Scores, support: set[tuple[str, str]]
) -> None:
    """At cut-offs around the pool's top and its depth."""
    candidates = pooled_from(scores, FusionConfig())
    contents = judged(candidates, support)
    index: Any = WrittenRankings(scores)
    measures = ("alpha_nDCG@1", "alpha_nDCG@5", "Coverage@3", "Recall@4", "Recall@50")

    for result in pooling_results(pooled(contents, ("answerable",)), measures):
        by_retriever = {
            name: index.search(name, [result.technique], DEPTH, fusion=FusionConfig())[0]
            for name in RETRIEVERS
        }
        ranking = (
            fuse(by_retriever, DEPTH, FusionConfig())
            if result.retriever == "fusion"
            else by_retriever[result.retriever]
        )
        run = Run("again", {"q": tuple(ranking)})
        assert result.means == evaluate(contents.qrels_of(("answerable",)), run, measures).means
