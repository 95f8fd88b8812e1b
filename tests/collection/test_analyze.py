"""Which queries a run fails, and why: kinds by hand, and held against the measures."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from freshstack_dspy import Chunk, Collection, Run, analyze, build, rechunk, retrieve
from freshstack_dspy.collection.analyze import KINDS, AnalyzedNugget
from freshstack_dspy.measures.run import PassageRun
from freshstack_dspy.measures.spans import Place
from freshstack_dspy.pages.html import html_document
from freshstack_dspy.pages.markdown import page_markdown
from freshstack_dspy.records import DRY_RUN, Candidate, TechniqueRank

ROOT = Path(__file__).parents[2]
A, B, C, D, E = (f"docs/a.md_{start}_{start + 20}" for start in range(0, 100, 20))
EVIDENCE = {B: (25, 35), C: (45, 55)}
JUDGED: dict[str, dict[str, int | None]] = {
    "found": {A: 2, B: 1, D: 0},
    "low": {A: 0, B: 0, C: 2, D: 0},
    "absent": {A: 0, B: 0, D: 0, E: 1},
    "lacking": {A: 0, B: 0, C: 0, D: 0},
    "open": {A: 0, C: 1},
    "failed": {A: 0, B: 0, E: None},
}
"""Of query q, by nugget."""
RUN = {"q": {A: 9.0, B: 8.0, D: 7.0, C: 6.0}}


@pytest.fixture
def collection() -> Collection:
    chunks = [
        Chunk(
            chunk_id=id_,
            source="docs",
            path="a.md",
            start_byte=start,
            end_byte=start + 20,
            text=f"{id_:<19}\n",
            tokens=5,
        )
        for start, id_ in zip(range(0, 100, 20), (A, B, C, D, E), strict=True)
    ]
    judgments = [
        {
            "query_id": "q",
            "nugget_id": nugget,
            "chunk_id": chunk,
            "label": label,
            "evidence": (EVIDENCE[chunk],) if label and chunk in EVIDENCE else (),
        }
        for nugget, labels in JUDGED.items()
        for chunk, label in labels.items()
    ]
    judgments.append({"query_id": "r", "nugget_id": "r_0", "chunk_id": A, "label": 0})
    judgments.append({"query_id": "s", "nugget_id": "s_0", "chunk_id": A, "label": 1})
    return Collection.of(
        queries=[
            {"query_id": "q", "title": "How?", "tags": ["api", "cli"], "product": "one"},
            {"query_id": "r", "title": "Why?", "tags": ["api"], "product": "two"},
            {"query_id": "s", "title": "Who?", "product": "two"},
        ],
        nuggets=[
            *({"query_id": "q", "nugget_id": id_, "text": f"fact {id_}"} for id_ in JUDGED),
            {"query_id": "r", "nugget_id": "r_0", "text": "fact r"},
            {"query_id": "s", "nugget_id": "s_0", "text": "fact s"},
        ],
        judgments=judgments,
        chunks=chunks,
    )


def nuggets_of(collection: Collection, run: object, k: int = 3) -> Mapping[str, AnalyzedNugget]:
    found = analyze(collection, run, measure=f"Coverage@{k}", query_id="q")
    return {nugget.nugget_id: nugget for nugget in found.queries[0].nuggets}


def test_each_missed_nugget_has_one_kind(collection: Collection) -> None:
    found = nuggets_of(collection, RUN)

    assert {nugget: one.kind for nugget, one in found.items()} == {
        "found": None,
        "low": "ranked_low",
        "absent": "not_retrieved",
        "lacking": "not_in_corpus",
        "open": "unjudged",  # A alone of A, B and D has a label for it
        "failed": "unjudged",  # no label supports it, and E could
    }
    assert {nugget: one.rank for nugget, one in found.items() if one.rank} == {
        "found": 1,
        "low": 4,
        "open": 4,
    }


def test_a_nugget_is_shown_with_the_chunk_and_the_words_that_support_it(
    collection: Collection,
) -> None:
    found = nuggets_of(collection, RUN)

    low, absent = found["low"].support, found["absent"].support
    assert low is not None
    assert absent is not None
    assert (low.chunk_id, low.label, low.words) == (C, 2, (low.text[5:15],))
    assert low.evidence == ((5, 15),)
    assert (absent.chunk_id, absent.words) == (E, ())
    assert found["lacking"].support is None


def test_the_top_has_its_labels_or_is_unjudged(collection: Collection) -> None:
    run = {"q": {C: 3.0, E: 2.0}}
    (query,) = analyze(collection, run, measure="Coverage@2", query_id="q").queries

    first, second = query.top
    assert (first.rank, first.document, first.supports) == (1, C, ("low", "open"))
    assert first.labels == {"low": 2, "lacking": 0, "open": 1}
    assert second.labels == {"absent": 1}
    assert first.opening == C


def test_the_worst_come_first_and_those_that_cannot_be_measured_last(
    collection: Collection,
) -> None:
    found = analyze(collection, RUN, measure="Coverage@3")

    assert [(one.query_id, one.score) for one in found.queries] == [
        ("s", 0.0),  # absent from the run
        ("q", 0.25),
        ("r", None),
    ]
    assert (found.measured, found.total, found.nuggets, found.missed) == (2, 3, 8, 7)
    counts = {kind.kind: (kind.nuggets, kind.queries) for kind in found.kinds}
    assert counts == {
        "unjudged": (2, ("q",)),
        "not_in_corpus": (2, ("q", "r")),
        "ranked_low": (1, ("q",)),
        "not_retrieved": (2, ("s", "q")),
    }
    assert [one.query_id for one in analyze(collection, RUN, limit=1).queries] == ["s"]


def test_kinds_are_counted_by_tag_and_by_field(collection: Collection) -> None:
    groups = analyze(collection, RUN, measure="Coverage@3").groups

    rows = [(of.by, of.group, of.queries, of.nuggets, sum(of.kinds.values())) for of in groups]
    assert rows == [
        ("tag", "api", 2, 7, 6),
        ("tag", "cli", 1, 6, 5),
        ("product", "one", 1, 6, 5),
        ("product", "two", 2, 2, 2),
    ]


def test_against_another_run_what_it_lost_comes_first(collection: Collection) -> None:
    other = {"q": {C: 9.0}, "s": {A: 1.0}}
    found = analyze(collection, RUN, other, measure="Coverage@3")

    assert [(one.query_id, one.difference) for one in found.queries] == [
        ("s", -1.0),
        ("q", -0.25),
        ("r", None),
    ]
    lost = {kind.kind: kind.lost for kind in found.kinds}
    assert lost == {"unjudged": 1, "not_in_corpus": 0, "ranked_low": 1, "not_retrieved": 1}
    low = next(one for one in found.queries[1].nuggets if one.nugget_id == "low")
    assert (low.rank, low.against_rank) == (4, 1)


def test_it_says_at_which_rank_recorded_expansions_found_a_nugget(collection: Collection) -> None:
    ranks = (
        TechniqueRank(technique="sub_questions", rank=2),
        TechniqueRank(technique="answer", rank=1),
    )
    below = (TechniqueRank(technique="closed_book_answer", rank=30),)
    pooled = Candidate(query_id="q", chunk_id=E, pooled_by=ranks, ranked_below=below)
    pool = [one for one in collection.pool if (one.query_id, one.chunk_id) != ("q", E)]
    pooled_collection = replace(collection, pool=(*pool, pooled))

    found = analyze(pooled_collection, RUN, measure="Coverage@3")

    absent = next(one for one in found.queries[1].nuggets if one.nugget_id == "absent")
    assert absent.techniques == {"sub_questions": 2, "closed_book_answer": 30}
    kind = next(one for one in found.kinds if one.kind == "not_retrieved")
    assert kind.techniques == {"sub_questions": 1, "closed_book_answer": 0}


def passages(*places: tuple[int, int]) -> PassageRun:
    found = {Place("docs", "a.md", *place): -float(n) for n, place in enumerate(places)}
    return PassageRun("mine", {"q": found})


@pytest.mark.parametrize(
    ("places", "kind", "rank", "ranks"),
    [
        ([(40, 60)], None, 1, None),
        ([(40, 50), (50, 60)], "evidence_cut", None, (1, 2)),
        ([(40, 50)], "evidence_cut", None, (1,)),  # a half is there
        ([(40, 49), (0, 20), (20, 40)], "not_retrieved", None, None),
        ([(0, 20), (20, 40), (60, 80), (40, 50), (50, 60)], "evidence_cut", None, (4, 5)),
        ([(0, 20), (20, 40), (60, 80), (40, 60)], "ranked_low", 4, None),
        ([(40, 50), (0, 20), (50, 60), (40, 60)], "evidence_cut", 4, (1, 3)),
    ],
)
def test_a_cut_through_the_evidence_is_told_from_a_low_rank(
    collection: Collection,
    places: list[tuple[int, int]],
    kind: str | None,
    rank: int | None,
    ranks: tuple[int, ...] | None,
) -> None:
    """The evidence of `low` is in bytes 45 to 55."""
    low = nuggets_of(collection, passages(*places))["low"]

    assert (low.kind, low.rank) == (kind, rank)
    assert (low.pieces and low.pieces.ranks) == ranks
    assert low.support is not None
    assert low.support.chunk_id == C


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    from shutil import copytree

    folder = tmp_path_factory.mktemp("sample")
    for name in ("examples/quickstart", "caches"):
        copytree(ROOT / name, folder / name)
    return build(folder / "examples/quickstart/build.toml", mode="replay")


@pytest.fixture(scope="module")
def runs(sample: Collection, tmp_path_factory: pytest.TempPathFactory) -> list[Run | PassageRun]:
    """bm25 over the sample's chunks, and over shorter ones."""
    folder = tmp_path_factory.mktemp("shorter")
    shorter = rechunk(sample, 100, folder / "shorter").collection
    own, other = (retrieve(of, "bm25", index_path=folder / "index") for of in (sample, shorter))
    places = {chunk.chunk_id: chunk for chunk in shorter.chunks()}
    found = {
        query: {
            Place(of.source, of.path, of.start_byte, of.end_byte): score
            for id_, score in ranking
            for of in [places[id_]]
        }
        for query, ranking in other.rankings.items()
    }
    return [own, PassageRun("shorter", found)]


