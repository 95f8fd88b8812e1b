"""Commands: how long they take to begin, and over a collection of 1,000,000 judgments.

    python benchmarks/commands.py [--tiny]

2,000 questions of 10 nuggets, 50 of 100,000 chunks judged for each. Each command is a process of its own.
"""

import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from timing import TINY, alone, freshstack, report, report_command

from freshstack_dspy import Collection

QUESTIONS, NUGGETS, POOL, DEPTH = 1 if TINY else 2_000, 10, 50, 100
SECONDS, MEGABYTES = 5, 1_000
WORDS = (
    "the function returns a parsed record for each aligned read and raises an error where its "
    "header names no reference sequence so callers check flags before they convert positions"
).split()


def starting() -> None:
    """Import and help, next to the import of DSPy; the least of several."""
    everything = {
        "import dspy": ("-c", "import dspy"),
        "import freshstack_dspy": ("-c", "import freshstack_dspy"),
        "freshstack --help": ("-m", "freshstack_dspy", "--help"),
        "freshstack build --help": ("-m", "freshstack_dspy", "build", "--help"),
    }
    taken = [{name: alone(*words).cpu for name, words in everything.items()} for _ in range(3)]
    least = {name: min(turn[name] for turn in taken) for name in everything}
    for name, seconds in least.items():
        most = None if name == "import dspy" else least["import dspy"]
        report(f"commands.{name}: CPU seconds", seconds, most=most)


def make(folder: Path) -> None:
    """Write the collection and a run; both are made by chance, always the same."""
    rng = random.Random(0)

    def words(number: int) -> str:
        return " ".join(rng.choices(WORDS, k=number))

    ids = [f"{number:06d}" for number in range(QUESTIONS)]
    chunks = [
        {"chunk_id": f"biolib/package/module_{place}.py_0_700", "text": words(100)}
        for place in range(max(50 * QUESTIONS, 2 * DEPTH))
    ]
    hits: dict[str, list[str]] = {}

    def judgments() -> Iterator[dict[str, Any]]:
        for query_id in ids:
            pool = [chunk["chunk_id"] for chunk in rng.sample(chunks, POOL)]
            others = [chunk["chunk_id"] for chunk in rng.sample(chunks, DEPTH - 30)]
            hits[query_id] = list(dict.fromkeys(pool[:30] + others))
            for chunk_id in pool:
                for number in range(NUGGETS):
                    label = rng.choices((0, 1, 2), (85, 10, 5))[0]
                    yield {
                        "nugget_id": f"{query_id}_{number}",
                        "chunk_id": chunk_id,
                        "label": label,
                    }

    Collection.of(
        queries=[
            {"query_id": name, "title": words(9), "body": words(80), "answer": words(60)}
            for name in ids
        ],
        nuggets=[
            {"nugget_id": f"{name}_{number}", "query_id": name, "text": words(12)}
            for name in ids
            for number in range(NUGGETS)
        ],
        judgments=list(judgments()),
        chunks=chunks,
        name="chance",
    ).save(folder / "collection")
    with (folder / "run.trec").open("w") as run:
        for query_id, found in hits.items():
            for rank, chunk_id in enumerate(found, 1):
                run.write(f"{query_id} Q0 {chunk_id} {rank} {1 / rank:.6f} chance\n")
    (folder / "pair").write_text(f"{ids[0]} {hits[ids[0]][0]}")


def main() -> None:
    if "--make" in sys.argv:  # in a process of its own: a child's peak is its parent's at least
        make(Path(sys.argv[-1]))
        return
    starting()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        tiny = ["--tiny"] if TINY else []
        report_command("commands.save", alone(__file__, *tiny, "--make", folder))
        made, run = folder / "collection", folder / "run.trec"
        query_id, chunk_id = (folder / "pair").read_text().split()
        for name, *words in (
            ("show", made),
            ("show", made, query_id),
            ("explain", made, query_id, chunk_id),
            ("evaluate", made, run),
            ("diagnose", made),
            ("validate", made),
        ):
            took = freshstack(name, *words)
            shown = f"commands.{name}{' of a question' if words[1:] == [query_id] else ''}"
            report_command(shown, took, seconds=SECONDS, megabytes=MEGABYTES)


if __name__ == "__main__":
    main()
