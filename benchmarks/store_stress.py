"""Kill processes while they write to one replies store, again and again, and look for what is lost.

    python benchmarks/store_stress.py [--tiny] [ROUNDS]

In each round several processes write replies from several threads, and print which ones are
recorded; each is killed with SIGKILL at a random moment, some while they make the store. Then every
reply said to be recorded is there word by word, every entry is whole, the account holds exactly
what the replies cost, and the store can be written.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from timing import TINY, report

from freshstack_dspy import ReplyStore
from freshstack_dspy.lm.budget import Spent
from freshstack_dspy.lm.bundle import verify
from freshstack_dspy.lm.reply import Reply
from freshstack_dspy.lm.request import ChatMessage, ChatRequest

WRITERS, THREADS, ROUNDS_IN_A_STORE = 3, 4, 5
LIVES = (0.03, 0.3, 0.8)
"""Seconds that a writer lives at most after it began; the shortest ends while it makes the store."""
ACCOUNT = "stress"
COST = Spent(calls=1, tokens=11, dollars=0.5)


def reply_named(name: str) -> Reply:
    """Make the reply of a name, of 200 to 12,000 characters."""
    asked = ChatRequest(
        model="openai/stress",
        endpoint="openai:default",
        messages=(ChatMessage(role="user", content=name),),
        parameters={"max_tokens": 9},
    )
    length = random.Random(name).choice((200, 4_000, 12_000))
    return Reply(
        key=asked.key,
        ask=asked,
        text=(f"{name} " * length)[:length],
        finish_reason="stop",
        status="ok",
        received_at="2026-01-01T00:00:00+00:00",
        origin="live",
    )


def write(folder: Path, prefix: str) -> None:
    """Write replies from several threads until killed, and print each name once it is recorded."""
    os.write(1, b"\n")  # imports are done
    store = ReplyStore(folder)

    def run(thread: int) -> None:
        number = 0
        while True:
            name = f"{prefix}-{thread}-{number}"
            store.put(reply_named(name), account=ACCOUNT, spent=COST)
            os.write(1, f"{name}\n".encode())
            number += 1

    for thread in range(THREADS):
        threading.Thread(target=run, args=(thread,), daemon=True).start()
    threading.Event().wait()


def recorded_before_death(folder: Path, number: int, chance: random.Random) -> list[str]:
    """Start writers and kill each; give what they said is recorded."""
    longest = chance.choice(LIVES)
    with tempfile.TemporaryDirectory() as said:
        writers = []
        for writer in range(WRITERS):
            command = [sys.executable, __file__, "--write", str(folder), f"{number}-{writer}"]
            with Path(said, str(writer)).open("wb") as output:
                writers.append(subprocess.Popen(command, stdout=output))
        for writer, process in enumerate(writers):
            while not Path(said, str(writer)).stat().st_size:
                assert process.poll() is None, "a writer failed"
                time.sleep(0.001)
            time.sleep(chance.uniform(0, longest))
            process.kill()
            assert process.wait() == -signal.SIGKILL
        texts = [path.read_text() for path in Path(said).iterdir()]
    # A line that was cut off was not said.
    return [name for text in texts for name in text.split("\n")[:-1] if name]


def faults(folder: Path, recorded: list[str]) -> Counter[str]:
    """Count what is not as it must be after the writers were killed."""
    counts = Counter(lost=0, damaged=0, wrong_account=0, cannot_be_written=0)
    ReplyStore(folder).close()  # where its making was cut short, this ends it
    store = ReplyStore(folder, read_only=True)
    for name in recorded:
        expected = reply_named(name)
        counts["lost"] += store.get(expected.key) != expected
    checked = verify(folder)
    counts["damaged"] = len(checked.damaged)
    replies = checked.counts.get("chat", 0) + checked.counts.get("replaced", 0)
    spent = store.spent(ACCOUNT)
    counts["wrong_account"] = (spent.calls, spent.tokens) != (replies, 11 * replies)
    store.close()
    after, last = ReplyStore(folder), reply_named(f"after {len(recorded)}")
    after.put(last, account=ACCOUNT, spent=COST)
    counts["cannot_be_written"] = after.get(last.key) != last
    after.close()
    return counts


def main() -> None:
    if "--write" in sys.argv:
        write(Path(sys.argv[-2]), sys.argv[-1])
    rounds = next((int(word) for word in sys.argv[1:] if word.isdecimal()), 6 if TINY else 200)
    chance, counts, total, recorded = random.Random(0), Counter[str](), 0, list[str]()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "store"
        for number in range(rounds):
            if number % ROUNDS_IN_A_STORE == 0:
                shutil.rmtree(folder, ignore_errors=True)
                recorded = []
            said = recorded_before_death(folder, number, chance)
            recorded += said
            total += len(said)
            counts += faults(folder, recorded)
    report("store_stress.recorded", total)
    report("store_stress.faults", counts.total(), equals=0)
    if counts:
        sys.exit(f"replies were lost: {dict(counts)}")


if __name__ == "__main__":
    main()
