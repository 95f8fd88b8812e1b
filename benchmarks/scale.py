"""Measure how time and memory grow with the corpus.

    python benchmarks/scale.py [--tiny] [CHUNKS ...] [--max-tokens N]

Prints one JSON line a measurement: {"name", "value", "goal", "holds"}.
The corpus is the source and documentation of the installed packages, cut by our own chunker, and
repeated with a line changed in each copy until there are so many chunks (by default 250,000 and
1,000,000; `--tiny`: 1,000 and 3,000). Every stage runs in a process of its own, whose peak memory
is that of the process itself; a worker's is given apart.
"""

import json
import os
import random
import resource
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from scifact import report

TINY = "--tiny" in sys.argv
NUMBERS = [int(word) for word in sys.argv[1:] if word.isdecimal()]
MAX_TOKENS = NUMBERS.pop() if "--max-tokens" in sys.argv else 128
SIZES = NUMBERS or ([1_000, 3_000] if TINY else [250_000, 1_000_000])
QUESTIONS = 5 if TINY else 200
SIDE_BY_SIDE = 100_000
"""Chunks up to which both lexical indexes are measured; bm25s with `lsa`."""
MOST_MEMORY = 3.0
"""GB."""
SUFFIXES = (".py", ".pyi", ".md", ".rst", ".txt")
LARGEST_FILE = 200_000


# The corpus


