import random
import subprocess
import sys
from pathlib import Path

import pytest

from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.records import Chunk
from tests.index.pieces import CAMEL, GREEK, GUIDE, SMALL, SNAKE, TWIN_A, TWIN_B, many, piece

RETRIEVERS = ("bm25", "lsa", "hybrid")
NAME = "index"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> HybridIndex:
    return HybridIndex.build(tmp_path_factory.mktemp("small"), NAME, SMALL)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> HybridIndex:
    return HybridIndex.build(tmp_path_factory.mktemp("large"), NAME, many(400), dimensions=32)


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

    assert small.chunk(found[0].chunk_id) == expected


@pytest.mark.parametrize("retriever", RETRIEVERS)
def test_chunks_of_equal_text_tie_and_stand_by_id(tmp_path: Path, retriever: str) -> None:
    twins = [piece(f"license{letter}", TWIN_A.text) for letter in "dbeac"]
    index = HybridIndex.build(tmp_path, NAME, [*twins, GUIDE])

    (found,) = index.search(retriever, ["permission granted"], 4)

    assert len({entry.score for entry in found}) == 1
    assert [entry.chunk_id for entry in found] == sorted(twin.chunk_id for twin in twins)[:4]


@pytest.mark.parametrize("retriever", RETRIEVERS)
def test_every_ranking_is_totally_ordered(large: HybridIndex, retriever: str) -> None:
    rankings = large.search(retriever, [chunk.text[:40] for chunk in many(20, seed=1)], 50)

    assert all(len(ranking) == 50 for ranking in rankings)
    for ranking in rankings:
        assert ranking == sorted(ranking, key=lambda entry: (-entry.score, entry.chunk_id))


@pytest.mark.parametrize("retriever", RETRIEVERS)
def test_a_text_without_a_known_word_finds_nothing(small: HybridIndex, retriever: str) -> None:
    assert small.search(retriever, ["", "the", "unheard"], 10) == [[], [], []]
    assert small.search(retriever, [], 10) == []


def test_chunks_come_back_whole_and_in_the_order_of_their_ids(small: HybridIndex) -> None:
    expected = sorted(SMALL, key=lambda chunk: chunk.chunk_id)

    assert list(small.chunks()) == expected
    assert len(small) == len(SMALL)
    assert small.chunk(TWIN_B.chunk_id) == TWIN_B


def test_an_index_does_not_depend_on_the_order_of_the_chunks(tmp_path: Path) -> None:
    chunks = many(80)
    shuffled = random.Random(3).sample(chunks, len(chunks))
    queries = [chunk.text for chunk in chunks[:10]]

    one = HybridIndex.build(tmp_path / "one", NAME, chunks, dimensions=8)
    other = HybridIndex.build(tmp_path / "other", NAME, shuffled, dimensions=8)

    assert one.manifest.fingerprint == other.manifest.fingerprint
    for retriever in RETRIEVERS:
        assert one.search(retriever, queries, 20) == other.search(retriever, queries, 20)


def test_an_unknown_retriever_is_answered_with_the_known_ones(small: HybridIndex) -> None:
    with pytest.raises(IndexingError, match=r"'bm52'.*bm25, lsa, hybrid"):
        small.search("bm52", ["user"], 10)


def test_two_chunks_of_one_id_are_refused(tmp_path: Path) -> None:
    with pytest.raises(IndexingError, match=GUIDE.chunk_id):
        HybridIndex.build(tmp_path, NAME, [GUIDE, CAMEL, GUIDE])


def test_a_corpus_without_a_word_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IndexingError, match="none of the 1 chunks holds a word"):
        HybridIndex.build(tmp_path, NAME, [piece("-", "!?!")])


def test_a_chunk_without_a_word_stands_beside_others(tmp_path: Path) -> None:
    index = HybridIndex.build(tmp_path, NAME, [piece("-", "!?!"), GUIDE])

    assert [len(ranking) for ranking in index.search("hybrid", ["!?!", "server"], 10)] == [0, 1]


def test_encodings_and_odd_paths_come_back(tmp_path: Path) -> None:
    odd = [
        piece("a 'quoted' \"name\".md", "one"),
        piece("new\nline.md", "two"),
        piece("percent%20.md", "three"),
        piece("ключ/日本.md", "four").model_copy(update={"encoding": "utf-16-le"}),
    ]
    index = HybridIndex.build(tmp_path, NAME, odd)

    assert sorted(index.chunks(), key=lambda chunk: chunk.tokens) == sorted(
        odd, key=lambda chunk: chunk.chunk_id
    )
    assert [len(found) for found in index.search("bm25", ["one", "four", "日本"], 5)] == [1, 1, 1]


def test_opening_reads_no_table_and_waits_for_no_heavy_library(tmp_path: Path) -> None:
    path = HybridIndex.build(tmp_path, NAME, SMALL).path
    heavy = ("lancedb", "pyarrow", "bm25s", "scipy")
    code = (
        "import sys; from pathlib import Path; from freshstack_dspy.index import HybridIndex; "
        f"size = len(HybridIndex.open(Path({str(path)!r}))); "
        f"sys.exit(size != {len(SMALL)} or any(n in sys.modules for n in {heavy}))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
