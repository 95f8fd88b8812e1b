"""The replies store: nothing lost, nothing unpickled, many threads and processes at once."""

import json
import os
import pickle
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import ReplyStore
from freshstack_dspy.errors import DamagedReplyError, StoreError
from freshstack_dspy.lm.budget import Spent
from freshstack_dspy.lm.bundle import Bundle, merge_bundle, verify
from freshstack_dspy.lm.reply import Reply
from tests.lm.recording import ask, every_entry, every_value, reply, rows, write_bundle

ROOT = Path(__file__).parents[2]
ONE = Spent(calls=1, tokens=7, dollars=0.25)


def test_entries_of_every_kind_come_back_as_they_were_put(store: ReplyStore) -> None:
    entries = every_entry()
    for entry in entries:
        store.put(entry)
    store.close()
    with closing(ReplyStore(store.path, read_only=True)) as again:
        assert [again.entry(entry.key) for entry in entries] == entries
        assert list(again.entries()) == sorted(entries, key=lambda entry: entry.key)
        assert [again.get(entry.key) is not None for entry in entries] == [True, *[False] * 3]
        assert again.entry("0" * 64) is None
        assert [key for key, _ in again.lines(b'"kind":"rerank"')] == [entries[2].key]


def test_a_replaced_reply_stays_under_the_next_number(store: ReplyStore) -> None:
    for text in ("first", "second", "third"):
        store.put(reply(text))
    store.note(reply().key, "unparsed", "next")
    key, now = reply().key, reply("third", status="unparsed", reasked_as="next")

    assert [store.entry(f"{key}:{number}") for number in (1, 2, 3)] == [
        reply("first"),
        reply("second"),
        None,
    ]
    assert list(store.replies()) == [now], "what a reply is worth is noted without replacing it"


def test_a_store_that_is_read_only_is_neither_made_nor_written(
    store: ReplyStore, tmp_path: Path
) -> None:
    with pytest.raises(StoreError, match="there is no replies store"):
        ReplyStore(tmp_path / "none", read_only=True)
    with (
        closing(ReplyStore(store.path, read_only=True)) as read_only,
        pytest.raises(StoreError, match="for reading only"),
    ):
        read_only.put(reply())
    assert not (tmp_path / "none").exists()


class Planted:
    """Touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize(
    "change",
    [
        "mode = 4, value = ?",  # CVE-2025-69872: diskcache unpickles whatever row says it is one
        "mode = 4, filename = 'planted.val', value = NULL OR NULL AND ?",
        "raw = 0, key = ?",
    ],
)
def test_a_row_that_would_be_unpickled_is_refused(
    store: ReplyStore, tmp_path: Path, change: str
) -> None:
    witness = tmp_path / "witness"
    store.put(reply())
    planted = pickle.dumps(Planted(witness))
    (store.path / "planted.val").write_bytes(planted)
    with rows(store) as table:
        table.execute(
            f"UPDATE Cache SET {change} WHERE key LIKE 'entry:%'", (sqlite3.Binary(planted),)
        )
    with pytest.raises(DamagedReplyError):
        [store._cache[name] for name in store._cache]
    try:
        assert store.get(reply().key) is None
    except DamagedReplyError:
        store.put(reply("new"))
        assert store.get(reply().key) == reply("new")

    assert list(store.replies()) in ([], [reply("new")])
    assert not witness.exists()


def test_nothing_is_evicted_and_nothing_expires(store: ReplyStore) -> None:
    """diskcache's own settings throw the oldest entries away from one gigabyte on."""
    cache = store._cache
    store.put(reply())
    cache.cull()
    cache.expire()

    assert (cache.eviction_policy, cache.cull_limit) == ("none", 0)
    assert cache.size_limit > 2**60
    assert list(store.replies()) == [reply()]


def test_a_store_of_the_old_schema_says_how_to_rebuild_it(store: ReplyStore) -> None:
    with rows(store) as table:
        table.execute("UPDATE Cache SET value = '2' WHERE key = 'format'")

    for read_only in (True, False):
        with pytest.raises(StoreError, match="freshstack replies import BUNDLE CONFIG"):
            ReplyStore(store.path, read_only=read_only)


