"""What a check of a store or a bundle finds."""

import hashlib
from pathlib import Path

import pytest

from freshstack_dspy.errors import StoreError
from freshstack_dspy.lm.budget import Spent
from freshstack_dspy.lm.bundle import verify_bundle, verify_store, write_bundle
from freshstack_dspy.lm.store import ReplyStore
from tests.lm.recording import ask, reply, rows


@pytest.fixture
def full(store: ReplyStore) -> ReplyStore:
    """A store with an entry of every kind."""
    for text in ("first", "second"):
        store.put(reply(text))
    store.put(reply(to="other"), account="a", spent=Spent(calls=1))
    store.defer(ask("later"))
    return store


def test_a_whole_store_is_clean(full: ReplyStore) -> None:
    report = verify_store(full.path)

    assert report.counts == {
        "replies": 2,
        "figures": 0,
        "replaced": 1,
        "set_aside": 0,
        "deferred": 1,
        "accounts": 1,
        "unknown": 0,
    }
    assert (report.damaged, report.listed) == (0, ())
    assert str(report) == f"{full.path}: 2 replies, 1 replaced, 1 deferred, 1 accounts; 0 damaged"


KEY = ask().key
FORGED = "{}"
CHANGES = [
    (f"reply:{KEY}", "value = replace(value, 'second', 'Second')", "damaged or edited by hand"),
    (f"reply:{KEY}", "value = substr(value, 1, 200)", "damaged or edited by hand"),
    (f"reply:{KEY}", "value = ''", "damaged or edited by hand"),
    (f"reply:{KEY}", "value = CAST(value AS BLOB)", "not plain text"),
    (f"reply:{KEY}", "mode = 4", "not plain text"),
    (f"reply:{KEY}", "filename = '/etc/passwd'", "not plain text"),
    (f"reply:{KEY}", "value = '{forged}'", "not a recorded reply"),
    (f"reply:{KEY}:1", "value = replace(value, 'first', 'First')", "damaged or edited by hand"),
    (f"ask:{ask('later').key}", "value = replace(value, 'later', 'sooner')", "is damaged"),
    (f"ask:{ask('later').key}", "value = '{{'", "is damaged"),
    ("spent:a", "value = replace(value, '1', '0')", "the account 'a' is damaged"),
    ("spent:a", "key = 'spent:a b'", "cannot name an account"),
    (f"reply:{KEY}", "key = 'reply:short'", "no entry of a replies store"),
    (f"reply:{KEY}", f"key = 'reply:{'0' * 64}'", "the reply to another request"),
    (f"reply:{KEY}", "key = X'80'", "whose key is not plain text"),
    (f"reply:{KEY}", "raw = 0", "whose key is not plain text"),
]


@pytest.mark.parametrize(("name", "change", "reason"), CHANGES)
def test_every_damage_is_found(full: ReplyStore, name: str, change: str, reason: str) -> None:
    forged = f"{hashlib.sha256(FORGED.encode()).hexdigest()}\n{FORGED}"
    with rows(full) as table:
        table.execute(
            f"UPDATE Cache SET {change.format(forged=forged)} WHERE key = ?",
            (name,),
        )
    report = verify_store(full.path)

    assert report.damaged == 1
    assert reason in report.listed[0].reason


def test_a_damaged_reply_that_was_replaced_is_set_aside(full: ReplyStore) -> None:
    with rows(full) as table:
        table.execute(f"UPDATE Cache SET value = 'x' WHERE key = 'reply:{KEY}'")
    full.put(reply("third"))
    report = verify_store(full.path)

    assert (report.damaged, report.counts["set_aside"]) == (0, 1)
    assert full.text(f"damaged:{KEY}:1") == b"x"


def test_a_database_whose_pages_are_damaged_is_found(full: ReplyStore) -> None:
    for number in range(50):
        full.put(reply("x" * 3000, to=str(number)))
    full.close()
    data = bytearray((full.path / "cache.db").read_bytes())
    for page in range(20, 24):
        data[page * 4096 + 8 : page * 4096 + 200] = b"\xa5" * 192
    (full.path / "cache.db").write_bytes(data)
    report = verify_store(full.path)

    assert report.damaged > 0
    assert all("\n" not in found.reason for found in report.listed)


def test_of_many_damaged_entries_a_hundred_are_listed(store: ReplyStore) -> None:
    for number in range(130):
        store.put(reply(to=str(number)))
    with rows(store) as table:
        table.execute("UPDATE Cache SET value = 'x' WHERE key LIKE 'reply:%'")
    report = verify_store(store.path)

    assert (report.damaged, len(report.listed)) == (130, 100)


def test_a_store_of_another_schema_is_one_line(store: ReplyStore) -> None:
    with rows(store) as table:
        table.execute("UPDATE Cache SET value = '1' WHERE key = 'format'")

    with pytest.raises(StoreError, match="a replies store of schema '1'; this program reads '2'"):
        verify_store(store.path)


def test_every_line_of_a_bundle_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_bundle([reply(str(number), to=str(number)) for number in range(4)], path)
    clean = verify_bundle(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], lines[0], lines[2].replace(b'"ok"', b'"no"'), b"\xff"]))
    report = verify_bundle(path)

    assert (clean.counts["replies"], clean.damaged) == (4, 0)
    assert (report.counts["replies"], report.damaged) == (5, 3)
    assert [found.entry for found in report.listed] == ["line 3", "line 4", "line 5"]
    assert "comes twice" in report.listed[0].reason
