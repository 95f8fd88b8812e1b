"""An index that is searched by words, by vectors, with a reranker and by filters."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from freshstack_dspy import Chunk, HybridIndex
from freshstack_dspy.config import FusionConfig
from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index import hybrid
from freshstack_dspy.index.fusion import fuse
from freshstack_dspy.index.models import Models
from tests.index.pieces import (
    CAMEL,
    GREEK,
    GUIDE,
    SMALL,
    SNAKE,
    TWIN_A,
    Letters,
    Shortest,
    many,
    piece,
)

RETRIEVERS = ("bm25", "lsa", "hybrid")
NAME = "index"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> HybridIndex:
    return HybridIndex.build(tmp_path_factory.mktemp("small"), NAME, SMALL)


@pytest.mark.parametrize("retriever", RETRIEVERS)
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("user name", CAMEL),
        ("the name of a user", CAMEL),
        ("getUserName", CAMEL),
        ("configuration file: reading a config", SNAKE),
        ("read_config_file", SNAKE),
        ("installing packages", GUIDE),
        ("größe", GREEK),
        ("日本語", GREEK),
        ("λ", GREEK),
    ],
)
def test_words_find_prose_identifiers_and_other_scripts(
    small: HybridIndex, retriever: str, query: str, expected: Chunk
) -> None:
    (found,) = small.search(retriever, [query], 3)

    assert found[0].chunk_id == expected.chunk_id


@pytest.mark.parametrize("retriever", RETRIEVERS)
def test_chunks_of_equal_text_tie_and_stand_by_id(tmp_path: Path, retriever: str) -> None:
    twins = [piece(f"license{letter}", TWIN_A.text) for letter in "dbeac"]
    index = HybridIndex.build(tmp_path, NAME, [*twins, GUIDE])

    (found,) = index.search(retriever, ["permission granted"], 4)

    assert len({entry.score for entry in found}) == 1
    assert [entry.chunk_id for entry in found] == sorted(twin.chunk_id for twin in twins)[:4]


def test_chunks_come_back_whole_and_in_the_order_of_their_ids(small: HybridIndex) -> None:
    expected = sorted(SMALL, key=lambda chunk: chunk.chunk_id)

    assert list(small.chunks()) == expected
    assert len(small) == len(SMALL)
    assert list(small.chunks_by_id(chunk.chunk_id for chunk in SMALL).values()) == SMALL


def test_an_unknown_retriever_is_answered_with_the_known_ones(small: HybridIndex) -> None:
    with pytest.raises(IndexingError, match=r"'bm52'.*bm25, lsa, hybrid"):
        small.search("bm52", ["user"], 10)


def test_two_chunks_of_one_id_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(IndexingError, match=GUIDE.chunk_id):
        HybridIndex.build(tmp_path, NAME, [GUIDE, CAMEL, GUIDE])


def test_a_chunk_without_a_word_is_next_to_others(tmp_path: Path) -> None:
    index = HybridIndex.build(tmp_path, NAME, [piece("-", "!?!"), GUIDE])

    found = index.search("hybrid", ["!?!", "server", "", "unheard"], 10)
    assert [len(ranking) for ranking in found] == [0, 1, 0, 0]


@pytest.mark.slow
def test_many_texts_are_searched_for_by_processes_as_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = many(220)
    texts = [chunk.text for chunk in chunks] + ["unheard", "half a \ud83d pair"]
    index = HybridIndex.build(tmp_path, NAME, chunks, dimensions=0)
    alone = index.search("bm25", texts, 5)
    monkeypatch.setattr(hybrid, "_MUCH", 1)

    assert index.search("bm25", texts, 5) == alone


def test_opening_reads_no_table_and_waits_for_no_heavy_library(tmp_path: Path) -> None:
    path = HybridIndex.build(tmp_path, NAME, SMALL).path
    heavy = ("lancedb", "pyarrow", "bm25s", "scipy")
    code = (
        "import sys; from pathlib import Path; from freshstack_dspy.index.hybrid import HybridIndex; "
        f"size = len(HybridIndex.open(Path({str(path)!r}))); "
        f"sys.exit(size != {len(SMALL)} or any(n in sys.modules for n in {heavy}))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# With embedders and a reranker

CHUNKS = [
    *many(150),
    *(
        chunk.model_copy(update={"source": "other", "chunk_id": f"other{chunk.chunk_id}"})
        for chunk in many(50, 1)
    ),
]
QUERIES = [chunk.text for chunk in many(6, seed=2)] + ["", "unheard"]
ALL = ("bm25", "lsa", "letters", "digits.v1", "hybrid", "hybrid+rerank")
LETTERS, DIGITS = Letters(), Letters("digits.v1", "0123456789")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> HybridIndex:
    models = Models([LETTERS, DIGITS], Shortest(), 20)
    root = tmp_path_factory.mktemp("indexes")
    return HybridIndex.build(root, NAME, CHUNKS, models=models, dimensions=16)


def test_an_embedder_ranks_by_cosine(index: HybridIndex) -> None:
    """Computed again for all chunks, unrounded and one by one."""
    (found,) = index.search("letters", [QUERIES[0]], 10)

    query = LETTERS.embed_queries([QUERIES[0]])[0].astype(float)
    cosines = {}
    for chunk in CHUNKS:
        vector = LETTERS.embed_queries([f"{chunk.path}\n{chunk.text}"])[0].astype(float)
        cosines[chunk.chunk_id] = query @ vector / np.linalg.norm(query) / np.linalg.norm(vector)
    assert [score for _, score in found] == pytest.approx(
        sorted(cosines.values(), reverse=True)[:10], abs=1e-6
    )
    assert [cosines[chunk_id] for chunk_id, _ in found] == pytest.approx(
        [score for _, score in found], abs=1e-6
    )


@pytest.mark.parametrize("method", ["normalised_sum", "rrf", "weighted"])
def test_hybrid_fuses_all_others(index: HybridIndex, method: Any) -> None:
    fusion = FusionConfig(method=method, weights={"bm25": 3.0} if method == "weighted" else {})
    parts = {name: index.search(name, QUERIES[:1], 15)[0] for name in ALL[:4]}

    assert index.search("hybrid", QUERIES[:1], 15, fusion=fusion) == [fuse(parts, 15, fusion)]


def test_a_reranker_orders_the_first_chunks_of_hybrid(index: HybridIndex) -> None:
    (hybrid,) = index.search("hybrid", QUERIES[:1], 20)
    chunks = index.chunks_by_id(entry.chunk_id for entry in hybrid)
    scores = {
        chunk_id: -float(len(f"{chunk.path}\n{chunk.text}")) for chunk_id, chunk in chunks.items()
    }

    (found,) = index.search("hybrid+rerank", QUERIES[:1], 100)
    (first,) = index.search("hybrid+rerank", QUERIES[:1], 3)

    assert dict(found) == scores
    assert found == sorted(found, key=lambda entry: (-entry.score, entry.chunk_id))
    assert first == found[:3]


@pytest.mark.parametrize("scores", [[1.0], [float("nan")] * 20])
def test_a_reranker_that_gives_no_scores_is_an_error(
    index: HybridIndex, scores: list[float]
) -> None:
    class Broken(Shortest):
        def scores(self, text: str, passages: Any) -> list[float]:
            return scores

    opened = HybridIndex.open(index.path, models=Models([LETTERS, DIGITS], Broken(), 20))

    with pytest.raises(IndexingError, match="one finite number for each"):
        opened.search("hybrid+rerank", QUERIES[:1], 5)


def test_an_index_without_its_embedders_searches_by_the_rest(index: HybridIndex) -> None:
    opened = HybridIndex.open(index.path)

    assert opened.retrievers == ("bm25", "lsa")
    assert opened.search("lsa", QUERIES, 9) == index.search("lsa", QUERIES, 9)
    for retriever in ("hybrid", "letters"):
        with pytest.raises(IndexingError, match="needs the embedder 'letters'"):
            opened.search(retriever, QUERIES, 9)


def test_another_model_under_the_name_of_an_embedder_is_an_error(index: HybridIndex) -> None:
    with pytest.raises(IndexingError, match="no vectors of embedder 'letters'"):
        HybridIndex.open(index.path, models=Models([Letters(letters="xyz")]))


@pytest.mark.parametrize("name", ["bm25", "hybrid", "twice"])
def test_a_name_that_is_taken_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(IndexingError, match="is taken"):
        HybridIndex.build(tmp_path, NAME, CHUNKS, models=Models([Letters(name), Letters("twice")]))


def test_a_chunk_without_a_vector_is_not_found_by_it(tmp_path: Path) -> None:
    chunks = [piece("x", "xyz"), piece("y", "abc")]
    index = HybridIndex.build(tmp_path, NAME, chunks, models=Models([LETTERS]))

    (found,) = index.search("letters", ["abc"], 10)

    assert [entry.chunk_id for entry in found] == [chunks[1].chunk_id]
