"""The replies store: nothing lost, nothing unpickled, many threads and processes at once."""

import json
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from freshstack_dspy.errors import DamagedReplyError, StoreError
from freshstack_dspy.lm.budget import Spent
from freshstack_dspy.lm.bundle import verify
from freshstack_dspy.lm.reply import Reply
from freshstack_dspy.lm.store import ReplyStore
from tests.lm.recording import ask, every_entry, every_value, reply, rows

ROOT = Path(__file__).parents[2]
ONE = Spent(calls=1, tokens=7, dollars=0.25)


def test_entries_of_every_kind_come_back_as_they_were_put(store: ReplyStore) -> None:
    entries = every_entry()
    for entry in entries:
        store.put(entry)
    store.close()
    again = ReplyStore(store.path, read_only=True)

    assert [again.entry(entry.key) for entry in entries] == entries
    assert sorted(entry.kind for entry in again.entries()) == [
        "chat",
        "embedding",
        "rerank",
        "search",
    ]
    assert [again.get(entry.key) is not None for entry in entries] == [True, False, False, False]
    assert again.entry("0" * 64) is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(codec="utf-8")), asked=st.text(st.characters(codec="utf-8")))
def test_every_text_comes_back(store: ReplyStore, text: str, asked: str) -> None:
    recorded = reply(text, to=asked)
    store.put(recorded)

    assert store.get(recorded.key) == recorded


def test_replies_come_by_key(store: ReplyStore) -> None:
    texts = [str(number) for number in range(20)]
    for text in texts:
        store.put(reply(text, to=text))
    keys = [recorded.key for recorded in store.replies()]

    assert keys == sorted(keys)
    assert sorted(recorded.text for recorded in store.replies()) == sorted(texts)
    assert [line.key for line in store.lines(b'"text":"7"')] == [reply(to="7").key]


def test_a_replaced_reply_stays_under_the_next_number(store: ReplyStore) -> None:
    for text in ("first", "second", "third"):
        store.put(reply(text))
    key = reply().key

    assert [store.replaced(key, 1), store.replaced(key, 2), store.get(key)] == [
        reply("first"),
        reply("second"),
        reply("third"),
    ]
    assert list(store.replies()) == [reply("third")]


def test_what_a_reply_is_worth_is_noted_without_replacing_it(store: ReplyStore) -> None:
    store.put(reply())
    store.note(reply().key, "unparsed", "next")
    store.note("0" * 64, "refused")

    assert list(store.replies()) == [reply(status="unparsed", reasked_as="next")]
    assert len(every_value(store)) == 2


def test_a_deferred_request_waits_until_there_is_a_reply(store: ReplyStore) -> None:
    for text in ("one", "two", "one"):
        store.defer(ask(text))
    store.put(reply(to="one"))

    assert list(store.deferred()) == [ask("two")]


def test_a_store_that_is_read_only_is_neither_made_nor_written(
    store: ReplyStore, tmp_path: Path
) -> None:
    with pytest.raises(StoreError, match="there is no replies store"):
        ReplyStore(tmp_path / "none", read_only=True)
    with pytest.raises(StoreError, match="for reading only"):
        ReplyStore(store.path, read_only=True).put(reply())
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


def test_what_cannot_be_used_is_explained_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "cache.db").write_bytes(b"not a database, for sure " * 99)
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file" / "cache"):
        with pytest.raises(StoreError, match="cannot be read or written: ") as caught:
            ReplyStore(path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("writing", ["put", "note", "defer"])
def test_a_store_that_cannot_be_written_says_so_and_does_not_hang(
    store: ReplyStore, writing: str
) -> None:
    store.put(reply())
    store._cache._sql("PRAGMA query_only = 1")

    with pytest.raises(StoreError, match="it is locked or read-only"):
        {
            "put": lambda: store.put(reply("other", to="other")),
            "note": lambda: store.note(reply().key, "refused"),
            "defer": lambda: store.defer(ask("other")),
        }[writing]()


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
    replaced = [store.replaced(each.key, number) for each in served for number in range(1, 10)]
    texts = {each.text for each in [*served, *replaced] if isinstance(each, Reply)}
    assert texts == {str(number) for number in range(200)}


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from freshstack_dspy.lm.budget import Spent
from freshstack_dspy.lm.store import ReplyStore
from tests.lm.recording import reply
store = ReplyStore(Path({path!r}))
for number in range({first}, {last}):
    store.put(reply("x" * 2000, to=str(number)), account="a", spent=Spent(calls=1))
    print(number, flush=True)
"""


def writer(store: ReplyStore, first: int, last: int) -> "subprocess.Popen[str]":
    code = WRITER.format(root=str(ROOT), path=str(store.path), first=first, last=last)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def test_processes_write_the_same_store_at_once(store: ReplyStore) -> None:
    writers = [writer(store, 100 * number, 100 * number + 60) for number in range(2)]
    acknowledged = [process.communicate(timeout=60)[0].split() for process in writers]

    assert [len(numbers) for numbers in acknowledged] == [60] * 2
    assert {recorded.request.messages[0].content for recorded in store.replies()} == {
        number for numbers in acknowledged for number in numbers
    }
    assert store.spent("a").calls == 120


@pytest.mark.slow
def test_a_killed_process_loses_no_reply_that_it_acknowledged(store: ReplyStore) -> None:
    for round_ in range(4):
        process = writer(store, 1000 * round_, 1000 * round_ + 999)
        assert process.stdout is not None
        acknowledged = [process.stdout.readline() for _ in range(20 + 7 * round_)]
        os.kill(process.pid, signal.SIGKILL)
        acknowledged += process.communicate()[0].splitlines()
        store.close()
        for number in filter(str.strip, acknowledged):
            assert store.get(ask(number.strip()).key) is not None
        store.put(reply("still writable", to=f"round {round_}"))


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


def test_a_whole_store_is_clean(store: ReplyStore) -> None:
    for entry in every_entry():
        store.put(entry)
    store.put(reply("second"), account="a", spent=ONE)
    store.defer(ask("later"))
    report = verify(store.path)

    assert report.counts == {
        "accounts": 1,
        "chat": 1,
        "deferred": 1,
        "embedding": 1,
        "replaced": 1,
        "rerank": 1,
        "search": 1,
    }
    assert report.damaged == {}


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("entry:%", "value = substr(value, 1, 200)", "not a recorded reply"),
        ("entry:%", "mode = 4", "not plain text"),
        ("entry:%", f"key = 'entry:{'0' * 64}'", "the reply to another request"),
        ("deferred:%", "mode = 4", "not plain text"),
        ("entry:%", "key = CAST(key AS BLOB), raw = 0", "not plain text"),
    ],
)
def test_damage_is_found(store: ReplyStore, name: str, change: str, reason: str) -> None:
    store.put(reply(), account="a", spent=ONE)
    store.defer(ask("later"))
    with rows(store) as table:
        table.execute(f"UPDATE Cache SET {change} WHERE key LIKE ?", (name,))
    (damaged,) = verify(store.path).damaged.values()

    assert reason in damaged
