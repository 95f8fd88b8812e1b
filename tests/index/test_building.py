"""What is built again, what is used again, and what others see meanwhile."""

import random
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import Chunk, HybridIndex
from freshstack_dspy.corpus.parquet import ChunkFile
from freshstack_dspy.errors import FatalModelError, IndexingError
from freshstack_dspy.index.models import EmbeddingError, Models
from freshstack_dspy.index.storage import Settings
from tests.heard import Heard
from tests.index.builds import AFTER, BEFORE, DIMENSIONS, NAME
from tests.index.pieces import Letters, many, piece, rankings

QUERIES = [chunk.text for chunk in many(5, seed=5)] + ["zebra"]


def build(root: Path, chunks: Sequence[Chunk], **arguments: Any) -> HybridIndex:
    arguments.setdefault("dimensions", DIMENSIONS)
    return HybridIndex.build(root, NAME, chunks, **arguments)


def test_an_index_that_holds_the_same_is_opened(tmp_path: Path) -> None:
    first = build(tmp_path, BEFORE)
    heard = Heard()

    again = build(tmp_path, BEFORE[::-1], progress=heard)

    assert heard.started == {}
    assert again.manifest == first.manifest
    before, after = ChunkFile.holding(BEFORE), ChunkFile.holding(AFTER)
    settings = Settings(DIMENSIONS)
    assert HybridIndex.find(tmp_path, NAME, before, settings)
    assert not HybridIndex.find(tmp_path, NAME, after, settings)
    assert not HybridIndex.find(tmp_path, "other", before, settings)


def test_a_changed_corpus_ends_as_a_build_from_nothing(tmp_path: Path) -> None:
    build(tmp_path / "one", BEFORE)
    changed, fresh = build(tmp_path / "one", AFTER), build(tmp_path / "two", AFTER)

    assert changed.manifest.key == fresh.manifest.key
    assert list(changed.chunks()) == list(fresh.chunks())
    assert rankings(changed, QUERIES) == rankings(fresh, QUERIES)
    for file in ("lsa/directions.npy", "bm25/data.csc.index.npy"):
        same = [Path(each.path, each.manifest.key, file).read_bytes() for each in (changed, fresh)]
        assert same[0] == same[1]


def test_other_parameters_of_bm25_are_another_index_and_the_default_ones_are_not(
    tmp_path: Path,
) -> None:
    key = build(tmp_path, BEFORE).manifest.key

    assert build(tmp_path, BEFORE, k1=1.2, b=0.75).manifest.key == key
    assert build(tmp_path, BEFORE, k1=0.9, b=0.4).manifest.key != key
    with pytest.raises(IndexingError, match="take 'bm25s'"):
        build(tmp_path, BEFORE, k1=0.9, lexical="lance")


def test_progress_goes_through_all_stages(tmp_path: Path) -> None:
    heard = Heard()

    build(
        tmp_path,
        BEFORE,
        models=Models([Letters()]),
        progress=heard,
    )

    assert list(heard.notes) == ["terms", "bm25", "lsa", "letters", "table"]
    assert heard.advanced == dict.fromkeys(heard.notes, 100)


def test_vectors_of_known_content_are_used_again_by_the_same_model_only(tmp_path: Path) -> None:
    """Also at a new commit, which is another index."""
    letters = Letters()
    build(tmp_path, BEFORE, models=Models([letters]))
    assert len(letters.embedded) == len(BEFORE)

    moved = [chunk.model_copy(update={"source": "moved", "revision": "2"}) for chunk in AFTER]
    index = build(tmp_path, moved, models=Models([letters]))

    assert letters.embedded[len(BEFORE) :] == ["new file.py\nzebra crossing wordb2"]
    assert index.manifest.revisions == {"moved": "2"}
    assert {chunk.revision for chunk in HybridIndex.open(tmp_path / NAME).chunks()} == {"2"}
    other = Letters(letters="xyz")
    build(tmp_path, moved, models=Models([other]))
    assert len(other.embedded) == len(AFTER)


def test_an_index_with_more_embedders_is_used_and_the_one_before_is_taken_up_again(
    tmp_path: Path,
) -> None:
    both = build(tmp_path, BEFORE, models=Models([Letters()]))
    assert build(tmp_path, BEFORE).manifest == both.manifest
    build(tmp_path, AFTER)
    heard = Heard()

    again = build(tmp_path, BEFORE, models=Models([Letters()]), progress=heard)

    assert heard.started == {}
    assert again.manifest == both.manifest == HybridIndex.open(tmp_path / NAME).manifest


def test_a_chunk_that_cannot_be_embedded_is_named(tmp_path: Path) -> None:
    class Refusing(Letters):
        def embed_passages(self, texts: Sequence[str], progress: Any) -> Any:
            raise EmbeddingError(self.name, texts[2], "its vector is not finite")

    wrong = sorted(chunk.chunk_id for chunk in BEFORE)[2]
    with pytest.raises(IndexingError, match=f"cannot embed the chunk {wrong!r}: its vector is not"):
        build(tmp_path, BEFORE, models=Models([Refusing()]))


