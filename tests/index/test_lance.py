"""`lexical = "lance"`: LanceDB's full-text index over our terms, next to bm25s."""

from pathlib import Path

import numpy as np
import pytest

from freshstack_dspy import HybridIndex
from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.lexical import terms_of
from freshstack_dspy.index.models import Models
from tests.index.pieces import GUIDE, SMALL, TWIN_A, Letters, many, piece, rankings

CHUNKS = [*many(300), *SMALL, piece("long.py", f"{'x' * 300} a.b.c_d getUserName getUserName")]
QUERIES = [
    *(chunk.text for chunk in many(20, seed=4)),
    "word word worda1 worda1 worda1",
    "user name",
    "日本語",
    "x" * 300,
    'a.b.c_d "quoted" AND -minus +plus (wordb2)',
    "the",
    "",
    "unheard",
]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[HybridIndex, HybridIndex]:
    root = tmp_path_factory.mktemp("indexes")
    models = Models([Letters()])
    return (
        HybridIndex.build(root, "bm25s", CHUNKS, models=models),
        HybridIndex.build(root, "lance", CHUNKS, models=models, lexical="lance"),
    )


def test_its_scores_are_those_of_bm25s_to_four_decimals(
    both: tuple[HybridIndex, HybridIndex],
) -> None:
    by_table = both[1]

    every = [index.search("bm25", QUERIES, len(CHUNKS)) for index in both]
    best = by_table.search("bm25", QUERIES, 40)

    for one, other, first in zip(*every, best, strict=True):
        assert dict(other) == pytest.approx(dict(one), abs=1e-4)
        assert other == sorted(other, key=lambda entry: (-entry.score, entry.chunk_id))
        assert first == other[:40]


def test_frequencies_chunks_and_vectors_are_the_same(
    both: tuple[HybridIndex, HybridIndex],
) -> None:
    by_files, by_table = both

    known = {term for chunk in CHUNKS for term in terms_of(chunk)}
    assert by_table.frequencies({*known, "unheard"}) == by_files.frequencies({*known, "unheard"})
    assert by_table.retrievers == ("bm25", "letters", "hybrid")
    assert by_table.search("letters", QUERIES[:5], 20) == by_files.search(
        "letters", QUERIES[:5], 20
    )
    assert list(by_table.chunks()) == list(by_files.chunks())


def test_of_many_that_tie_at_the_end_the_first_ids_are_found(tmp_path: Path) -> None:
    twins = [piece(f"license{number:03}", TWIN_A.text) for number in range(250)]
    index = HybridIndex.build(tmp_path, "twins", [*twins[::-1], GUIDE], lexical="lance")

    (found,) = index.search("bm25", ["permission granted"], 4)

    assert [entry.chunk_id for entry in found] == [twin.chunk_id for twin in twins[:4]]


def test_above_a_size_vectors_are_searched_approximately_and_scored_exactly(
    tmp_path: Path,
) -> None:
    chunks = many(600)
    models = Models([Letters(letters="abcdefgh12345678")])
    exact = HybridIndex.build(tmp_path, "exact", chunks, models=models)
    built = HybridIndex.build(tmp_path, "built", chunks, models=models, approximate_above=500)
    queries = [chunk.text for chunk in many(20, seed=9)]

    wanted = rankings(exact, queries, 10)["letters"]
    found = rankings(built, queries, 10)["letters"]

    shares = [
        len({*map(tuple, one)} & {*map(tuple, other)}) / 10
        for one, other in zip(wanted, found, strict=True)
    ]
    assert np.mean(shares) > 0.9


def test_bm25s_in_an_object_store_is_an_error_before_any_work() -> None:
    with pytest.raises(IndexingError, match="lexical='lance'"):
        HybridIndex.build("s3://bucket/indexes", "x", CHUNKS)
