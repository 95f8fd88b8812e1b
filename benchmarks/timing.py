"""What the benchmarks share: work timed in turns, processes of their own, a JSON line for each figure.

With `--tiny` a benchmark only shows that it runs: sizes are small, and no goal is judged.
"""

import json
import os
import random
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

TINY = "--tiny" in sys.argv
INSTALLED = Path(sysconfig.get_path("purelib"))
LARGEST_FILE = 1_000_000


def report(
    name: str,
    value: Any,
    *,
    least: float | None = None,
    most: float | None = None,
    equals: Any = None,
    **sides: float,
) -> None:
    """Print a figure, its goal and whether that is reached; `sides` are what a ratio is made of."""
    goals = {">=": least, "<=": most, "==": equals}
    goal = " ".join(f"{sign} {bound}" for sign, bound in goals.items() if bound is not None)
    holds = {
        ">=": least is None or value >= least,
        "<=": most is None or value <= most,
        "==": equals is None or value == equals,
    }
    line = {"name": name, "value": _rounded(value), "goal": goal or None}
    line["holds"] = all(holds.values()) if goal and not TINY else None
    print(json.dumps(line | {side: _rounded(of) for side, of in sides.items()}), flush=True)


def _rounded(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


def in_turns(*works: Callable[[], Any], rounds: int = 5) -> list[float]:
    """Do each work once a round; give the least processor seconds of each.

    Other work on the machine then slows all of them, and hardly changes processor time.
    """
    best = [float("inf")] * len(works)
    for _ in range(1 if TINY else rounds):
        for place, work in enumerate(works):
            begun = time.process_time()
            work()
            best[place] = min(best[place], time.process_time() - begun)
    return best


class Took(NamedTuple):
    """What a process took."""

    output: str
    seconds: float
    cpu: float
    """Seconds, of its children too."""
    megabytes: float
    """The most that it, or one of its children, held."""


def alone(*words: object, folder: Path | None = None) -> Took:
    """Run Python in a process of its own, as in `alone("-m", "freshstack_dspy", "show", path)`."""
    with tempfile.TemporaryFile("w+") as output:
        begun = time.perf_counter()
        command = [sys.executable, *map(str, words)]
        child = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=folder)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - begun
        output.seek(0)
        text = output.read()
    if status:
        sys.exit(f"{' '.join(command)}\n{text}")
    return Took(text, seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def freshstack(*words: object, folder: Path | None = None) -> Took:
    """Run a command of ours in a process of its own."""
    return alone("-m", "freshstack_dspy", *words, folder=folder)


def report_command(
    name: str, took: Took, *, seconds: float | None = None, megabytes: float | None = None
) -> None:
    """Report what a command took, each with its upper bound."""
    report(f"{name}: seconds", took.seconds, most=seconds)
    report(f"{name}: CPU seconds", took.cpu)
    report(f"{name}: peak MB", took.megabytes, most=megabytes)


def files(size: float, *suffixes: str) -> list[tuple[str, bytes]]:
    """Path and content of files of the installed packages, in an order of chance, of so many bytes."""
    place = INSTALLED / "lxml" if TINY else INSTALLED
    paths = sorted(path for path in place.rglob("*") if path.suffix in suffixes and path.is_file())
    random.Random(0).shuffle(paths)
    chosen: list[tuple[str, bytes]] = []
    for path in paths:
        data = path.read_bytes()
        try:
            blank = not data.decode().strip()
        except UnicodeDecodeError:
            continue
        if not blank and len(data) <= LARGEST_FILE:
            chosen.append((path.relative_to(INSTALLED).as_posix(), data))
            size -= len(data)
        if size <= 0:
            break
    return chosen


def data(name: str) -> Path | None:
    """A folder of public data below the one that `--data` names; says so where it is not there."""
    place = sys.argv.index("--data") + 1 if "--data" in sys.argv else 0
    folder = Path(sys.argv[place] if place else "data") / name
    if folder.is_dir():
        return folder
    print(json.dumps({"skipped": f"{folder} is absent: name the folder of {name} by --data"}))
    return None
