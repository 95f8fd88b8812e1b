"""A whole build with the embedded baseline on a real community and real packages.

    python benchmarks/build.py [SOURCES] [--tiny] [--questions NUMBER …]

SOURCES is a folder with one sub-folder for each unpacked source distribution that the questions
are about (biopython, pysam, HTSeq, scikit-bio, pybedtools, cutadapt …); the questions are the
Stack Exchange dump in ../shared/data, and without either the figures are left out.
With `--questions` so many are built instead, variations of those of the dump, and it is told how
time and memory grow with them; by default over source files of installed packages.
Prints one JSON line for each figure: name, value, goal, holds.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from freshstack_dspy.config import load_config
from freshstack_dspy.progress import NoProgress
from freshstack_dspy.recipes.questions import read_questions
from freshstack_dspy.records import Query

ROOT = Path(__file__).resolve().parent.parent
DUMP = ROOT.parent / "shared/data/stackexchange-bioinformatics/Posts.xml"
PACKAGES = ("aiohttp", "httpx", "hypothesis", "pydantic", "rich", "typer")
FIELDS = ("query_id", "title", "body", "answer")
NO_SOCKETS = """
import socket, sys
def refuse(*_, **__): raise RuntimeError("a socket was opened")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
sys.argv = sys.argv[1:]
from freshstack_dspy.cli import main
main()
"""


def figure(name: str, value: object, goal: object = None, *, holds: bool | None = None) -> None:
    print(json.dumps({"name": name, "value": value, "goal": goal, "holds": holds}), flush=True)


def configuration(folder: Path, corpora: Sequence[Path], limit: int) -> Path:
    """Write a build of so many questions over packages."""
    lines = [
        'name = "bioinformatics"',
        'out = "collection"',
        '[queries]\nsource = "stackexchange"',
        f"path = {json.dumps(str(DUMP))}",
        f'site = "bioinformatics.stackexchange.com"\nlimit = {limit}',
        *(f'[[corpus]]\nname = "{path.name}"\npath = {json.dumps(str(path))}' for path in corpora),
    ]
    path = folder / "build.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def tiny(folder: Path) -> Path:
    """Write a build of three questions of the quickstart."""
    sample = ROOT / "examples/quickstart"
    path = folder / "build.toml"
    path.write_text(
        'name = "tiny"\nout = "collection"\n[queries]\nlimit = 3\n'
        f"path = {json.dumps(str(sample / 'questions.jsonl'))}\n"
        f'[[corpus]]\nname = "x"\npath = {json.dumps(str(sample / "corpus/xylochron"))}\n'
    )
    return path


def run(config: Path, *options: str, no_sockets: bool = False) -> tuple[float, int, str]:
    """Build in a process of its own: seconds, peak memory in bytes, what it said."""
    start = ["-c", NO_SOCKETS, "freshstack"] if no_sockets else ["-m", "freshstack_dspy"]
    command = [sys.executable, *start, "build", str(config), *options]
    began = time.monotonic()
    # GNU time's figure without GNU time: the child's own high-water mark.
    with tempfile.TemporaryFile("w+") as said:
        child = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(child.pid, 0)
        said.seek(0)
        text = said.read()
    if status != 0:
        sys.exit(f"{' '.join(command)}\n{text}")
    return time.monotonic() - began, usage.ru_maxrss * 1024, text


def manifest(config: Path) -> dict[str, Any]:
    """Read the manifest that a build wrote."""
    found: dict[str, Any] = json.loads((config.parent / "collection/manifest.json").read_text())
    return found


def remove_collection(config: Path) -> None:
    """Remove the collection, so that a build makes it again in place of finding it unchanged."""
    shutil.rmtree(config.parent / "collection")


def killed_and_resumed(config: Path, seconds: float, seed: int) -> str:
    """Build from nothing, killed at three random moments, and return the content hash."""
    for name in ("collection", ".freshstack"):
        shutil.rmtree(config.parent / name, ignore_errors=True)
    chance = random.Random(seed)
    for _ in range(3):
        child = subprocess.Popen(
            [sys.executable, "-m", "freshstack_dspy", "build", str(config)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(chance.uniform(0.1, 0.9) * seconds)
        child.send_signal(signal.SIGKILL)
        child.wait()
    run(config)
    return str(manifest(config)["content_hash"])


def varied(queries: Sequence[Query]) -> Iterator[Query]:
    """Give questions without end: the real ones, then each with the answer of another."""
    for turn in range(len(queries)):
        for place, query in enumerate(queries):
            update = {
                "query_id": f"{query.query_id}-{turn}",
                "title": f"{query.title} ({turn})" if turn else query.title,
                "answer": queries[(place + turn) % len(queries)].answer,
            }
            yield query.model_copy(update=update)


def grown(config: Path, numbers: Sequence[int]) -> None:
    """Build so many questions, and tell what each of them costs, next to fewer."""
    configured = load_config(config)
    queries = read_questions(configured.queries, NoProgress()).queries  # type: ignore[arg-type]
    corpora = config.read_text().partition("[[corpus]]")[2]
    before: tuple[int, int] | None = None
    for number in numbers:
        folder = config.parent / str(number)
        folder.mkdir()
        lines = (query.model_dump_json(include=set(FIELDS)) for query in varied(queries))
        (folder / "questions.jsonl").write_text("\n".join(islice(lines, number)))
        own = folder / "build.toml"
        own.write_text(
            'name = "many"\nout = "collection"\n[queries]\npath = "questions.jsonl"\n'
            f"[[corpus]]{corpora}"
        )
        seconds, peak, said = run(own)
        figure(f"{number} questions, wall seconds", round(seconds, 1))
        figure(f"{number} questions, steps", re.findall(r"^(\S.*?)\s+([\d.]+) s", said, re.M))
        figure(f"{number} questions, counts", manifest(own)["counts"])
        figure(f"{number} questions, content hash", manifest(own)["content_hash"])
        figure(f"{number} questions, peak GB", round(peak / 1e9, 2), 4, holds=peak < 4e9)
        if before is not None:
            more = (peak - before[1]) / (number - before[0])
            figure(f"{number} questions, MB of one more", round(more / 1e6, 3), 0.3)
        before = number, peak
        shutil.rmtree(folder)


def main() -> None:
    """Build once and again, or ever more questions."""
    parser = argparse.ArgumentParser()
    parser.add_argument("sources", nargs="?", type=Path)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--questions", nargs="+", type=int, default=())
    given = parser.parse_args()
    installed = Path(sysconfig.get_path("purelib"))
    folder = given.sources or ROOT.parent / "bioinformatics-sources"
    packages = [path for path in sorted(folder.glob("*")) if path.is_dir()]
    if given.questions and not given.sources:
        packages = [installed / name for name in PACKAGES]
    if not given.tiny and not (DUMP.exists() and packages):
        figure("build", f"left out: needs {DUMP.name} in ../shared/data and a folder of packages")
        return
    with tempfile.TemporaryDirectory() as scratch:
        limit = 1_000 if given.questions else 100
        folder = Path(scratch)
        config = tiny(folder) if given.tiny else configuration(folder, packages, limit)
        if not given.questions:
            again(config)
        if given.questions or given.tiny:
            grown(config, given.questions or (2, 6))


def again(config: Path) -> None:
    """Build, then nothing, then the same from what is recorded, and killed on the way."""
    seconds, peak, said = run(config)
    first = manifest(config)
    figure("build, wall seconds", round(seconds, 1))
    figure("build, peak MB", round(peak / 1e6))
    for step in re.findall(r"^(\S.*?)\s+([\d.]+) s  (.*)$", said, re.MULTILINE):
        figure(f"step: {step[0]}", {"seconds": float(step[1]), "what": step[2]})
    counts = first["counts"]
    figure("counts", counts)
    calls = sum(step["calls"] for step in first["ledger"].values())
    figure("calls of the first build", calls)
    seconds, _, _ = run(config)
    figure("second build, nothing changed, wall seconds", round(seconds, 1))
    remove_collection(config)
    seconds, _, _ = run(config)
    again = sum(step["calls"] for step in manifest(config)["ledger"].values())
    figure("the collection removed and built again, wall seconds", round(seconds, 1))
    figure("the collection removed and built again, calls", again, 0, holds=again == 0)
    remove_collection(config)
    seconds, _, _ = run(config, "--mode", "replay", no_sockets=True)
    same = manifest(config)["content_hash"] == first["content_hash"]
    figure("replay without sockets, wall seconds", round(seconds, 1))
    figure("replay, same content hash", same, True, holds=same)
    same = killed_and_resumed(config, seconds, seed=7) == first["content_hash"]
    figure("killed three times and resumed, same content hash", same, True, holds=same)


if __name__ == "__main__":
    main()