def test_a_reply_and_what_it_cost_are_written_together(
    store: ReplyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(reply(), account="small", spent=ONE)
    store.charge("small", Spent(tokens=3))
    store.put(reply(to="free"))

    def failing(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(store, "_charge", failing)
    with pytest.raises(StoreError, match="no space left"):
        store.put(reply(to="paid"), account="small", spent=ONE)
    assert store.get(ask("paid").key) is None
    assert store.spent("small") == Spent(calls=1, tokens=10, dollars=0.25)
    assert store.spent("other") == Spent()


def test_many_threads_lose_nothing(store: ReplyStore) -> None:
    def write(number: int) -> None:
        text = str(number % 20)
        store.put(reply(str(number), to=text), account="a", spent=ONE)
        store.note(reply(to=text).key, "unparsed")
        store.charge("b", ONE)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(write, range(200)))

    assert store.spent("a") == store.spent("b") == Spent(calls=200, tokens=1400, dollars=50.0)
    served = list(store.replies())
    replaced = [store.entry(f"{each.key}:{number}") for each in served for number in range(1, 10)]
    texts = {each.text for each in [*served, *replaced] if isinstance(each, Reply)}
    assert texts == {str(number) for number in range(200)}


def test_puts_that_wait_share_a_transaction_which_is_over_when_they_return(
    store: ReplyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    charged, charge = list[Spent](), store._charge

    def noted(account: str, spent: Spent) -> None:
        charged.append(spent)
        charge(account, spent)

    def write(number: int) -> Reply | None:
        store.put(reply(str(number), to=str(number)), account="a", spent=ONE)
        with closing(ReplyStore(store.path, read_only=True)) as other:
            return other.get(ask(str(number)).key)

    monkeypatch.setattr(store, "_charge", noted)
    with ThreadPoolExecutor(9) as pool, store._writing():
        recorded = pool.map(write, range(9))
        while len(store._waiting_puts) < 9:
            time.sleep(0.001)
    assert [each and each.text for each in recorded] == [str(number) for number in range(9)]
    assert [amount.calls for amount in charged] == [9]
    assert store.spent("a").calls == 9


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from freshstack_dspy.lm.budget import Spent
from freshstack_dspy.lm.store import ReplyStore
from tests.lm.recording import reply
store = ReplyStore(Path({path!r}))
for number in range({first}, 100_000):
    store.put(reply("x" * 2000, to=str(number)), account="a", spent=Spent(calls=1))
    print(number, flush=True)
"""


def test_no_changed_bit_of_a_text_is_ever_served(store: ReplyStore) -> None:
    store.put(reply('{"year": 1907, "rings": [3, 1, 4]}'), account="a", spent=ONE)
    store.defer(ask("later"))
    store.close()
    chance = random.Random(4)
    reads: dict[str, Callable[[], Any]] = {
        f"entry:{reply().key}": lambda: [store.read(reply().key)],
        f"deferred:{ask('later').key}": lambda: list(store.deferred()),
        "spent:a": lambda: store.spent("a"),
    }
    for name, read in reads.items():
        whole = every_value(store)[name].encode()
        for _ in range(40):
            changed = bytearray(whole)
            changed[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
            with rows(store) as table:
                update = "UPDATE Cache SET value = CAST(? AS TEXT) WHERE key = ?"
                table.execute(update, (bytes(changed), name))
            with pytest.raises(DamagedReplyError, match=f"{name} is damaged"):
                read()
        assert name in verify(store.path).damaged
        with rows(store) as table:
            table.execute(update, (whole, name))
        read()


def test_one_entry_in_the_place_of_another_is_damaged(store: ReplyStore) -> None:
    keys = [reply(to=text).key for text in ("one", "two")]
    store.put(reply(to="one"), reply("hi", to="two"))
    with rows(store) as table:
        of = "(SELECT {} FROM Cache WHERE key = 'entry:' || ?)"
        table.execute(
            f"UPDATE Cache SET value = {of.format('value')}, tag = {of.format('tag')} "
            "WHERE key = 'entry:' || ?",
            (keys[0], keys[0], keys[1]),
        )

    assert store.read(keys[0]) is not None
    with pytest.raises(DamagedReplyError):
        store.read(keys[1])


def test_rows_of_earlier_versions_without_a_checksum_are_read(store: ReplyStore) -> None:
    store.put(reply(), account="a", spent=ONE)
    with rows(store) as table:
        table.execute("UPDATE Cache SET tag = NULL")
    store.charge("a", ONE)

    assert store.get(ask().key) == reply()
    assert store.spent("a") == ONE + ONE


def test_a_bundle_mends_what_is_damaged(store: ReplyStore, tmp_path: Path) -> None:
    whole = [reply(to=text) for text in ("one", "two")]
    store.put(*whole)
    write_bundle(whole, tmp_path / "replies.jsonl")
    with rows(store) as table:
        table.execute("UPDATE Cache SET value = replace(value, 'hi', 'ho') WHERE rowid = 2")
    with closing(Bundle(tmp_path / "replies.jsonl")) as bundle:
        report = merge_bundle(bundle, store)

    assert (report.added, report.same, report.conflicts) == (1, 1, ())
    assert {each.key: each for each in store.replies()} == {each.key: each for each in whole}
    assert verify(store.path).damaged == {}


def test_killed_processes_lose_no_reply_that_they_acknowledged(store: ReplyStore) -> None:
    """Two write to the same store at once, and each is killed while it does."""
    writers = []
    for first in (0, 10_000):
        code = WRITER.format(root=str(ROOT), path=str(store.path), first=first)
        command = [sys.executable, "-c", code]
        writers.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    acknowledged: list[str] = []
    for number, process in enumerate(writers):
        assert process.stdout is not None
        acknowledged += [process.stdout.readline() for _ in range(30 + 7 * number)]
        os.kill(process.pid, signal.SIGKILL)
        acknowledged += process.communicate()[0].splitlines()
    store.close()

    for each in filter(str.strip, acknowledged):
        assert store.get(ask(each.strip()).key) is not None
    assert store.spent("a").calls == len(list(store.replies()))
    store.put(reply("still writable"))


@pytest.mark.slow
def test_the_stress_script_finds_nothing_lost() -> None:
    script = ROOT / "benchmarks" / "store_stress.py"
    done = subprocess.run(
        [sys.executable, str(script), "--tiny"],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    values = [json.loads(line) for line in done.stdout.splitlines()]

    assert done.returncode == 0, done.stderr
    assert [value["name"] for value in values if value["holds"] is False] == []


def test_a_store_on_read_only_media_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To whom nothing may be written (root may everywhere) no file of SQLite's own appears."""
    with closing(ReplyStore(tmp_path)) as store:
        store.put(reply())
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr("os.access", lambda *_: False)

    with closing(ReplyStore(tmp_path, read_only=True)) as store:
        assert store.get(reply().key) == reply()
        assert sorted(tmp_path.iterdir()) == before
