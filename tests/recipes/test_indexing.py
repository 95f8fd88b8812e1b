"""The index of a configuration: built, updated to what a rebuild gives, and opened."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from freshstack_dspy.config import BuildConfig, load_config
from freshstack_dspy.errors import IndexingError, SourceError
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.index.settings import IndexSettings
from freshstack_dspy.recipes.cutting import cut_by
from freshstack_dspy.recipes.indexing import (
    build_index,
    cut_corpora,
    index_corpora,
    open_index,
    update_index,
)
from freshstack_dspy.recipes.session import Silence
from freshstack_dspy.records import Chunk
from tests.recipes.domain import FILES, write_domain


class LetterEmbedder:
    """Counts letters, and remembers what it was asked to embed."""

    name = "letters"
    identity = "counts of a to z"

    def __init__(self) -> None:
        self.passages: list[str] = []

    def embed_passages(
        self, texts: Sequence[str], progress: Callable[[float], None]
    ) -> NDArray[np.float32]:
        self.passages += texts
        progress(1)
        return self.embed_queries(texts)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        letters = "abcdefghijklmnopqrstuvwxyz"
        return np.array([[text.count(letter) for letter in letters] for text in texts], np.float32)


class Steps:
    """Progress that is remembered."""

    def __init__(self) -> None:
        self.parts: dict[str, list[int]] = {}
        self.notes: dict[str, str] = {}

    def start(self, step: str, total: int) -> None:
        assert step not in self.parts
        self.parts[step] = [total, 0]

    def advance(self, step: str) -> None:
        self.parts[step][1] += 1

    def finish(self, step: str, note: str = "") -> None:
        assert step not in self.notes
        self.notes[step] = note


def configured(folder: Path, **sections: dict[str, Any]) -> BuildConfig:
    return load_config(write_domain(folder, **sections))


def contents(index: HybridIndex) -> list[Chunk]:
    return list(index.chunks())


def rankings(index: HybridIndex) -> dict[str, Any]:
    texts = ["reset the dial", "which python does pip need", "moon phase day"]
    return {name: index.search(name, texts, 10) for name in index.retrievers}


def test_an_index_is_built_where_the_configuration_says(tmp_path: Path) -> None:
    made = build_index(configured(tmp_path))

    assert made.index.path == tmp_path / "index" / "small"
    assert (made.files, made.difference) == (5, None)
    assert {chunk.path for chunk in made.index.chunks()} == FILES.keys()
    assert [(file.path, file.kind) for file in made.skipped] == [("logo.png", "binary")]
    assert [file.path for file in made.index.files()] == sorted(FILES)


def test_an_open_index_is_the_one_that_was_built(tmp_path: Path) -> None:
    config = configured(tmp_path)
    built = build_index(config).index

    opened = open_index(config)

    assert opened.fingerprint == built.fingerprint
    assert rankings(opened) == rankings(built)


def test_an_update_after_nothing_has_changed_changes_nothing(tmp_path: Path) -> None:
    config = configured(tmp_path)
    before = build_index(config).index

    updated = update_index(config)

    assert updated.difference is not None
    assert updated.difference.files_kept == 5
    assert (updated.difference.added, updated.difference.removed) == (0, 0)
    assert updated.index.fingerprint == before.fingerprint


def test_an_update_finds_what_a_build_from_nothing_finds(tmp_path: Path) -> None:
    config = configured(tmp_path)
    build_index(config)
    corpus = tmp_path / "corpus"
    (corpus / "docs/reset.md").write_text("# Resetting\n\nTurn the crown until it clicks.\n")
    (corpus / "docs/crown.md").write_text("# The crown\n\nPull the crown to set the day.\n")
    (corpus / "src/phase.py").unlink()

    updated = update_index(config, refit_lsa=True)
    fresh = build_index(config.model_copy(update={"name": "fresh"}))

    difference = updated.difference
    assert difference is not None
    assert (difference.files_added, difference.files_changed) == (1, 1)
    assert (difference.files_removed, difference.files_kept) == (1, 3)
    assert (difference.added, difference.removed, difference.kept) == (2, 2, 3)
    assert difference.lsa == "fitted"
    assert contents(updated.index) == contents(fresh.index)
    assert rankings(updated.index) == rankings(fresh.index)
    assert open_index(config).files() == fresh.index.files()


def test_only_what_has_changed_is_embedded(tmp_path: Path) -> None:
    config = configured(tmp_path)
    first, second = LetterEmbedder(), LetterEmbedder()
    build_index(config, embedders=[first])
    (tmp_path / "corpus/docs/dial.md").write_text("# The dial\n\nIt shows the tide.\n")

    updated = update_index(config, embedders=[second])

    assert len(first.passages) == 5
    assert len(second.passages) == 1
    assert "tide" in second.passages[0]
    assert updated.difference is not None
    assert updated.difference.embedded == {"letters": 1}
    assert "letters" in updated.index.retrievers


def test_a_skipped_file_is_told_by_an_update_too(tmp_path: Path) -> None:
    config = configured(tmp_path)
    build_index(config)
    (tmp_path / "corpus/docs/reset.md").write_bytes(b"\x00\x01\x02")

    updated = update_index(config)

    assert sorted(file.path for file in updated.skipped) == ["docs/reset.md", "logo.png"]
    assert updated.difference is not None
    assert updated.difference.files_removed == 1


@pytest.mark.parametrize(
    "sections", [{"chunking": {"max_tokens": 64}}, {"index": {"dimensions": 3}}]
)
def test_other_settings_need_a_new_index(tmp_path: Path, sections: dict[str, Any]) -> None:
    build_index(configured(tmp_path))
    other = configured(tmp_path, **sections)

    with pytest.raises(IndexingError, match="build it: freshstack index build CONFIG"):
        update_index(other)

    build_index(other)
    assert update_index(other).difference is not None


def test_where_an_index_stands_does_not_matter_to_how_it_is_cut(tmp_path: Path) -> None:
    here = configured(tmp_path / "here")
    there = configured(tmp_path / "there", index={"path": "elsewhere"})

    assert cut_by(here) == cut_by(there)


def test_without_an_index_there_is_nothing_to_update_or_open(tmp_path: Path) -> None:
    config = configured(tmp_path)

    for act in (update_index, open_index):
        with pytest.raises(IndexingError, match=r"index/small: no index here; build it"):
            act(config)


def test_an_update_without_an_embedder_of_the_index_is_refused(tmp_path: Path) -> None:
    config = configured(tmp_path)
    build_index(config, embedders=[LetterEmbedder()])
    (tmp_path / "corpus/docs/dial.md").write_text("# The dial\n\nIt shows the tide.\n")

    with pytest.raises(IndexingError, match="'letters'"):
        update_index(config)


def test_a_corpus_that_is_gone_leaves_the_index_as_it_was(tmp_path: Path) -> None:
    config = configured(tmp_path)
    built = build_index(config).index
    (tmp_path / "corpus").rename(tmp_path / "gone")

    with pytest.raises(SourceError, match="corpus"):
        update_index(config)

    assert rankings(open_index(config)) == rankings(built)


def test_progress_is_told_step_by_step(tmp_path: Path) -> None:
    steps = Steps()

    build_index(configured(tmp_path), embedders=[LetterEmbedder()], progress=steps)

    assert list(steps.parts)[:2] == ["files", "chunks"]
    assert {"terms", "bm25", "lsa", "letters", "table"} <= steps.parts.keys()
    assert all(done == total for total, done in steps.parts.values())
    assert steps.notes.keys() == steps.parts.keys()
    assert steps.notes["files"] == "5 to index; skipped: 1 binary"
    assert steps.notes["chunks"] == "5 of 5 files"


def test_a_file_without_chunks_is_no_obstacle(tmp_path: Path) -> None:
    """A notebook may have cells and no text in them."""
    config = configured(tmp_path)
    build_index(config)
    (tmp_path / "corpus/blank.ipynb").write_text('{"cells": [], "nbformat": 4}')
    (tmp_path / "corpus/empty.ipynb").write_text(
        '{"cells": [{"cell_type": "code", "source": []}], "nbformat": 4}'
    )
    (tmp_path / "corpus/docs/new.md").write_text("# New\n\nNews.\n")

    updated = update_index(config)

    assert updated.difference is not None
    assert updated.difference.files_added == 1


def test_whoever_does_not_say_how_chunks_were_cut_changes_nothing(tmp_path: Path) -> None:
    """Retrieving from a collection opens the index of its build, which can then still be updated."""
    config = configured(tmp_path)
    made = build_index(config)

    HybridIndex.build_or_open(
        config.index.path, config.name, contents(made.index), settings=IndexSettings(4, "auto")
    )

    assert open_index(config).cut_by == cut_by(config)


def test_cutting_takes_the_chunks_of_unchanged_files_from_the_index(tmp_path: Path) -> None:
    config = configured(tmp_path)
    fresh = cut_corpora(config, Silence())
    index_corpora(config, fresh)
    (tmp_path / "corpus/docs/dial.md").write_text("# The dial\n\nIt shows the tide.\n")
    (tmp_path / "corpus/docs/reset.md").unlink()
    steps = Steps()

    again = cut_corpora(config, steps)
    elsewhere = config.index.model_copy(update={"path": tmp_path / "elsewhere"})
    afresh = cut_corpora(config.model_copy(update={"index": elsewhere}), Silence())

    assert steps.notes["chunks"] == "1 of 1 files"
    assert sorted(again.chunks, key=lambda chunk: chunk.chunk_id) == sorted(
        afresh.chunks, key=lambda chunk: chunk.chunk_id
    )
    assert (again.files, again.skipped) == (afresh.files, afresh.skipped)


def test_the_same_bytes_read_otherwise_are_cut_again(tmp_path: Path) -> None:
    """A notebook's file, and a document of JSON Lines that happens to hold the same text."""
    notebook = '{"cells": [{"cell_type": "markdown", "source": ["Turn the dial."]}], "nbformat": 4}'
    config = configured(tmp_path)
    (tmp_path / "corpus/nb.ipynb").write_text(notebook)
    index_corpora(config, cut_corpora(config, Silence()))
    lines = tmp_path / "documents.jsonl"
    lines.write_text(json.dumps({"id": "nb.ipynb", "text": notebook}) + "\n")
    (corpus,) = config.corpus
    other = config.model_copy(
        update={"corpus": (corpus.model_copy(update={"path": lines, "include": ()}),)}
    )

    (chunk,) = cut_corpora(other, Silence()).chunks

    assert (chunk.text, chunk.encoding) == (notebook, "utf-8")
