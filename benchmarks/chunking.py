"""Measure the chunker and the official one: speed, limits, kinds of files covered.

Prints one JSON line a figure: {"name", "value", "goal", "holds"}.
The trees are the installed packages: their Python files, and a sample of their other text files.
The official chunker runs in an environment of its own, named by --official or the variable
FRESHSTACK_OFFICIAL_PYTHON, and its figures are left out where there is none. To make one:

    python -m venv official
    official/bin/pip install freshstack==0.0.6 litellm nbconvert pygments semchunk tiktoken \
        transformers tree-sitter 'tree-sitter-language-pack==0.13.0'
    python benchmarks/chunking.py --official official/bin/python
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

from freshstack_dspy.corpus.chunks import chunk_file, text_of
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.records import Chunk, SourceFile

MAX_TOKENS = 2048
PYTHON_BYTES, OTHER_FILES = 25_000_000, 1500
LARGEST_FILE = 1_000_000
PACKAGE = ""
"""Of the installed packages, which; by default all."""
TIMES_OFFICIAL = 3
ROUNDS = 2

OFFICIAL = """
import importlib.util, json, os, sys, time
from pathlib import Path
litellm = Path(importlib.util.find_spec("litellm").origin).parent
os.environ["TIKTOKEN_CACHE_DIR"] = str(litellm / "litellm_core_utils" / "tokenizers")
import tiktoken
from freshstack.chunking import UniversalFileChunker
paths, limit = json.load(open(sys.argv[1])), int(sys.argv[2])
texts = [(path, Path(path).read_bytes().decode()) for path in paths]
chunker = UniversalFileChunker(limit)
chunker.chunk("def f():\\n    return 1\\n" * 1000, {"file_path": "a.py"})
seconds, found = 0.0, []
for path, text in texts:
    start = time.perf_counter()
    try:
        chunks = chunker.chunk(text, {"file_path": path})
    except Exception:
        chunks = []
    seconds += time.perf_counter() - start
    found.append([text[chunk.start_byte:chunk.end_byte] for chunk in chunks])
encoding = tiktoken.get_encoding("cl100k_base")
print(json.dumps({
    "seconds": seconds,
    "chunks": sum(map(len, found)),
    "files": sum(any(text.strip() for text in texts) for texts in found),
    "over": sum(len(encoding.encode_ordinary(text)) > limit for one in found for text in one),
}))
"""


def report(name: str, value: float | str, goal: str, *, holds: bool) -> None:
    print(json.dumps({"name": name, "value": value, "goal": goal, "holds": holds}), flush=True)


def python_files() -> list[SourceFile]:
    """Take every n-th Python file of the installed packages, up to some megabytes."""
    every = files_of("*.py")
    step = max(1, sum(len(file.data) for file in every) // PYTHON_BYTES)
    return every[::step]


def other_files() -> list[SourceFile]:
    """Take every n-th of the other text files."""
    every = [file for file in files_of("*") if not file.path.endswith(".py")]
    return every[:: max(1, len(every) // OTHER_FILES)]


def files_of(pattern: str) -> list[SourceFile]:
    """Read the text files in UTF-8 of the installed packages."""
    root = Path(sysconfig.get_path("purelib"), PACKAGE)
    found = []
    for path in sorted(root.rglob(pattern)):
        if not path.is_file() or not 0 < path.stat().st_size <= LARGEST_FILE:
            continue
        data = path.read_bytes()
        try:
            blank = not data.decode().strip()
        except UnicodeDecodeError:
            continue
        if not blank and b"\0" not in data:
            found.append(SourceFile("packages", str(path), data))
    return found


def official(python: str, files: list[SourceFile]) -> dict[str, float]:
    """Cut files with the official chunker."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as names:
        json.dump([file.path for file in files], names)
        names.flush()
        done = subprocess.run(
            [python, "-c", OFFICIAL, names.name, str(MAX_TOKENS)],
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        sys.exit(f"the official chunker failed: {done.stderr[-2000:]}")
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def faults(files: list[SourceFile], chunks: list[list[Chunk]]) -> Counter[str]:
    """Count what must not be: chunks over the limit, gaps, texts that are not in the file."""
    found: Counter[str] = Counter()
    for file, of_file in zip(files, chunks, strict=True):
        ends = [0, *(chunk.end_byte for chunk in of_file)]
        starts = [*(chunk.start_byte for chunk in of_file), len(file.data)]
        found["gaps"] += ends != starts
        for chunk in of_file:
            found["over"] += count_tokens(chunk.text) > MAX_TOKENS
            found["inexact"] += text_of(file.data, chunk) != chunk.text
        assert all(one.end_byte == other.start_byte for one, other in pairwise(of_file))
    return found


def speed(python: str | None) -> None:
    """Cut the same Python files with both, in turns."""
    files = python_files()
    megabytes = sum(len(file.data) for file in files) / 1e6
    report("chunking.python.megabytes", round(megabytes, 1), "a part", holds=True)
    ours, theirs = [], []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        chunks = [chunk_file(file, MAX_TOKENS) for file in files]
        ours.append(megabytes / (time.perf_counter() - start))
        if python:
            theirs.append(megabytes / official(python, files)["seconds"])
    report("chunking.python.megabytes_per_second", round(max(ours), 2), "a part", holds=True)
    if theirs:
        ratio = max(ours) / max(theirs)
        report("chunking.official.megabytes_per_second", round(max(theirs), 2), "", holds=True)
        goal = f">= {TIMES_OFFICIAL}"
        report("chunking.times_official", round(ratio, 2), goal, holds=ratio >= TIMES_OFFICIAL)
    found = faults(files, chunks)
    for fault in ("over", "gaps", "inexact"):
        report(f"chunking.python.{fault}", found[fault], "0", holds=not found[fault])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    report("chunking.python.peak_megabytes", round(peak), "a part", holds=True)


def coverage(python: str | None) -> None:
    """Count the files that give chunks, of all kinds of text."""
    files = other_files()
    chunks = [chunk_file(file, MAX_TOKENS) for file in files]
    found = faults(files, chunks)
    covered = sum(bool(of_file) for of_file in chunks)
    report(f"chunking.others.{len(files)}.covered", covered, "all", holds=covered == len(files))
    for fault in ("over", "gaps", "inexact"):
        report(f"chunking.others.{fault}", found[fault], "0", holds=not found[fault])
    if python:
        theirs = official(python, files)
        report("chunking.others.official.over_limit", theirs["over"], "", holds=True)
        report(
            "chunking.others.official.covered",
            theirs["files"],
            f"< {covered}",
            holds=theirs["files"] < covered,
        )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--official", default=os.environ.get("FRESHSTACK_OFFICIAL_PYTHON"))
    options.add_argument("--tiny", action="store_true", help="only see that it runs")
    chosen = options.parse_args()
    if chosen.tiny:
        global PYTHON_BYTES, OTHER_FILES, ROUNDS, PACKAGE
        PYTHON_BYTES, OTHER_FILES, ROUNDS, PACKAGE = 300_000, 20, 1, "lxml"
    if not chosen.official:
        note = "skipped: name a Python with the official chunker by --official"
        report("chunking.official", note, "", holds=True)
    speed(chosen.official)
    coverage(chosen.official)


if __name__ == "__main__":
    main()
