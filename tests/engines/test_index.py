"""An index made over a cluster, in an object store: that of one process in a folder."""

from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import load_config
from freshstack_dspy.config import EngineConfig
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.index.table import TERMS, column_of
from freshstack_dspy.progress import NoProgress
from freshstack_dspy.recipes.chunking import chunk_corpora
from freshstack_dspy.recipes.corpus import index_corpora, search_models
from freshstack_dspy.records import Chunk
from tests.engines.conftest import MODELS

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("default")]


def indexed(folder: Path, path: str, engine: EngineConfig) -> HybridIndex:
    """The index of an installed package, searched by LanceDB and by a model in a folder."""
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text("{}")
    (folder / "questions.jsonl").touch()
    (folder / "build.toml").write_text(
        f"""
        name = "rich"
        out = "collection"
        queries = {{path = "questions.jsonl"}}
        corpus = [{{name = "rich", package = "rich"}}]
        embedder = [{{name = "hashes", path = "model", batch = 32}}]
        engine = {{name = "{engine.name}", address = "{engine.address}"}}
        index = {{path = "{path}", lexical = "lance"}}
        pool = {{retrievers = ["bm25", "hashes"]}}
        cache = {{path = "cache"}}
        """
    )
    config = load_config(folder / "build.toml")
    with search_models(config) as models:
        return index_corpora(config, chunk_corpora(config, NoProgress()), models=models)


def rows(index: HybridIndex) -> list[dict[str, Any]]:
    columns = [*Chunk.model_fields, TERMS, column_of("hashes")]
    return [row for batch in index._table.batches(columns) for row in batch.to_pylist()]


def test_an_index_over_a_cluster_in_an_object_store_is_that_of_one_process(
    engine: EngineConfig, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(MODELS)
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    here = indexed(tmp_path / "here", "index", EngineConfig())
    there = indexed(tmp_path / "there", "s3://bucket/index", engine)

    assert rows(here) == rows(there)
    assert there.manifest.fingerprint == here.manifest.fingerprint
    texts = ["render a table", "console width"]
    for retriever in ("bm25", "hashes", "hybrid"):
        assert there.search(retriever, texts, 20) == here.search(retriever, texts, 20)
