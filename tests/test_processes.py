"""Work on all cores: in order, with errors passed on, and ended with who began it."""

import json
import operator
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path

import pytest

from freshstack_dspy.errors import FreshstackError
from freshstack_dspy.processes import map_in_processes

ROOT = Path(__file__).parents[1]
SCRIPT = """
import os
from freshstack_dspy.processes import map_in_processes
from tests.test_processes import slow_process_of

print(os.getpid(), flush=True)
for pid in map_in_processes(slow_process_of, range(1000), few=1):
    print(pid, flush=True)
"""
"""Without a guard by `__name__`, as scripts and notebooks are."""

several_cores = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) == 1,
    reason="needs two cores",
)


def slow_process_of(_: object) -> int:
    time.sleep(0.2)
    return os.getpid()


def killed(_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def process_of(_: object) -> int:
    return os.getpid()


def test_results_are_in_the_order_of_the_items() -> None:
    numbers = range(50)

    assert list(map_in_processes(partial(operator.mul, 2), numbers, few=1)) == [
        2 * number for number in numbers
    ]


@several_cores
def test_all_cores_work_but_for_little_this_one_does() -> None:
    assert {*map_in_processes(process_of, range(3))} == {os.getpid()}
    assert os.getpid() not in {*map_in_processes(process_of, range(9), few=1)}


@several_cores
def test_a_process_is_replaced_after_many_items(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it works with may leak."""
    monkeypatch.setattr("freshstack_dspy.processes._RENEWED", 5)

    assert len({*map_in_processes(process_of, range(25), few=1)}) > 4


def test_few_items_are_taken_in_advance() -> None:
    taken = []

    def items() -> Iterator[int]:
        for number in range(1000):
            taken.append(number)
            yield number

    results = map_in_processes(abs, items(), few=1)
    next(results)
    assert isinstance(results, Generator)
    results.close()

    assert len(taken) < 100


def test_an_error_is_raised_where_the_work_was_asked_for() -> None:
    with pytest.raises(json.JSONDecodeError, match="Expecting value"):
        list(map_in_processes(json.loads, ["1", "[", "2"], few=1))


@several_cores
def test_a_process_that_is_killed_is_named() -> None:
    with pytest.raises(FreshstackError, match="a process at work was killed by signal 9"):
        list(map_in_processes(killed, [0], few=1))


@several_cores
def test_a_script_needs_no_guard_and_its_processes_end_with_it(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "script.py")]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}

    script = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert script.stdout is not None
    own, *workers = (int(script.stdout.readline()) for _ in range(3))
    script.send_signal(signal.SIGKILL)
    script.communicate()

    assert own == script.pid not in workers
    for _ in range(100):
        if not any(map(alive, workers)):
            break
        time.sleep(0.1)
    assert not any(map(alive, workers))


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return state.rpartition(") ")[2][0] != "Z"
