"""An index in an object store: a real server of S3 on this machine."""

from pathlib import Path

import lancedb
import pytest

from freshstack_dspy import HybridIndex
from freshstack_dspy import build as build_collection
from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.models import Models
from tests.heard import Heard
from tests.index.builds import AFTER, BEFORE
from tests.index.pieces import Letters, rankings
from tests.recipes.domain import domain

pytestmark = pytest.mark.slow
QUERIES = [chunk.text for chunk in AFTER[:5]]
ROOT, NAME = "s3://bucket/indexes", "corpus"


def build(name: str = NAME, chunks: object = BEFORE, **arguments: object) -> HybridIndex:
    return HybridIndex.build(ROOT, name, chunks, lexical="lance", **arguments)  # type: ignore[arg-type]


def test_it_is_that_of_a_folder(store: str, tmp_path: Path) -> None:
    models = Models([Letters()])
    here = HybridIndex.build(tmp_path, NAME, BEFORE, lexical="lance", models=models)

    there = build(models=models)
    opened = HybridIndex.open(f"{ROOT}/{NAME}", models=models)

    assert rankings(opened, QUERIES) == rankings(here, QUERIES)
    assert list(opened.chunks()) == list(here.chunks())
    some = [chunk.chunk_id for chunk in BEFORE[5:9]]
    assert opened.chunks_by_id(some) == here.chunks_by_id(some)
    assert there.manifest.key == here.manifest.key
    with pytest.raises(IndexingError, match="no chunk 'nowhere'"):
        opened.chunks_by_id(["nowhere"])


def test_a_reader_keeps_what_it_opened_and_the_next_build_takes_known_vectors(store: str) -> None:
    letters = Letters()
    reader = build(models=Models([letters]))
    before = rankings(reader, QUERIES)

    build(chunks=AFTER, models=Models([letters]))

    assert letters.embedded[len(BEFORE) :] == ["new file.py\nzebra crossing wordb2"]
    assert rankings(reader, QUERIES) == before
    keys = [build(chunks=each).manifest.key for each in (BEFORE[:9], AFTER)]
    assert HybridIndex.open(f"{ROOT}/{NAME}").manifest.key == keys[-1]
    kept = lancedb.connect(f"{ROOT}/{NAME}").list_tables().tables
    assert set(kept) == {*keys, "indexes"}


def test_a_build_reaches_its_store_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "planted-secret-91c7")
    store = {"path": ROOT, "lexical": "lance"}
    config = domain(
        tmp_path, index=store, pool={"retrievers": ["bm25"]}, model={"name": "extractive/baseline"}
    )
    heard = Heard()

    with pytest.raises(IndexingError, match="nothing answers at its endpoint"):
        build_collection(config, progress=heard)

    assert heard.started == {}


def test_what_is_wrong_is_said_in_one_line_without_secrets(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(path: str) -> str:
        with pytest.raises(IndexingError) as caught:
            HybridIndex.open(path)
        assert "planted-secret" not in str(caught.value)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "no index here" in said(f"{ROOT}/nothing")
    assert "no such bucket" in said("s3://nobody/indexes/x")
    assert "No object store provider" in said("ftp://bucket/indexes/x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert "nothing answers at its endpoint" in said(f"{ROOT}/x")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert "no credentials" in said(f"{ROOT}/x")
