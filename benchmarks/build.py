"""A build from plan to replay: planned, built, unchanged, replayed, with one question more.

    python benchmarks/build.py [--tiny] [--questions NUMBER]

Questions in the words of installed packages' source, judged by `extractive/baseline`. Each step is
a command in a process of its own; the package's time and memory, not a model's, are measured.
"""

import json
import random
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from timing import TINY, files, freshstack, report, report_command

QUESTIONS = 3 if TINY else 100
SIZE = 300_000 if TINY else 10_000_000
CONFIG = """
name = "build"
out = "collection"
[model]
name = "extractive/baseline"
[queries]
path = "questions.jsonl"
[[corpus]]
name = "packages"
path = "corpus"
"""
MEGABYTES, PLAN_SECONDS = 1_000, 2.5


def prepare(folder: Path, number: int) -> list[str]:
    """Write corpus and configuration; give a question and an answer a line, from different files."""
    rng, words = random.Random(0), []
    for path, content in files(SIZE, ".py"):
        (folder / "corpus" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "corpus" / path).write_bytes(content)
        words.append(re.findall("[A-Za-z_]{4,}", content.decode()))
    words = [of_file for of_file in words if len(of_file) > 100]

    def sentences(source: list[str], count: int) -> str:
        return ". ".join(" ".join(rng.choices(source, k=8)) for _ in range(count))

    lines = []
    for query in range(number):
        asked, answering = rng.sample(words, 2)
        row = {
            "query_id": str(query),
            "title": f"How does {sentences(asked, 1)} work?",
            "body": sentences(asked, 4),
            "answer": sentences(answering, 5),
        }
        lines.append(f"{json.dumps(row)}\n")
    (folder / "build.toml").write_text(CONFIG)
    return lines


def manifest(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "collection/manifest.json").read_text())
    return read


def calls(folder: Path) -> int:
    return sum(step["calls"] for step in manifest(folder)["ledger"].values())


def main() -> None:
    number = int(sys.argv[sys.argv.index("--questions") + 1]) if "--questions" in sys.argv else 0
    number = number or QUESTIONS
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        lines = prepare(folder, number + 1)
        (folder / "questions.jsonl").write_text("".join(lines[:-1]))

        def build(name: str, *options: str) -> None:
            took = freshstack("build", "build.toml", *options, folder=folder)
            report_command(f"build.{name}", took, megabytes=MEGABYTES)

        freshstack("index", "build.toml", folder=folder)
        planned = freshstack("plan", "build.toml", folder=folder)
        report("build.plan: CPU seconds", planned.cpu, most=PLAN_SECONDS)
        build("first")
        first = manifest(folder)
        report("build.counts", first["counts"])
        report("build.calls", calls(folder))
        build("unchanged")
        shutil.rmtree(folder / "collection")
        build("replayed", "--mode", "replay")
        report("build.replayed: calls", calls(folder), equals=0)
        report(
            "build.replayed: hash", manifest(folder)["content_hash"], equals=first["content_hash"]
        )
        (folder / "questions.jsonl").write_text("".join(lines))
        build("one question more")
        report("build.one question more: calls", calls(folder), most=20)


if __name__ == "__main__":
    main()
