"""An index made and searched over a cluster, in an object store: that of one process in a folder."""

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from freshstack_dspy import load_config
from freshstack_dspy.config import EngineConfig
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.index.table import TERMS, column_of
from freshstack_dspy.progress import NoProgress
from freshstack_dspy.recipes.corpus import chunk_corpora, index_corpora
from freshstack_dspy.recipes.opening import search_models
from freshstack_dspy.records import Chunk
from tests.index.tiny_models import tiny_embedder

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("default")]
PACKAGES = ("networkx", "numpy", "scikit-learn")
"""What questions of bioinformatics are about: 2,200 files, 22,000 chunks."""


def indexed(folder: Path, model: Path, path: str, engine: EngineConfig) -> HybridIndex:
    """The index of installed packages, searched by LanceDB and by a model in a folder."""
    folder.mkdir()
    (folder / "questions.jsonl").touch()
    corpora = ", ".join(f'{{name = "{name}", package = "{name}"}}' for name in PACKAGES)
    (folder / "build.toml").write_text(
        f"""
        name = "packages"
        out = "collection"
        queries = {{path = "questions.jsonl"}}
        corpus = [{corpora}]
        embedder = [{{name = "tiny", path = "{model}", batch = 64}}]
        engine = {{name = "{engine.name}", address = "{engine.address}"}}
        index = {{path = "{path}", lexical = "lance"}}
        pool = {{retrievers = ["bm25", "tiny"]}}
        cache = {{path = "cache"}}
        """
    )
    config = load_config(folder / "build.toml")
    with search_models(config) as models:
        return index_corpora(config, chunk_corpora(config, NoProgress()), models=models)


def rows(index: HybridIndex, *columns: str) -> list[dict[str, Any]]:
    return [row for batch in index._table.batches(columns) for row in batch.to_pylist()]


def test_an_index_over_a_cluster_in_an_object_store_is_that_of_one_process(
    engine: EngineConfig, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_embedder(tmp_path / "model")
    here = indexed(tmp_path / "here", model, "index", EngineConfig())
    there = indexed(tmp_path / "there", model, "s3://bucket/index", engine)

    assert len(here) > 10_000
    assert len(there.manifest.revisions) == len(PACKAGES)
    assert rows(here, *Chunk.model_fields, TERMS) == rows(there, *Chunk.model_fields, TERMS)
    near, far = (
        [row[column_of("tiny")] for row in rows(one, column_of("tiny"))] for one in (here, there)
    )
    np.testing.assert_allclose(near, far, atol=1e-6)
    assert there.manifest.key == here.manifest.key
    texts = [chunk.text[:200] for chunk in islice(here.chunks(), 0, 12_000, 100)]
    for retriever in ("tiny", "hybrid"):
        both = (index.search(retriever, texts[:9], 5) for index in (here, there))
        for one, other in zip(*both, strict=True):
            assert [score for _, score in one] == pytest.approx([s for _, s in other], abs=1e-5)
    expected = here.search("bm25", texts, 20)
    monkeypatch.setattr(there, "_table", None)  # of this process: each node opens its own
    assert there.search("bm25", texts, 20) == expected
