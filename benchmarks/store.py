"""Measure the replies store: entries of 4 KB written and read a second, and what it keeps in memory.

Processor time is counted, not wall time. Plain sqlite3 without anything around it is measured in
the same run, for a machine that is busy or slow is so for both. Prints one JSON line a value:
{"name", "value", "goal", "holds"}.
"""

import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from freshstack_dspy.lm.bundle import Bundle, write_bundle
from freshstack_dspy.lm.misses import explain_miss
from freshstack_dspy.lm.reply import Reply, entry_json
from freshstack_dspy.lm.request import ChatMessage, ChatRequest
from freshstack_dspy.lm.store import ReplyStore, _checksum

ENTRIES = 5_000
FEW, MANY = 20_000, 200_000
SET_GOAL, GET_GOAL = 10_000, 60_000
PROMPT = "Judge which nuggets each chunk supports. " * 50
CODE = 'def reset(dial):\n    """Reset a dial."""\n    return {"phase": 0}\n' * 18


def ask_number(number: int, filler: str = CODE) -> ChatRequest:
    return ChatRequest(
        model="openai/some-model",
        endpoint="openai:default",
        messages=(
            ChatMessage(role="system", content=PROMPT),
            ChatMessage(role="user", content=f"{number} {filler}"),
        ),
        parameters={"response_format": {"name": "JudgeSupport", "type": "json_schema"}},
    )


def reply_number(number: int, filler: str = CODE) -> Reply:
    ask = ask_number(number, filler)
    return Reply(
        key=ask.key,
        ask=ask,
        text='{"verdicts": []}',
        finish_reason="stop",
        status="ok",
        received_at="2026-01-01T00:00:00+00:00",
        origin="live",
    )


def a_second(function: Callable[[Any], object], items: list[Any]) -> float:
    """How many items a function works off in a second of processor time."""
    begun = time.process_time()
    for item in items:
        function(item)
    return len(items) / (time.process_time() - begun)


def figure(name: str, value: object, goal: object = None, *, holds: bool | None = None) -> None:
    print(json.dumps({"name": name, "value": value, "goal": goal, "holds": holds}), flush=True)


def rate(name: str, value: float, goal: int | None = None) -> None:
    holds = None if goal is None else value >= goal
    figure(
        f"store.{name} a second", round(value), None if goal is None else f">= {goal}", holds=holds
    )


def plain_sqlite(folder: Path, entries: list[tuple[str, str]]) -> None:
    """Measure what sqlite3 itself takes: one transaction for each entry, and one read."""
    with closing(sqlite3.connect(folder / "plain.db", isolation_level=None)) as table:
        table.execute("PRAGMA journal_mode = wal")
        table.execute("PRAGMA synchronous = normal")
        table.execute("CREATE TABLE entries (name TEXT PRIMARY KEY, value TEXT)")

        def put(entry: tuple[str, str]) -> None:
            table.execute("BEGIN IMMEDIATE")
            table.execute("INSERT INTO entries VALUES (?, ?)", entry)
            table.execute("COMMIT")

        rate("set, plain sqlite3", a_second(put, entries))
        select = "SELECT value FROM entries WHERE name = ?"
        names = [name for name, _ in entries]
        got = a_second(lambda name: table.execute(select, (name,)).fetchall(), names)
        rate("get, plain sqlite3", got)


def speeds(folder: Path, entries: int) -> None:
    replies = [reply_number(number) for number in range(entries)]
    texts = [(f"x:{reply.key}", entry_json(reply)) for reply in replies]
    figure("store.bytes of an entry", round(sum(len(text) for _, text in texts) / entries))
    plain_sqlite(folder, texts)
    with closing(ReplyStore(folder / "cache")) as store:
        cache = store._cache  # noqa: SLF001  diskcache itself, without our records
        rate(
            "set, text",
            a_second(lambda entry: cache.add(*entry, tag=_checksum(*entry)), texts),
            SET_GOAL,
        )
        rate("set, a Reply made into JSON", a_second(store.put, replies))
        names, keys = [name for name, _ in texts], [reply.key for reply in replies]
        rate("get, text", a_second(store._value, names), GET_GOAL)  # noqa: SLF001
        rate("get, a Reply validated with its key", a_second(store.get, keys))
        rate("get, nothing there", a_second(store.get, [key[::-1] for key in keys]))
        write_bundle(keys, store, folder / "bundle.jsonl")
    begun = time.process_time()
    with closing(Bundle(folder / "bundle.jsonl")) as bundle:
        rate("lines of a bundle opened", entries / (time.process_time() - begun))
        rate("get, a Reply of a bundle", a_second(bundle.get, keys))


def fill(folder: Path, first: int, last: int, size: int) -> None:
    """Write many entries at once, faster than by `put`; they are as `put` writes them."""
    filler = "x" * size
    with closing(ReplyStore(folder)) as store, store._writing():  # noqa: SLF001
        for number in range(first, last):
            reply = reply_number(number, filler)
            store._added(reply)  # noqa: SLF001


def work_through(folder: Path) -> None:
    """Read every entry, explain a miss, and say how much memory that took at most."""
    with closing(ReplyStore(folder, read_only=True)) as store:
        begun = time.process_time()
        number = sum(1 for _ in store.lines())
        read = time.process_time() - begun
        begun = time.process_time()
        explain_miss(ask_number(-1, "y"), store)
        explained = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"entries": number, "read": read, "explained": explained, "peak": peak}))


def memory(folder: Path, few: int, many: int) -> None:
    """Measure in processes of their own: peak memory is of a whole process."""
    peaks, first = {}, 0
    for entries in (few, many):
        fill(folder / "many", first, entries, size=1_800)
        first = entries
        command = [sys.executable, __file__, "--work-through", str(folder / "many")]
        found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        peaks[entries] = found["peak"]
        figure(
            f"store.MB at the peak, all of {found['entries']:,} entries read", round(found["peak"])
        )
        figure(f"store.seconds to read {found['entries']:,} entries", round(found["read"], 2))
        figure(
            f"store.seconds to explain a miss among {found['entries']:,}",
            round(found["explained"], 2),
            "<= 2",
            holds=found["explained"] <= 2,
        )
    growth = peaks[many] / peaks[few]
    figure("store.memory, ten times the entries", round(growth, 2), "<= 1.1", holds=growth <= 1.1)


def main() -> None:
    if sys.argv[1:2] == ["--work-through"]:
        work_through(Path(sys.argv[2]))
        return
    tiny = "--tiny" in sys.argv
    with tempfile.TemporaryDirectory() as scratch:
        speeds(Path(scratch), 200 if tiny else ENTRIES)
        memory(Path(scratch), *((200, 2_000) if tiny else (FEW, MANY)))


if __name__ == "__main__":
    main()
