"""Measure what it costs when a corpus has moved: `index update` beside `index build`, end to end.

    python benchmarks/moving.py [FOLDER]

Reads, hashes, cuts and indexes a copy of FOLDER (by default the installed packages), edits one
file of a hundred, and updates: in this process, and by the command in a process of its own. Prints
one JSON line a figure: {"name", "value", "goal", "holds"}.
"""

import json
import random
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from freshstack_dspy.config import BuildConfig, load_config
from freshstack_dspy.recipes.corpus import build_index, update_index

CONFIG = """\
name = "moving"
out = "out"
[queries]
path = "questions.jsonl"
[index]
path = "index"
[[corpus]]
name = "corpus"
path = "corpus"
exclude = ["*.pdf"]
"""
GOAL = 0.05
EDITED = (".py", ".md", ".rst", ".js", ".ts", ".c", ".h")


def report(name: str, value: float | str, goal: str = "", *, holds: bool = True) -> None:
    print(json.dumps({"name": name, "value": value, "goal": goal, "holds": holds}), flush=True)


def configured(folder: Path, corpus: Path) -> BuildConfig:
    shutil.copytree(corpus, folder / "corpus", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    (folder / "questions.jsonl").write_text("{}\n")
    (folder / "moving.toml").write_text(CONFIG)
    return load_config(folder / "moving.toml")


def edit(corpus: Path, seed: int) -> None:
    """Put a line before one text file of a hundred."""
    files = sorted(path for path in corpus.rglob("*") if path.suffix in EDITED and path.is_file())
    for path in random.Random(seed).sample(files, len(files) // 100):
        path.write_bytes(b"edited now\n\n" + path.read_bytes())


def main() -> None:
    corpus = Path(sys.argv[1] if len(sys.argv) > 1 else sysconfig.get_path("purelib"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = configured(folder, corpus)
        start = time.perf_counter()
        built = build_index(config)
        build_seconds = time.perf_counter() - start
        report("moving.corpus", f"{built.files} files, {len(built.index)} chunks")
        report("moving.build.seconds", round(build_seconds, 1))
        edit(folder / "corpus", 1)
        start = time.perf_counter()
        updated = update_index(config)
        seconds = time.perf_counter() - start
        assert updated.difference is not None
        report("moving.changed", f"{updated.difference.files_changed} files")
        report("moving.update.seconds", round(seconds, 1))
        share = seconds / build_seconds
        report("moving.update.share", round(share, 4), f"< {GOAL}", holds=share < GOAL)
        edit(folder / "corpus", 2)
        command = [sys.executable, "-m", "freshstack_dspy", "index", "update"]
        start = time.perf_counter()
        subprocess.run([*command, str(folder / "moving.toml")], capture_output=True, check=True)
        seconds = time.perf_counter() - start
        report("moving.command.seconds", round(seconds, 1))
        report("moving.command.share", round(seconds / build_seconds, 4))


if __name__ == "__main__":
    main()
