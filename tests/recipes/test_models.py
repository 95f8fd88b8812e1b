"""Builds with a hosted embedder and reranker: what is recorded decides, and no index."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import BuildConfig, build, load_config, plan, stale
from freshstack_dspy.recipes.provenance import export_replies
from tests.lm.chat_server import ChatServer, Scripted
from tests.lm.numbers_server import answer, embeddings, reranked, vector
from tests.recipes.domain import write_domain

BASELINE = {"name": "extractive/baseline"}


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(answer).running() as running:
        yield running


def configured(folder: Path, server: ChatServer, **sections: Any) -> BuildConfig:
    folder.mkdir(exist_ok=True)
    hosted = {"api_base": server.api_base, "api_key": "sk-secret", "price": 0.0, "retries": 0}
    path = write_domain(
        folder,
        model=BASELINE,
        pool={"depth": 2, "top_k": 2, "retrievers": ["bm25", "small", "hybrid+rerank"]},
        reranker={"model": "hosted_vllm/judge", "depth": 4, **hosted},
        **sections,
    )
    rows = "".join(f"{key} = {value!r}\n" for key, value in hosted.items())
    path.write_text(
        f'{path.read_text()}\n[[embedder]]\nname = "small"\nmodel = "openai/small"\n{rows}'
    )
    return load_config(path)


def other_numbers(body: dict[str, Any]) -> Scripted:
    """What the same names say after their models were exchanged."""
    if "documents" in body:
        return reranked(body)
    return embeddings(body, [vector(f"{text} anew") for text in body["input"]])


def test_what_was_used_is_whole_whether_an_index_stands_or_not(
    tmp_path: Path, server: ChatServer
) -> None:
    """And a plan counts what is to be embedded, and no key is in what is written."""
    config = configured(tmp_path / "ours", server)
    (planned,) = plan(config).embeddings
    first = build(config)
    export_replies(config, tmp_path / "first.jsonl")
    (left,) = plan(config).embeddings
    again = build(config)
    export_replies(config, tmp_path / "again.jsonl")
    asked = len(server.requests)

    assert (planned.texts, planned.recorded) == (5 + 6, 0)  # chunks, questions and answers
    assert (left.texts, left.recorded) == (0, 11)
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "build.toml"]
    assert not [path for path in files if b"sk-secret" in path.read_bytes()]
    assert again.manifest.content_hash == first.manifest.content_hash
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "first.jsonl").read_bytes()

    bundles = [str(tmp_path / "again.jsonl")]
    theirs = configured(tmp_path / "theirs", server, cache={"path": "cache", "bundles": bundles})
    replayed = build(theirs, mode="replay")

    assert replayed.manifest.content_hash == first.manifest.content_hash
    assert len(server.requests) == asked


def test_a_refresh_takes_the_vectors_of_now(tmp_path: Path, server: ChatServer) -> None:
    """Also where the index has others of the same model for the same content."""
    config = configured(tmp_path / "ours", server)
    build(config)
    server.script = other_numbers

    refreshed = build(config, mode="rerecord")
    shutil.rmtree(config.index.path)
    shutil.rmtree(config.out)
    afresh = build(config, mode="replay")

    assert refreshed.manifest.content_hash == afresh.manifest.content_hash


def test_what_is_stale_is_found_without_vectors(tmp_path: Path, server: ChatServer) -> None:
    config = configured(tmp_path / "ours", server)
    build(config)
    asked = len(server.requests)
    (tmp_path / "ours/corpus/docs/reset.md").write_text("# Resetting\n\nIt cannot be reset.\n")

    found = stale(config)

    assert len(server.requests) == asked
    assert found.chunks.added == found.plan.embeddings[0].texts == 1
    assert [one.change for one in found.labels] == ["gone"] * len(found.labels)
