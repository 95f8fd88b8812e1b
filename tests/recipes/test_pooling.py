"""Pooling, worked out by hand with scripted retrievers, and what its records say of other pools."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy import Chunk, HybridIndex, Nugget, Query, Run, build
from freshstack_dspy.config import FusionConfig, PoolConfig
from freshstack_dspy.index.fusion import fuse
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.recipes.pooling import pool
from freshstack_dspy.records import Candidate, Expansion, ScoredChunk, Technique, ranked
from freshstack_dspy.stored.contents import Contents
from freshstack_dspy.stored.diagnose import depth_curve, leave_one_out, pooled, pooling_results
from tests.collection.small import judgment, query
from tests.stored.test_diagnose import nugget, query_slice

from .domain import domain
from .scripted import ScriptedProvider

QUERY = Query(query_id="7", title="How?", body="It fails.", answer="Call it twice.")
NUGGETS = [
    Nugget(nugget_id=f"7_{number}", query_id="7", text=text, call_id="k")
    for number, text in enumerate(["call it", "twice"])
]
SUB_QUESTIONS = Expansion(query_id="7", kind="sub_questions", texts=("Why?", "When?"), call_id="k")
CLOSED_BOOK = Expansion(query_id="7", kind="closed_book_answer", texts=("So.",), call_id="k")


Scores = dict[str, dict[str, dict[str, float]]]
"""By retriever, text and chunk."""


class WrittenRankings:
    """An index whose scores are written down."""

    def __init__(self, scores: Scores) -> None:
        self._scores = scores

    def search(
        self, retriever: str, texts: Sequence[str], depth: int, *, fusion: FusionConfig
    ) -> list[list[ScoredChunk]]:
        return [ranked(self._scores[retriever].get(text, {}), depth) for text in texts]


def each_alone(texts: dict[Technique, str]) -> dict[Technique, tuple[str, ...]]:
    return {technique: (text,) for technique, text in texts.items()}


def pooled_by_hand(
    scores: Scores,
    texts: dict[str, dict[Technique, str]],
    fusion: FusionConfig | None = None,
    **settings: Any,
) -> dict[tuple[str, str], tuple[list[tuple[str, int]], list[tuple[str, str, int]]]]:
    index: Any = WrittenRankings(scores)
    lists = {query_id: each_alone(of_query) for query_id, of_query in texts.items()}
    return {
        (candidate.query_id, candidate.chunk_id): (
            [(by.technique, by.rank) for by in candidate.pooled_by],
            [(found.technique, found.retriever, found.rank) for found in candidate.found_by],
        )
        for candidate in pool(index, lists, PoolConfig(**settings), fusion or FusionConfig())
    }


def test_each_technique_searches_with_its_text() -> None:
    contents = Contents(nuggets=NUGGETS, expansions=[SUB_QUESTIONS, CLOSED_BOOK])

    assert contents.texts([QUERY])["7"] == {
        "question": ("How? It fails.",),
        "sub_questions": ("Why?", "When?"),
        "closed_book_answer": ("So.",),
        "answer": ("Call it twice.",),
        "nuggets": ("call it", "twice"),
    }


@pytest.mark.parametrize("lists", ["concatenate", "fuse"])
def test_the_results_of_a_pool_are_those_of_runs_at_its_depth(tmp_path: Path, lists: str) -> None:
    config = domain(tmp_path, pool={"depth": 3, "top_k": 2, "lists": lists})
    collection = build(config, provider=ScriptedProvider())

    results = collection.diagnose().results

    assert len(results) == 5 * 3
    for result in results:
        retriever = "hybrid" if result.retriever == "fusion" else result.retriever
        run = collection.retrieve(
            retriever, with_=result.technique, depth=3, index_path=config.index.path
        )
        assert collection.evaluate(run).means == pytest.approx(result.means)


def test_scores_are_normalised_over_depth_summed_and_cut_at_top_k() -> None:
    """bm25 gives a 1, b .5, c 0; lsa b 1, d .5, c 0; together b 1.5, a 1, d .5, c 0."""
    scores: Scores = {
        "bm25": {"q": {"a": 30, "b": 20, "c": 10, "e": 5}},
        "lsa": {"q": {"b": 0.9, "d": 0.8, "c": 0.7, "e": 0.1}},
    }

    found = pooled_by_hand(scores, {"7": {"question": "q"}}, depth=3, top_k=3)

    assert found == {
        ("7", "a"): ([("question", 2)], [("question", "bm25", 1)]),
        ("7", "b"): ([("question", 1)], [("question", "bm25", 2), ("question", "lsa", 1)]),
        ("7", "d"): ([("question", 3)], [("question", "lsa", 2)]),
    }


def test_a_build_may_fuse_otherwise() -> None:
    """By rank, b is 1/62 + 1/61, a and d have one list each; e is cut off by depth."""
    scores: Scores = {
        "bm25": {"q": {"a": 30, "b": 20, "c": 10, "e": 5}},
        "lsa": {"q": {"b": 0.9, "d": 0.8, "c": 0.7, "e": 0.1}},
    }
    by_rank = FusionConfig(method="rrf")
    mostly_lsa = FusionConfig(method="weighted", weights={"bm25": 0.1})
    texts: dict[str, dict[Technique, str]] = {"7": {"question": "q"}}

    ranked_by_rank = pooled_by_hand(scores, texts, by_rank, depth=3, top_k=2)
    weighted = pooled_by_hand(scores, texts, mostly_lsa, depth=3, top_k=2)

    assert [chunk_id for _, chunk_id in ranked_by_rank] == ["b", "c"]  # c: 1/63 + 1/63 > 1/61
    assert [chunk_id for _, chunk_id in weighted] == ["b", "d"]


def test_a_file_gives_at_most_so_many_chunks_to_a_technique() -> None:
    """The third of one file makes room for what is below it, in every list that is fused."""
    scores: Scores = {"bm25": {"q": {"a": 5.0, "b": 4.0, "c": 3.0, "d": 2.0, "e": 1.0}}}
    index: Any = WrittenRankings(scores)
    index.file_of = lambda id_: ("s", "x" if id_ in "abc" else id_)
    settings = PoolConfig(depth=5, top_k=3, per_file=2, retrievers=("bm25",))

    found = pool(index, {"7": {"question": ("q",)}}, settings)

    assert {one.chunk_id: one.pooled_by[0].rank for one in found} == {"a": 1, "b": 2, "d": 3}


def test_a_chunk_remembers_every_technique_and_retriever_that_found_it() -> None:
    """Also those in whose cut list it is not: c is second for the answer, and one is taken."""
    scores = {"bm25": {"q": {"c": 2.0, "a": 1.0}, "r": {"b": 2.0, "c": 1.0}}}
    texts: dict[str, dict[Technique, str]] = {"7": {"question": "q", "answer": "r"}}

    found = pooled_by_hand(scores, texts, depth=2, top_k=1, retrievers=("bm25",))

    assert found == {
        ("7", "b"): ([("answer", 1)], [("answer", "bm25", 1)]),
        ("7", "c"): ([("question", 1)], [("question", "bm25", 1), ("answer", "bm25", 2)]),
    }


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> HybridIndex:
    texts = {
        "a": "reset the dial twice",
        "b": "the dial of the moon",
        "c": "install it with pip",
        "d": "a dial, a dial",
        "e": "nothing of the kind",
    }
    chunks = [
        Chunk(chunk_id=name, source="s", path=name, start_byte=0, end_byte=9, text=text, tokens=3)
        for name, text in texts.items()
    ]
    root = tmp_path_factory.mktemp("index")
    return HybridIndex.build(root, "small", chunks, dimensions=3)


def test_the_hybrid_retriever_is_fused_as_the_rankings_are(index: HybridIndex) -> None:
    """As the sum of one, its order is that of the fusion itself; rrf and the sum differ here."""
    texts = {"7": each_alone({"question": "dial of the moon reset"})}
    config = PoolConfig(depth=4, top_k=4, retrievers=("hybrid",))

    for fusion in (FusionConfig(), FusionConfig(method="rrf")):
        found = pool(index, texts, config, fusion)
        ranks = {candidate.found_by[0].rank: candidate.chunk_id for candidate in found}
        hybrid = index.search("hybrid", texts["7"]["question"], 4, fusion=fusion)[0]
        assert ranks == {rank: chunk_id for rank, (chunk_id, _) in enumerate(hybrid, 1)}


# Several texts for a technique: joined to one, or each searched with


def searched(
    scores: Scores, parts: tuple[str, ...], fusion: FusionConfig | None = None, **settings: Any
) -> list[Candidate]:
    index: Any = WrittenRankings(scores)
    texts: Any = {"7": {"nuggets": parts}}
    config = PoolConfig(**({"retrievers": ("bm25",), "techniques": ("nuggets",)} | settings))
    return pool(index, texts, config, fusion or FusionConfig())


def ranks(candidates: Sequence[Candidate]) -> dict[str, int]:
    return {each.chunk_id: each.found_by[0].rank for each in candidates}


def test_fused_texts_are_searched_with_alone_and_their_rankings_fused() -> None:
    """Normalised: x gives a 1, b .5, c 0; y gives d 1, b .75, e 0. b has 1.25, a and d 1."""
    scores: Scores = {
        "bm25": {
            "x\ny": {"z": 1},
            "x": {"a": 3, "b": 2, "c": 1},
            "y": {"d": 9, "b": 8, "e": 5},
        }
    }

    found = searched(scores, ("x", "y"), lists="fuse", depth=4, top_k=3)

    assert ranks(found) == {"b": 1, "a": 2, "d": 3}


# What the records of a pool say of pools by fewer retrievers and techniques

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
