"""One replies store, many threads and processes."""

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from freshstack_dspy.lm.store import ReplyStore
from tests.lm.recording import ask, every_value, reply


def test_threads_write_the_same_store_at_once(store: ReplyStore) -> None:
    texts = [str(number % 50) for number in range(200)]

    def write(text: str) -> None:
        store.put(reply(text, to=text))
        store.note(reply(to=text).key, "unparsed")
        store.get(reply(to=text).key)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, texts))

    assert len(list(store.replies())) == 50
    assert len(every_value(store)) == 1 + 200


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from freshstack_dspy.lm.store import ReplyStore
from tests.lm.recording import reply
store = ReplyStore(Path({path!r}))
for number in range({first}, {last}):
    store.put(reply("x" * 2000, to=str(number)))
    print(number, flush=True)
"""


def writer(store: ReplyStore, first: int, last: int) -> "subprocess.Popen[str]":
    root = str(Path(__file__).parents[3])
    code = WRITER.format(root=root, path=str(store.path), first=first, last=last)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def test_processes_write_the_same_store_at_once(store: ReplyStore) -> None:
    writers = [writer(store, 100 * number, 100 * number + 60) for number in range(3)]
    acknowledged = [process.communicate(timeout=60)[0].split() for process in writers]

    assert [len(numbers) for numbers in acknowledged] == [60] * 3
    assert {int(recorded.ask.messages[0].content) for recorded in store.replies()} == {
        int(number) for numbers in acknowledged for number in numbers
    }


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


def test_closing_ends_this_threads_connection_only(store: ReplyStore) -> None:
    store.put(reply())
    closed = threading.Thread(target=store.close)
    closed.start()
    closed.join()

    assert store.get(reply().key) == reply()


@pytest.mark.slow
def test_the_stress_script_finds_nothing_lost() -> None:
    script = Path(__file__).parents[3] / "benchmarks" / "store_stress.py"
    done = subprocess.run(
        [sys.executable, str(script), "--rounds", "6", "--seed", "3"],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    figures = [json.loads(line) for line in done.stdout.splitlines()]

    assert done.returncode == 0, done.stderr
    assert [figure["name"] for figure in figures if figure["holds"] is False] == [
        "store_stress.rounds"
    ]
