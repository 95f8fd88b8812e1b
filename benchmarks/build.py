"""A whole build with the embedded baseline on a real community and real packages.

    python benchmarks/build.py SOURCES | --tiny

SOURCES is a folder with one sub-folder for each unpacked source distribution that the questions
are about (biopython, pysam, HTSeq, scikit-bio, pybedtools, cutadapt …); the questions are the
Stack Exchange dump in ../shared/data, and without either the figures are left out.
Prints one JSON line for each figure: name, value, goal, holds.
"""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DUMP = ROOT.parent / "shared/data/stackexchange-bioinformatics/Posts.xml"
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


def configuration(folder: Path, sources: Path) -> Path:
    """Write a build of 100 questions over every package in a folder."""
    corpora = [path for path in sorted(sources.iterdir()) if path.is_dir()]
    lines = [
        'name = "bioinformatics"',
        'out = "collection"',
        '[queries]\nsource = "stackexchange"',
        f"path = {json.dumps(str(DUMP))}",
        'site = "bioinformatics.stackexchange.com"\nlimit = 100',
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


def manifest(config: Path) -> dict[str, object]:
    """Read the manifest that a build wrote."""
    found: dict[str, object] = json.loads((config.parent / "collection/manifest.json").read_text())
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


def main() -> None:
    sources = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT.parent / "bioinformatics-sources"
    is_tiny = sys.argv[1:] == ["--tiny"]
    if not is_tiny and not (DUMP.exists() and sources.is_dir()):
        figure("build", f"left out: needs {DUMP.name} in ../shared/data and a folder of packages")
        return
    with tempfile.TemporaryDirectory() as scratch:
        config = tiny(Path(scratch)) if is_tiny else configuration(Path(scratch), sources)
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
