"""Stores and bundles that hold vectors and scores beside replies: one file to hand on."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.lm.bundle import (
    Bundles,
    write_bundle,
)
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.lm.vectors import fingerprint_figures, used_figures
from tests.lm.chat_server import ChatServer
from tests.lm.recording import reply

from .conftest import OpenClient, OpenReranker
from .numbers_server import embeddings, vector

TEXTS = [f"text {number}" for number in range(6)]


@pytest.fixture
def bundle(
    tmp_path: Path, open_client: OpenClient, open_reranker: OpenReranker, store: ReplyStore
) -> Path:
    """A reply, six vectors and one list of scores, as a build hands them on."""
    client, reranker = open_client(), open_reranker()
    client.vectors(TEXTS)
    reranker.scores("query", ["one", "two"])
    store.put(reply())
    written = write_bundle(
        [*store.replies(), *used_figures([client, reranker, object()])], tmp_path / "all.jsonl"
    )
    assert written == 8
    return tmp_path / "all.jsonl"


def test_a_bundle_alone_is_enough_to_replay(
    bundle: Path, open_client: OpenClient, open_reranker: OpenReranker
) -> None:
    with closing(Bundles([bundle])) as recorded:
        access: dict[str, Any] = {"store": None, "recorded": recorded}
        found = open_client("replay", access=access).vectors(TEXTS)
        scores = open_reranker("replay", access=access).scores("query", ["two", "one"])

    assert found.tolist() == [vector(text) for text in TEXTS]
    assert scores == open_reranker("replay").scores("query", ["one", "two"])[::-1]


def test_the_fingerprint_is_of_what_was_given_out(
    server: ChatServer, open_client: OpenClient
) -> None:
    live, replay = open_client(), open_client("replay")
    live.vectors(TEXTS)
    replay.vectors(TEXTS)
    same = fingerprint_figures([live]), fingerprint_figures([replay])
    server.script = lambda body: embeddings(body, vectors=[[1.0] * 8 for _ in body["input"]])
    other = open_client("rerecord")
    other.vectors(TEXTS)

    assert same[0] == same[1]
    assert fingerprint_figures([other]) != same[0]