def sources() -> list[Path]:
    """The files of the installed packages, in an order of chance."""
    root = Path(sysconfig.get_path("purelib"))
    place = root / "pydantic" if TINY else root
    paths = sorted(path for path in place.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    random.Random(0).shuffle(paths)
    return [path for path in paths if 0 < path.stat().st_size <= LARGEST_FILE]


def texts() -> Iterator[tuple[str, str]]:
    """Give path and text of files without end: from the second time on, each with a line changed."""
    root, paths = Path(sysconfig.get_path("purelib")), sources()
    copy = 0
    while True:
        for number, path in enumerate(paths):
            try:
                text = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
            lines = text.splitlines(keepends=True)
            if copy:
                lines.insert(number * 7919 % len(lines), f"# copy {copy} of file {number}\n")
            yield f"{copy:03}/{path.relative_to(root).as_posix()}", "".join(lines)
        copy += 1


def make_corpus(folder: Path, chunks: int) -> tuple[int, float]:
    """Write files of about so many chunks; give how many files, and how many MB."""
    wanted, size, files = chunks * MAX_TOKENS * 3.1, 0, 0
    for path, text in texts():
        if size >= wanted:
            break
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        size, files = size + len(text.encode()), files + 1
    return files, size / 1e6


# Stages, each in a process of its own


def chunk(config: Any) -> int:
    """Cut the corpus, or find that nothing changed."""
    from freshstack_dspy.progress import NoProgress
    from freshstack_dspy.recipes.chunking import chunk_corpora

    return len(chunk_corpora(config, NoProgress()).chunks)


def fetch(config: Any) -> int:
    """Fetch 10,000 chunks by their ids, as a pool does."""
    from freshstack_dspy.progress import NoProgress
    from freshstack_dspy.recipes.chunking import chunk_corpora

    chunks = chunk_corpora(config, NoProgress()).chunks
    rows = random.Random(1).sample(range(len(chunks)), min(10_000, len(chunks)))
    return len(chunks.chunks([chunks.ids[row] for row in rows]))


def write(config: Any) -> int:
    """Write a collection of all chunks."""
    from importlib.metadata import version

    from freshstack_dspy import Collection
    from freshstack_dspy.collection.collection import write_collection
    from freshstack_dspy.progress import NoProgress
    from freshstack_dspy.recipes.chunking import chunk_corpora
    from freshstack_dspy.stored.contents import Contents
    from freshstack_dspy.stored.manifest import Provenance

    corpora = chunk_corpora(config, NoProgress())
    about = Provenance(
        name="scale",
        recipe="freshstack",
        model="none",
        scale=config.judge.graded,
        versions={"freshstack_dspy": version("freshstack_dspy")},
    )
    write_collection(config.out, Contents(), corpora.chunks, about)
    return Collection.load(config.out).manifest.counts.chunks


def index(config: Any) -> int:
    """Index all chunks, which are cut already."""
    from freshstack_dspy.progress import NoProgress
    from freshstack_dspy.recipes.chunking import chunk_corpora
    from freshstack_dspy.recipes.corpus import index_corpora

    return len(index_corpora(config, chunk_corpora(config, NoProgress())))


def pool(config: Any) -> int:
    """Pool chunks for questions of the words of chunks, and fetch them; give how many questions."""
    from freshstack_dspy.recipes.corpus import open_index
    from freshstack_dspy.recipes.pooling import pool as pooled
    from freshstack_dspy.records import TECHNIQUES, Technique

    opened = open_index(config)
    chosen = random.Random(1)
    seeds = [one.text.split() for one in islice(opened.chunks(), 0, 40 * QUESTIONS, 40)]
    lengths: dict[Technique, int] = dict(zip(TECHNIQUES, (60, 60, 200, 200, 100), strict=True))
    texts = {
        str(place): {
            name: (" ".join(chosen.choice(seeds)[:words]),) for name, words in lengths.items()
        }
        for place in range(QUESTIONS)
    }
    opened.chunks_by_id({one.chunk_id for one in pooled(opened, texts, config.pool)})
    return QUESTIONS


STAGES: dict[str, Callable[[Any], int]] = {
    "chunk": chunk,
    "fetch": fetch,
    "write": write,
    "index": index,
    "pool": pool,
}


def run_stage(stage: str, config: Path) -> None:
    """Run a stage in this process, and print what it took."""
    from freshstack_dspy.config import load_config

    start = time.perf_counter()
    count = STAGES[stage](load_config(config))
    seconds = time.perf_counter() - start
    own, workers = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    cpu = own.ru_utime + own.ru_stime + workers.ru_utime + workers.ru_stime
    print(
        json.dumps(
            {
                "count": count,
                "seconds": seconds,
                "cpu": cpu,
                "gb": own.ru_maxrss / 1e6,
                "worker_gb": workers.ru_maxrss / 1e6,
            }
        )
    )


def measure(stage: str, config: Path, name: str, most: float = MOST_MEMORY) -> dict[str, float]:
    """Run a stage in a process of its own, and report what it took."""
    command = [sys.executable, __file__, "--stage", stage, str(config)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=os.environ)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    count = found["count"]
    report(f"{name}.seconds", round(found["seconds"], 2))
    report(f"{name}.milliseconds_a_chunk", round(1000 * found["seconds"] / count, 3))
    report(f"{name}.cpu_milliseconds_a_chunk", round(1000 * found["cpu"] / count, 3))
    report(f"{name}.worker_gb", round(found["worker_gb"], 3))
    holds = TINY or found["gb"] <= most
    report(f"{name}.gb", round(found["gb"], 3), f"<= {most}", holds=holds)
    return found


def main() -> None:
    """Measure every size."""
    for size in SIZES:
        with tempfile.TemporaryDirectory(dir=os.environ.get("SCALE_FOLDER")) as place:
            root = Path(place)
            files, megabytes = make_corpus(root / "corpus", size)
            config = root / "build.toml"
            config.write_text(
                'name = "scale"\nout = "collection"\n[model]\nname = "extractive/baseline"\n'
                f"[chunking]\nmax_tokens = {MAX_TOKENS}\n"
                '[queries]\nsource = "synthetic"\ncount = 1\n'
                '[[corpus]]\nname = "packages"\npath = "corpus"\n'
                '[index]\npath = "index"\n',
                encoding="utf-8",
            )
            name = f"scale.{size}"
            report(f"{name}.corpus", f"{files} files, {megabytes:.0f} MB, {MAX_TOKENS} tokens")
            made = measure("chunk", config, f"{name}.chunk")
            report(f"{name}.chunks", int(made["count"]))
            measure("chunk", config, f"{name}.unchanged")
            (root / "corpus/one.md").write_text("# One more\n\nA file that is new.\n")
            measure("chunk", config, f"{name}.one_file_more")
            measure("fetch", config, f"{name}.fetch")
            measure("write", config, f"{name}.write")
            for lexical in ("lance", "bm25s") if size <= SIDE_BY_SIDE else ("lance",):
                of_it = root / f"{lexical}.toml"
                of_it.write_text(
                    f'{config.read_text(encoding="utf-8")}lexical = "{lexical}"\n'
                    '[pool]\nretrievers = ["bm25"]\n',
                    encoding="utf-8",
                )
                measure("index", of_it, f"{name}.{lexical}.index")
                measure("pool", of_it, f"{name}.{lexical}.pool")
                held = sum(file.stat().st_size for file in (root / "index/scale").rglob("*"))
                report(f"{name}.{lexical}.megabytes", round(held / 1e6))


if __name__ == "__main__":
    if "--stage" in sys.argv:
        run_stage(*sys.argv[-2:])  # type: ignore[arg-type]
    else:
        main()
