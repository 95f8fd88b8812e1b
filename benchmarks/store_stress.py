"""Kill processes while they write to one replies store, again and again, and look for what is lost.

    python benchmarks/store_stress.py --rounds 200 --seed 0

In each round several processes write replies from several threads, and say on a pipe which ones are
recorded; each is killed with SIGKILL at a random moment, some while they make the store. Then

- every reply that was said to be recorded is there, word by word;
- every entry is whole, and so is the database (`verify`);
- the account holds exactly what the replies that are there cost, said to be recorded or not;
- the store can be written.

Prints one JSON line for each figure: name, value, goal, holds.
"""

import argparse
import json
import os
import random
import selectors
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from freshstack_dspy.lm.budget import Spent
from freshstack_dspy.lm.bundle import verify
from freshstack_dspy.lm.reply import Reply
from freshstack_dspy.lm.request import ChatMessage, ChatRequest
from freshstack_dspy.lm.store import ReplyStore

WRITERS, THREADS = 3, 4
ROUNDS_IN_A_STORE = 5
LIVES = (0.03, 0.3, 0.8)
"""Seconds that a writer lives at most; the shortest ends while it makes the store."""
ACCOUNT = "stress"
COST = Spent(calls=1, tokens=11, dollars=0.5)


def reply_named(name: str) -> Reply:
    """Make the reply of a name, of 200 to 12,000 characters."""
    ask = ChatRequest(
        model="openai/stress",
        endpoint="openai:default",
        messages=(ChatMessage(role="user", content=name),),
        parameters={"max_tokens": 9},
    )
    length = random.Random(name).choice((200, 4_000, 12_000))
    return Reply(
        key=ask.key,
        ask=ask,
        text=(f"{name} " * length)[:length],
        finish_reason="stop",
        status="ok",
        received_at="2026-01-01T00:00:00+00:00",
        origin="live",
    )


def write_until_killed(folder: Path, prefix: str, said: int) -> None:
    """Write replies from several threads, and say each name once it is recorded."""
    store = ReplyStore(folder)

    def write(thread: int) -> None:
        number = 0
        while True:
            name = f"{prefix}-{thread}-{number}"
            store.put(reply_named(name), account=ACCOUNT, spent=COST)
            os.write(said, f"{name}\n".encode())
            number += 1

    for thread in range(THREADS):
        threading.Thread(target=write, args=(thread,), daemon=True).start()
    threading.Event().wait()


def forked(folder: Path, prefix: str) -> tuple[int, int]:
    """Start a writer; return its process id and the end of the pipe that it speaks on."""
    heard, said = os.pipe()
    process = os.fork()
    if process == 0:
        status = 1
        try:
            os.close(heard)
            write_until_killed(folder, prefix, said)
        finally:
            os._exit(status)
    os.close(said)
    return process, heard


def one_round(folder: Path, number: int, chance: random.Random) -> tuple[list[str], int]:
    """Start writers, kill each; return what they said is recorded, and how many died by themselves."""
    writers = [forked(folder, f"{number}-{writer}") for writer in range(WRITERS)]
    begun = time.monotonic()
    longest = chance.choice(LIVES)
    ends = {process: begun + chance.uniform(0, longest) for process, _ in writers}
    heard = {pipe: b"" for _, pipe in writers}
    selector = selectors.DefaultSelector()
    for pipe in heard:
        selector.register(pipe, selectors.EVENT_READ)
    alive = set(ends)
    while selector.get_map():
        for process in [each for each in alive if time.monotonic() >= ends[each]]:
            os.kill(process, signal.SIGKILL)
            alive.remove(process)
        for ready, _ in selector.select(timeout=0.005):
            piece = os.read(ready.fd, 2**16)
            heard[ready.fd] += piece
            if not piece:
                selector.unregister(ready.fd)
                os.close(ready.fd)
    statuses = [os.waitpid(process, 0)[1] for process in ends]
    died = sum(not os.WIFSIGNALED(status) for status in statuses)
    # A line that was cut off was not said.
    return [name for text in heard.values() for name in text.decode().split("\n")[:-1]], died


def losses(folder: Path, recorded: list[str]) -> dict[str, int]:
    """Count what is not as it must be in a store after its writers were killed."""
    found = {"lost": 0, "damaged": 0, "account off by": 0, "cannot be written": 0}
    if not (folder / "cache.db").exists():
        return found | {"lost": len(recorded)}
    ReplyStore(folder).close()  # where its making was cut short, this ends it
    store = ReplyStore(folder, read_only=True)
    for name in recorded:
        expected = reply_named(name)
        found["lost"] += store.get(expected.key) != expected
    report = verify(folder)
    found["damaged"] = len(report.damaged)
    replies = report.counts.get("chat", 0) + report.counts.get("replaced", 0)
    spent = store.spent(ACCOUNT)
    expected_spent = (replies, 11 * replies, 0.5 * replies)
    found["account off by"] = int((spent.calls, spent.tokens, spent.dollars) != expected_spent)
    store.close()
    after = ReplyStore(folder)
    last = reply_named(f"after {len(recorded)}")
    after.put(last, account=ACCOUNT, spent=COST)
    found["cannot be written"] = int(after.get(last.key) != last)
    after.close()
    return found


def figure(name: str, value: object, goal: object = None, *, holds: bool | None = None) -> None:
    print(json.dumps({"name": name, "value": value, "goal": goal, "holds": holds}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tiny", action="store_true", help="six rounds, to see that it runs")
    words = parser.parse_args()
    rounds = 6 if words.tiny else words.rounds
    chance = random.Random(words.seed)
    recorded: list[str] = []
    total = unmade = died = 0
    sums = dict.fromkeys(("lost", "damaged", "account off by", "cannot be written"), 0)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "store"
        for number in range(rounds):
            if number % ROUNDS_IN_A_STORE == 0:
                shutil.rmtree(folder, ignore_errors=True)
                recorded = []
            said, by_themselves = one_round(folder, number, chance)
            unmade += not said
            died += by_themselves
            recorded += said
            total += len(said)
            for name, count in losses(folder, recorded).items():
                sums[name] += count
    figure("store_stress.rounds", rounds)
    figure("store_stress.processes killed", rounds * WRITERS - died)
    figure("store_stress.processes that ended by themselves", died, 0, holds=died == 0)
    figure("store_stress.replies said to be recorded", total)
    figure("store_stress.rounds killed before the first reply", unmade)
    for name, count in sums.items():
        figure(f"store_stress.{name}", count, 0, holds=count == 0)
    figure("store_stress.seconds", round(time.monotonic() - begun, 1))
    if any(sums.values()):
        sys.exit("replies were lost")


if __name__ == "__main__":
    main()