def test_a_reader_sees_what_it_opened_through_a_build(tmp_path: Path) -> None:
    reader = build(tmp_path, BEFORE)

    build(tmp_path, AFTER)

    assert list(reader.chunks()) == sorted(BEFORE, key=lambda chunk: chunk.chunk_id)
    assert rankings(reader, QUERIES) == rankings(build(tmp_path / "fresh", BEFORE), QUERIES)
    build(tmp_path, BEFORE[:9])
    kept = {entry.name for entry in Path(reader.path).iterdir()}
    assert kept == {
        "current",
        *(build(tmp_path, each).manifest.key for each in (AFTER, BEFORE[:9])),
    }


def test_writers_take_turns(tmp_path: Path) -> None:
    corpora = [[*AFTER, piece("more.py", f"more {number}")] for number in range(4)]

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda chunks: build(tmp_path, chunks), corpora))

    last = HybridIndex.open(tmp_path / NAME)
    assert last.manifest.key in {index.manifest.key for index in made}
    assert all(len(index) == len(AFTER) + 1 for index in made)


@pytest.mark.slow
def test_a_build_killed_at_any_moment_leaves_the_old_index_or_the_new(tmp_path: Path) -> None:
    old = build(tmp_path / "old", BEFORE)
    old_rankings = rankings(old, QUERIES)
    new = build(tmp_path / "new", AFTER)
    expected = {each.manifest.key: rankings(each, QUERIES) for each in (old, new)}
    assert expected[old.manifest.key] == old_rankings

    for event in range(1, 200, 7):
        root = tmp_path / f"killed {event}"
        shutil.copytree(tmp_path / "old", root)
        command = [sys.executable, "-m", "tests.index.builds", str(root), str(event)]
        killed = subprocess.run(command, capture_output=True, check=False).returncode != 0
        index = HybridIndex.open(root / NAME)
        assert rankings(index, QUERIES) == expected[index.manifest.key]
        assert build(root, AFTER).manifest.key == new.manifest.key
        if not killed:
            return
    raise AssertionError("it was killed every time")


def test_a_build_that_fails_leaves_no_piece_of_an_index(tmp_path: Path) -> None:
    class Failing(Letters):
        def embed_passages(self, *_: Any) -> Any:
            raise FatalModelError("no key")

    kept = build(tmp_path, BEFORE)

    for root in (tmp_path, tmp_path / "fresh"):
        with pytest.raises(FatalModelError):
            build(root, AFTER, models=Models([Failing()]))

    assert [each.parent.name for each in tmp_path.rglob("*.parquet")] == [kept.manifest.key]


def test_an_index_without_lsa_searches_by_words(tmp_path: Path) -> None:
    index = build(tmp_path, BEFORE, dimensions=0)

    assert index.retrievers == ("bm25", "hybrid")
    assert index.search("bm25", QUERIES, 9) == build(tmp_path / "all", BEFORE).search(
        "bm25", QUERIES, 9
    )


def test_only_embedders_and_lance_need_a_lancedb_table(tmp_path: Path) -> None:
    index = build(tmp_path, BEFORE)
    assert not [*Path(index.path).rglob("*.lance")]
    searching = (
        "import sys; from freshstack_dspy import HybridIndex\n"
        f"index = HybridIndex.open({str(index.path)!r})\n"
        "print(*index.chunks_by_id(each.chunk_id for each in index.search('hybrid', ['worda1'], 3)[0]))\n"
        "sys.exit('lancedb' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", searching], check=True, stdout=subprocess.DEVNULL)

    import lancedb

    index = build(tmp_path, BEFORE, models=Models([Letters()]))
    table = lancedb.connect(Path(index.path) / index.manifest.key).open_table("chunks")
    rows = table.to_arrow()
    assert rows["chunk_id"].to_pylist() == sorted(chunk.chunk_id for chunk in BEFORE)
    assert {"text", "path", "vector_letters"} <= set(rows.column_names)
    assert ["chunk_id"] in [each.columns for each in table.list_indices()]


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def test_a_damaged_index_is_named_and_built_again(tmp_path: Path) -> None:
    """A bit of every file, one after the other: no traceback, and no other ranking."""
    whole = build(tmp_path / "whole", BEFORE)
    expected = rankings(whole, QUERIES)
    names = [path.relative_to(whole.path) for path in Path(whole.path).rglob("*") if path.is_file()]
    rng = random.Random(0)

    for name in names:
        shutil.copytree(tmp_path / "whole", tmp_path / "damaged", dirs_exist_ok=True)
        path = tmp_path / "damaged" / NAME / name
        if not path.stat().st_size:
            continue
        flip(path, rng.randrange(8 * path.stat().st_size))
        message = "damaged: freshstack index"
        try:
            assert rankings(HybridIndex.open(tmp_path / "damaged" / NAME), QUERIES) == expected, (
                name
            )
        except IndexingError as error:
            message = str(error)
        assert re.search("damaged.*freshstack index", message), name
        if rng.random() < 0.2:
            assert rankings(build(tmp_path / "damaged", BEFORE), QUERIES) == expected
        shutil.rmtree(tmp_path / "damaged")


def test_a_folder_without_a_whole_index_is_an_error(tmp_path: Path) -> None:
    index = build(tmp_path, BEFORE)
    with pytest.raises(IndexingError, match="no index here"):
        HybridIndex.open(tmp_path)

    shutil.rmtree(index.path / index.manifest.key)

    with pytest.raises(IndexingError, match="a damaged index"):
        HybridIndex.open(index.path)
    assert len(build(tmp_path, BEFORE)) == len(BEFORE)
