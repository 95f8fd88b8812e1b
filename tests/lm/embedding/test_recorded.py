"""Stores and bundles that hold vectors and scores beside replies: one file to hand on."""

import pickle
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from freshstack_dspy.errors import DamagedReplyError, StoreError
from freshstack_dspy.lm.bundle import (
    Bundle,
    Bundles,
    merge_bundle,
    verify_bundle,
    verify_store,
    write_bundle,
)
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.lm.vectors import fingerprint_figures, used_figures
from tests.lm.chat_server import ChatServer
from tests.lm.recording import reply, rows

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


def test_the_replies_of_a_bundle_are_those_of_language_models(bundle: Path) -> None:
    with closing(Bundle(bundle)) as opened:
        assert list(opened) == [reply().key]
        assert len(list(opened.entries())) == 8
        assert opened.figures(reply().key) is None


def test_a_bundle_is_the_same_whoever_writes_it(bundle: Path, tmp_path: Path) -> None:
    with closing(Bundle(bundle)) as opened:
        write_bundle(reversed(list(opened.entries())), tmp_path / "again.jsonl")

    assert (tmp_path / "again.jsonl").read_bytes() == bundle.read_bytes()


def test_a_store_takes_in_all_of_a_bundle_once(bundle: Path, tmp_path: Path) -> None:
    with closing(Bundle(bundle)) as opened, closing(ReplyStore(tmp_path / "new")) as new:
        first, second = merge_bundle(opened, new), merge_bundle(opened, new)

    assert (first.added, first.same) == (8, 0)
    assert (second.added, second.same) == (0, 8)
    assert str(verify_store(tmp_path / "new")) == (
        f"{tmp_path / 'new'}: 1 replies, 7 figures; 0 damaged"
    )


def test_another_vector_of_the_same_text_is_a_conflict(
    server: ChatServer, bundle: Path, open_client: OpenClient, store: ReplyStore
) -> None:
    server.script = lambda body: embeddings(body, vectors=[[1.0] * 8 for _ in body["input"]])
    client = open_client("rerecord")
    client.vectors(TEXTS[:1])
    key = client.ask_of(TEXTS[0]).key

    with closing(Bundle(bundle)) as opened:
        kept = merge_bundle(opened, store)
        assert kept.conflicts == (key,)
        replaced = merge_bundle(opened, store, replace=True)

    assert replaced.replaced == (key,)
    figures = store.figures(key)
    assert figures is not None
    assert figures.array().tolist() == vector(TEXTS[0])


def test_two_bundles_that_disagree_on_a_vector_are_not_read_together(
    server: ChatServer, bundle: Path, open_client: OpenClient, tmp_path: Path
) -> None:
    server.script = lambda body: embeddings(body, vectors=[[1.0] * 8 for _ in body["input"]])
    client = open_client("rerecord")
    client.vectors(TEXTS[:1])
    write_bundle(used_figures([client]), tmp_path / "other.jsonl")

    with pytest.raises(StoreError, match="have different replies to the request"):
        Bundles([bundle, tmp_path / "other.jsonl"])


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


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"counted":true', '"counted":truer'),
        ('"kind":"embedding"', '"kind":"rerank"'),
        ('"model":"openai/scripted"', '"model":"openai/other"'),
        ('"values":"', '"values":"!'),
    ],
)
def test_a_damaged_line_is_told_by_its_number(bundle: Path, old: str, new: str) -> None:
    lines = bundle.read_text().splitlines(keepends=True)
    place = next(place for place, line in enumerate(lines) if '"kind":"embedding"' in line)
    lines[place] = lines[place].replace(old, new)
    bundle.write_text("".join(lines))

    report = verify_bundle(bundle)

    assert report.damaged == 1
    assert report.listed[0].entry == f"line {place + 1}"
    with pytest.raises(StoreError, match=f"all.jsonl:{place + 1}: "):
        Bundle(bundle)


def test_a_vector_that_comes_twice_is_refused(bundle: Path) -> None:
    lines = bundle.read_text().splitlines(keepends=True)
    twice = next(line for line in lines if '"kind":"embedding"' in line)
    bundle.write_text("".join([*lines, twice]))

    with pytest.raises(StoreError, match="comes twice"):
        Bundle(bundle)


def test_a_bundle_that_changes_after_it_was_opened_is_not_believed(bundle: Path) -> None:
    with closing(Bundle(bundle)) as opened:
        key = next(entry.key for entry in opened.entries() if entry.key not in opened)
        text = bundle.read_bytes()
        with bundle.open("r+b") as file:
            file.write(text.replace(b'"counted":true', b'"counted":tru3'))
        with pytest.raises(StoreError, match="has changed since it was opened"):
            opened.figures(key)


def test_a_vector_under_the_key_of_another_text_is_not_served(
    open_client: OpenClient, store: ReplyStore
) -> None:
    client = open_client()
    client.vectors(["a", "b"])
    mine, other = (f"figures:{client.ask_of(text).key}" for text in "ab")
    with rows(store) as table:
        table.execute(
            "UPDATE Cache SET value = (SELECT value FROM Cache WHERE key = ?) WHERE key = ?",
            (other, mine),
        )

    with pytest.raises(DamagedReplyError, match="holds the reply to another request"):
        open_client("replay").vectors(["a"])
    assert verify_store(store.path).damaged == 1


def test_nothing_of_a_vector_is_unpickled(
    open_client: OpenClient, store: ReplyStore, tmp_path: Path
) -> None:
    client = open_client()
    client.vectors(["a"])

    class Bomb:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "went off",)

    with rows(store) as table:
        table.execute(
            "UPDATE Cache SET mode = 4, value = ? WHERE key LIKE 'figures:%'",
            (sqlite3.Binary(pickle.dumps(Bomb())),),
        )

    with pytest.raises(DamagedReplyError, match="refused unread"):
        open_client("replay").vectors(["a"])
    np.testing.assert_array_equal([vector("a")], open_client().vectors(["a"]))
    assert not (tmp_path / "went off").exists()


def test_what_cannot_be_charged_is_recorded_all_the_same(
    open_client: OpenClient, store: ReplyStore
) -> None:
    from freshstack_dspy.lm.budget import Account

    store.charge("mine", store.spent("mine"))
    with rows(store) as table:
        table.execute("UPDATE Cache SET value = 'no seal' WHERE key = 'spent:mine'")
    client = open_client(access={"account": Account("mine")})

    with pytest.raises(DamagedReplyError, match="nobody knows what is spent"):
        client.vectors(["a"])

    assert store.figures(client.ask_of("a").key) is not None