@pytest.mark.parametrize("measure", ["Coverage@3", "Coverage@20", "Coverage@900tok"])
@pytest.mark.parametrize("number", [0, 1])
def test_what_is_found_is_what_coverage_measures(
    sample: Collection, runs: list[Run | PassageRun], number: int, measure: str
) -> None:
    found = analyze(sample, runs[number], measure=measure)
    shares = sample.evaluate(runs[number], measure, slices="all", nuggets="all").values(measure)

    for query in found.queries:
        assert len(query.found) / len(query.nuggets) == pytest.approx(shares[query.query_id])
        assert {nugget.kind for nugget in query.missed} <= KINDS.keys()
    assert found.mean == sample.evaluate(runs[number], measure).means[measure]


def test_a_page_marks_the_evidence_and_says_what_to_do_next(collection: Collection) -> None:
    found = analyze(collection, RUN, measure="Coverage@3")

    page = page_markdown(found.page())
    assert "**ranked low**: the run has what supports it, below the top. Next: rerank" in page
    assert "| api | 2 | 7 | 6 |" in page
    assert f"<mark>{C[5:15]}</mark>" in html_document(found.page("q"))
    assert "<mark>" in found._repr_html_()


def test_of_a_dry_run_no_page_says_what_to_do_next(collection: Collection) -> None:
    found = analyze(collection, RUN).model_copy(update={"dry_run": True})

    page = page_markdown(found.page())
    assert page.startswith(f"# {DRY_RUN}. ")
    assert "Next:" not in page
