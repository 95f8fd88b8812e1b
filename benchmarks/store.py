"""The replies store: entries of 4 KB a second next to plain sqlite3, and memory.

    python benchmarks/store.py [--tiny]

Memory is that of reading everything and of explaining a miss, with ten times the entries.
"""

import json
import resource
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from timing import TINY, alone, in_turns, report

from freshstack_dspy import ReplyStore
from freshstack_dspy.lm.recorder import explain_miss
from freshstack_dspy.lm.reply import Reply, entry_json
from freshstack_dspy.lm.request import ChatMessage, ChatRequest

ENTRIES = 200 if TINY else 5_000
FEW, MANY = (200, 2_000) if TINY else (5_000, 50_000)
PROMPT = "Judge which nuggets each chunk supports. " * 50
CODE = 'def reset(dial):\n    """Reset a dial."""\n    return {"phase": 0}\n' * 18


def request(number: int, text: str = CODE) -> ChatRequest:
    return ChatRequest(
        model="openai/some-model",
        endpoint="openai:default",
        messages=(
            ChatMessage(role="system", content=PROMPT),
            ChatMessage(role="user", content=f"{number} {text}"),
        ),
        parameters={"response_format": {"name": "JudgeSupport", "type": "json_schema"}},
    )


def reply(number: int) -> Reply:
    asked = request(number)
    return Reply(
        key=asked.key,
        ask=asked,
        text='{"verdicts": []}',
        finish_reason="stop",
        status="ok",
        received_at="2026-01-01T00:00:00+00:00",
        origin="live",
    )


def speeds(folder: Path) -> None:
    """One transaction for each entry, as `put` writes them; each reply validated with its key."""
    replies = [reply(number) for number in range(ENTRIES)]
    texts = [(f"x:{each.key}", entry_json(each)) for each in replies]
    places = iter(range(1_000))

    def written() -> None:
        with closing(ReplyStore(folder / str(next(places)))) as store:
            for each in replies:
                store.put(each)

    def written_plainly() -> None:
        with closing(sqlite3.connect(folder / f"{next(places)}.db", isolation_level=None)) as table:
            table.execute("PRAGMA journal_mode = wal")
            table.execute("PRAGMA synchronous = normal")
            table.execute("CREATE TABLE entries (name TEXT PRIMARY KEY, value TEXT)")
            for entry in texts:
                table.execute("INSERT INTO entries VALUES (?, ?)", entry)

    ours, plain = (ENTRIES / seconds for seconds in in_turns(written, written_plainly, rounds=3))
    report("store.put_a_second", ours, plain_sqlite3=plain)
    with closing(ReplyStore(folder / "0")) as store:
        (seconds,) = in_turns(lambda: [store.get(each.key) for each in replies])
    report("store.get_a_second", ENTRIES / seconds)


def work_through(folder: Path) -> dict[str, Any]:
    """Read every entry and explain a miss, in this process."""
    with closing(ReplyStore(folder, read_only=True)) as store:
        begun = time.process_time()
        entries = sum(1 for _ in store.lines())
        read = time.process_time() - begun
        begun = time.process_time()
        explain_miss(request(-1, "y"), store)
        explained = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"entries": entries, "read": read, "explained": explained, "peak": peak}


def memory(folder: Path) -> None:
    """Ten times the entries take the same memory."""
    peaks, first = [], 0
    for entries in (FEW, MANY):
        with closing(ReplyStore(folder)) as store:
            for number in range(first, entries):
                store.put(reply(number))
        first = entries
        found = json.loads(alone(__file__, "--work-through", folder).output)
        peaks.append(found["peak"])
        report("store.read_seconds", found["read"], entries=entries)
        report("store.miss_explained_seconds", found["explained"], most=2, entries=entries)
    report("store.peak_at_ten_times_the_entries", peaks[1] / peaks[0], most=1.1, megabytes=peaks[1])


def main() -> None:
    if "--work-through" in sys.argv:
        print(json.dumps(work_through(Path(sys.argv[-1]))))
        return
    with tempfile.TemporaryDirectory() as folder:
        speeds(Path(folder))
        memory(Path(folder, "many"))


if __name__ == "__main__":
    main()
