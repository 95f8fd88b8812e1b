"""Recorded replies from strangers that are JSON, and made to do harm when they are read."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.errors import StoreError
from freshstack_dspy.lm.batch.deferred import BadLine, read_line, write_requests
from freshstack_dspy.lm.budget import Spent
from freshstack_dspy.lm.bundle import read_bundle, verify_store
from freshstack_dspy.lm.reply import receive
from freshstack_dspy.lm.request import MOST_STRUCTURE, canonical_json, is_dense, sha256_of
from freshstack_dspy.lm.store import ReadOnlyStore, ReplyStore, sealed
from tests.lm.recording import ask, reply, rows

DENSE = {
    "many faults": '{"key":"k","ask":{"messages":[' + "0," * MOST_STRUCTURE + "0]}}",
    "many values": '{"a":[' + "[]," * MOST_STRUCTURE + "0]}",
    "many keys": '{"a":0' + ',"":0' * MOST_STRUCTURE + "}",
    "many strings": '{"a":[' + '"",' * MOST_STRUCTURE + "0]}",
    "quotes that look escaped": '{"a":[' + r'"\\",' * MOST_STRUCTURE + "0]}",
}


def plant(store: ReplyStore, name: str, value: str) -> None:
    with rows(store) as table:
        table.execute(
            "INSERT OR REPLACE INTO Cache (key, raw, mode, value) VALUES (?, 1, 1, ?)",
            (name, value),
        )


@pytest.mark.parametrize("line", DENSE.values(), ids=DENSE)
def test_json_whose_objects_would_fill_the_memory_is_refused_unread(
    store: ReplyStore, tmp_path: Path, line: str
) -> None:
    bundle = tmp_path / "dense.jsonl"
    bundle.write_text(line)
    plant(store, f"reply:{reply().key}", line)
    batch_line = read_line(line)

    with pytest.raises(StoreError, match=r"dense\.jsonl:1: more than 524,288 bytes of it"):
        read_bundle(bundle)
    with pytest.raises(StoreError, match="more than 524,288 bytes that are no text: refused"):
        store.get(reply().key)
    assert isinstance(batch_line, BadLine)
    assert "no text" in batch_line.fault


@pytest.mark.parametrize("text", ["x" * 4 * MOST_STRUCTURE, '\\",[' * MOST_STRUCTURE])
def test_however_long_a_text_is_it_is_not_dense(tmp_path: Path, text: str) -> None:
    long = reply(text)
    bundle = tmp_path / "long.jsonl"
    bundle.write_text(canonical_json(long.model_dump(mode="json")))

    assert read_bundle(bundle)[long.key] == long
    assert not is_dense(b"[" * MOST_STRUCTURE)
    assert is_dense(b"[" * (MOST_STRUCTURE + 1))


@pytest.mark.parametrize(
    "forged", [{"\x1b]0;planted\x07" + "A" * 1000: 1}, {"key": "\x1b[2J" * 1000}]
)
def test_what_a_refusal_quotes_is_short_and_moves_no_cursor(
    store: ReplyStore, forged: dict[str, Any]
) -> None:
    plant(store, f"reply:{reply().key}", sealed(reply().model_dump(mode="json") | forged))

    with pytest.raises(StoreError) as refused:
        store.get(reply().key)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    ("field", "number"),
    [("input_tokens", "9" * 4000), ("output_tokens", "2e40"), ("cost", "1e999"), ("cost", "1e300")],
)
def test_numbers_that_cannot_be_added_up_are_refused(
    tmp_path: Path, field: str, number: str
) -> None:
    text = json.dumps(reply().model_dump(mode="json") | {field: "#"}).replace('"#"', number)
    bundle = tmp_path / "numbers.jsonl"
    bundle.write_text(text)

    with pytest.raises(StoreError, match=f"not a recorded reply: {field}: "):
        read_bundle(bundle)


@pytest.mark.parametrize("field", ["calls", "tokens"])
def test_an_account_with_a_number_beyond_all_bounds_is_damaged(
    store: ReplyStore, field: str
) -> None:
    plant(store, "spent:a", sealed(Spent().model_dump() | {field: 10**4000}))

    with pytest.raises(StoreError, match="the account 'a' is damaged"):
        store.spent("a")


@pytest.mark.parametrize("count", [-1, 2**60, 1.5, float("inf"), "5", True])
def test_a_count_of_tokens_that_is_none_is_not_recorded(count: Any) -> None:
    got = receive(
        ask(),
        text="",
        finish_reason="stop",
        input_tokens=count,
        output_tokens=7,
        origin="live",
        price=None,
    )

    assert (got.input_tokens, got.output_tokens) == (None, 7)


@pytest.mark.parametrize(
    "parameters",
    [
        {"extra": 5},
        {"extra": {"model": "dear"}},
        {"messages": []},
        {"response_format": 5},
        {"max_tokens": "many"},
        {"max_tokens": -(10**6)},
    ],
)
def test_a_planted_request_that_cannot_be_sent_as_it_is_paid_for_is_damaged(
    store: ReplyStore, tmp_path: Path, parameters: dict[str, Any]
) -> None:
    fields = ask().model_dump(mode="json") | {"parameters": parameters}
    key = sha256_of({"key_version": 1, **fields})
    plant(store, f"ask:{key}", canonical_json(fields))

    with pytest.raises(StoreError, match=f"the deferred request ask:{key} is damaged"):
        write_requests(store, tmp_path / "requests.jsonl")
    assert verify_store(store.path).damaged >= 1


def test_a_database_in_another_encoding_is_refused(store: ReplyStore, tmp_path: Path) -> None:
    """Its names would not be found in order, so that a check would see nothing."""
    store.put(reply())
    (tmp_path / "wide").mkdir()
    wide = sqlite3.connect(tmp_path / "wide/cache.db")
    wide.execute("PRAGMA encoding = 'UTF-16le'")
    with rows(store) as table:
        made = table.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
        entries = table.execute("SELECT key, raw, mode, value FROM Cache").fetchall()
    for (sql,) in made:
        wide.execute(sql)
    wide.executemany("INSERT INTO Cache (key, raw, mode, value) VALUES (?, ?, ?, ?)", entries)
    wide.commit()
    wide.close()

    with pytest.raises(StoreError):
        ReadOnlyStore(tmp_path / "wide")
