"""An index of terms alone: the same rankings, and whole whatever happens to it."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.building import silence
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.index.lexical_folder import search_lexically
from freshstack_dspy.index.workplace import hold
from freshstack_dspy.records import Chunk, ScoredChunk

from .pieces import piece

CHUNKS = [
    piece("a.md", "restart the server after the install"),
    piece("b.py", "def getUserName(user_id): return cache[user_id].name"),
    piece("c.md", "the name of a user, and the name of a server"),
]
TEXTS = ["name of a user", "restart restart server", "nothing of this", ""]


def search(folder: Path, chunks: list[Chunk] = CHUNKS) -> list[list[ScoredChunk]]:
    return search_lexically(folder, chunks, TEXTS, 2, silence)


def parts(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("bm25-*"))


def test_the_rankings_are_those_of_a_whole_index(tmp_path: Path) -> None:
    index = HybridIndex.build(tmp_path, "whole", CHUNKS)

    written, read = search(tmp_path / "alone"), search(tmp_path / "alone", CHUNKS[::-1])

    assert written == read == index.search("bm25", TEXTS, depth=2)
    assert parts(tmp_path / "alone") == ["bm25-1"]


DAMAGES: list[Callable[[Path], object]] = [
    lambda part: (part / "stamp").unlink(),
    lambda part: (part / "stamp").write_text("of something else"),
    lambda part: (part / "stamp").write_bytes(b"\xff"),
    lambda part: (part / "data.csc.index.npy").write_bytes(b"short"),
    lambda part: (part / "indices.csc.index.npy").unlink(),
    lambda part: (part / "vocab.index.json").write_text("[]"),
    lambda part: (part / "vocab.index.json").unlink(),
    lambda part: (part / "readers.lock").unlink(),
    lambda part: (part / "readers.lock").write_text("no database" * 100),
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_was_cut_short_or_damaged_is_written_again(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    first = search(tmp_path / "alone")
    damage(tmp_path / "alone/bm25-1")

    assert search(tmp_path / "alone") == first
    assert search(tmp_path / "alone") == first


def test_other_chunks_replace_it_but_not_what_is_being_read(tmp_path: Path) -> None:
    folder = tmp_path / "alone"
    first = search(folder)
    reader = hold(folder / "bm25-1")
    others = search(folder, CHUNKS[:2])
    while_read = parts(folder)
    reader.close()

    assert others != first
    assert while_read == ["bm25-1", "bm25-2"]
    assert search(folder) == first
    assert search(folder, [*CHUNKS, piece("d.md", "more")]) is not None
    assert len(parts(folder)) == 1


def test_several_may_search_before_it_is_written(tmp_path: Path) -> None:
    found: list[list[list[ScoredChunk]]] = []
    threads = [
        threading.Thread(target=lambda: found.append(search(tmp_path / "alone"))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [search(tmp_path / "alone")] * 4
    assert parts(tmp_path / "alone") == ["bm25-1"]


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone/thesis.txt").write_text("mine")

    with pytest.raises(IndexingError, match=r"holds 'thesis\.txt' and no index"):
        search(tmp_path / "alone")
    assert (tmp_path / "alone/thesis.txt").read_text() == "mine"


def test_what_cannot_be_searched_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IndexingError, match="depth must be at least 1, not 0"):
        search_lexically(tmp_path / "alone", CHUNKS, TEXTS, 0, silence)
    with pytest.raises(IndexingError, match="none of the 1 chunks holds a word to find it by"):
        search(tmp_path / "alone", [piece("!", "…")])
    assert not parts(tmp_path / "alone")
