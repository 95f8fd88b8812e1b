"""From configured corpora to chunks and an index that is up to date with the files."""

from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import BuildConfig, HybridIndex
from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.lsa import MOST_CHUNKS
from freshstack_dspy.index.models import Models
from freshstack_dspy.progress import NoProgress
from freshstack_dspy.recipes.corpus import (
    check_retrievers,
    chunk_corpora,
    index_corpora,
    open_index,
)
from tests.heard import Heard
from tests.index.pieces import Letters
from tests.recipes.domain import FILES, domain


def indexed(config: BuildConfig, **arguments: Any) -> HybridIndex:
    return index_corpora(config, chunk_corpora(config, NoProgress()), **arguments)


def rankings(index: HybridIndex) -> dict[str, Any]:
    texts = ["reset the dial", "which python does pip need", "moon phase day"]
    return {name: index.search(name, texts, 10) for name in index.retrievers}


def test_an_index_is_built_where_the_configuration_says(tmp_path: Path) -> None:
    config = domain(tmp_path)
    cut = chunk_corpora(config, NoProgress())
    index = index_corpora(config, cut)

    assert index.path == tmp_path / "index" / "small"
    assert {chunk.path for chunk in index.chunks()} == FILES.keys()
    assert [file.path for file in index.manifest.files] == sorted(FILES)
    assert [(file.path, file.kind) for file in cut.skipped] == [("logo.png", "binary")]
    assert rankings(open_index(config)) == rankings(index)


def test_changed_files_end_as_in_a_build_from_nothing(tmp_path: Path) -> None:
    config, embedder = domain(tmp_path), Letters()
    indexed(config, models=Models([embedder]))
    files = tmp_path / "corpus"
    (files / "docs/reset.md").write_text("# Resetting\n\nTurn the crown until it clicks.\n")
    (files / "docs/crown.md").write_text("# The crown\n\nPull the crown to set the day.\n")
    (files / "src/phase.py").unlink()
    steps = Heard()

    cut = chunk_corpora(config, steps)
    updated = index_corpora(config, cut, models=Models([embedder]))
    fresh = indexed(config.model_copy(update={"name": "fresh"}), models=Models([Letters()]))

    assert steps.notes["chunks"] == "2 of 2 files; 3 unchanged"
    assert len(embedder.embedded) == 5 + 2
    assert list(updated.chunks()) == list(fresh.chunks())
    assert rankings(updated) == rankings(fresh)
    assert open_index(config).manifest.files == fresh.manifest.files


def test_other_settings_of_cutting_cut_everything_again(tmp_path: Path) -> None:
    config = domain(tmp_path)
    indexed(config)
    other, steps = domain(tmp_path, chunking={"max_tokens": 64}), Heard()

    chunk_corpora(other, steps)

    assert steps.notes["chunks"] == "5 of 5 files"


def test_without_an_index_one_is_told_how_to_build_it(tmp_path: Path) -> None:
    config = domain(tmp_path)

    with pytest.raises(IndexingError, match=r"small: no index here.*freshstack index .*build.toml"):
        open_index(config)


def test_a_pool_by_lsa_of_too_many_chunks_is_refused_before_anything_is_paid_for(
    tmp_path: Path,
) -> None:
    config = domain(tmp_path)
    check_retrievers(config, MOST_CHUNKS)

    with pytest.raises(IndexingError, match=r'200,000 chunks.*retrievers = \["bm25"\]'):
        check_retrievers(config, MOST_CHUNKS + 1)
