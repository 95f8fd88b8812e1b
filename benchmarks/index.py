"""Measure the hybrid index: quality on SciFact, and times on real code.

    python benchmarks/index.py [--tiny]

Prints one JSON line a measurement: {"name", "value", "goal", "holds"}.
SciFact is read from ../shared/data next to the repository, and skipped where it is absent; the code
and prose of the large corpus are those of the installed packages, cut by our own chunker. `--tiny`
takes 200 chunks of one package, and no SciFact.
"""

import random
import resource
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import bm25s
from scifact import report, scifact

from freshstack_dspy.config import PoolConfig
from freshstack_dspy.corpus.chunks import chunk_file
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.index.lexical import indexed_text
from freshstack_dspy.progress import NoProgress
from freshstack_dspy.recipes.pooling import pool
from freshstack_dspy.records import TECHNIQUES, Chunk, SourceFile, Technique
from freshstack_dspy.text import terms

TINY = "--tiny" in sys.argv
CHUNKS, MAX_TOKENS, LARGEST_FILE = 200 if TINY else 50_000, 512, 1_000_000
QUERIES = 10 if TINY else 200
SUFFIXES = (".py", ".pyi", ".md", ".rst", ".txt")
NAME = "packages"


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return work(), time.perf_counter() - start


def goal(name: str, value: float, most: float) -> None:
    """Report a value that has an upper bound; at tiny sizes none holds."""
    report(name, round(value, 3), f"<= {most}", holds=TINY or value <= most)


def corpus() -> list[Chunk]:
    """Cut files of the installed packages, in an order of chance, until there are enough chunks."""
    root = Path(sysconfig.get_path("purelib"))
    place = root / "pydantic" if TINY else root
    paths = sorted(path for path in place.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    random.Random(0).shuffle(paths)
    chunks: list[Chunk] = []
    start, files, size = time.perf_counter(), 0, 0
    for path in paths:
        data = path.read_bytes()
        try:
            data.decode()
        except UnicodeDecodeError:
            continue
        if data.strip() and len(data) <= LARGEST_FILE:
            file = SourceFile(NAME, path.relative_to(root).as_posix(), data)
            chunks += chunk_file(file, MAX_TOKENS)
            files, size = files + 1, size + len(data)
        if len(chunks) >= CHUNKS:
            break
    report("index.corpus", f"{files} files, {size / 1e6:.0f} MB, {len(chunks)} chunks")
    report("index.chunking.seconds", round(time.perf_counter() - start, 1))
    return chunks


def build(root: Path, chunks: Sequence[Chunk]) -> HybridIndex:
    """Build the large index."""
    stages: dict[str, float] = {}
    waits: list[float] = []
    start = last = time.perf_counter()

    class Timed(NoProgress):
        """Notes when each stage last moved."""

        def advance(self, stage: str, note: str = "") -> None:
            nonlocal last
            waits.append(time.perf_counter() - last)
            stages[stage] = last = time.perf_counter()

    index = HybridIndex.build(root, NAME, chunks, progress=Timed())
    goal("index.build.seconds", time.perf_counter() - start, 180)
    for stage, end in stages.items():
        report(f"index.build.{stage}.seconds", round(end - start, 1))
        start = end
    report("index.build.longest_wait.seconds", round(max(waits), 1))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    goal("index.build.peak_gigabytes", peak, 4.0)
    size = sum(file.stat().st_size for file in Path(index.path).rglob("*"))
    report("index.disk.megabytes", round(size / 1e6, 1))
    again, seconds = timed(lambda: HybridIndex.build(root, NAME, chunks))
    report("index.unchanged.seconds", round(seconds, 2), holds=again.manifest == index.manifest)
    if not TINY:
        _, seconds = timed(lambda: HybridIndex.build(root, "6000", chunks[:6000]))
        report("index.build_6000.seconds", round(seconds, 1))
    return index


def opening(root: Path) -> None:
    """Open in a process of its own, as a command does."""
    code = (
        "import time; from pathlib import Path; from freshstack_dspy.index.hybrid import HybridIndex\n"
        "start = time.perf_counter()\n"
        f"index = HybridIndex.open(Path({str(root / NAME)!r}))\n"
        "opened = time.perf_counter()\n"
        "index.search('bm25', ['open a file'], 10); by_words = time.perf_counter()\n"
        "index.search('lsa', ['open a file'], 10); by_vectors = time.perf_counter()\n"
        "print(opened - start, by_words - opened, by_vectors - by_words)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    for name, seconds in zip(("open", "first_bm25", "first_lsa"), output.split(), strict=True):
        report(f"index.{name}.seconds", round(float(seconds), 3))


def queries(chunks: Sequence[Chunk], count: int, words: int) -> list[str]:
    """The first words of chunks chosen by chance."""
    long_enough = [chunk for chunk in chunks if len(chunk.text.split()) >= words]
    chosen = random.Random(words).choices(long_enough or chunks, k=count)
    return [" ".join(chunk.text.split()[:words]) for chunk in chosen]


def speed(index: HybridIndex, chunks: Sequence[Chunk]) -> None:
    """Search next to bare bm25s, which is given the terms already cut, and pool."""
    bare = bm25s.BM25(k1=1.2, b=0.75, method="lucene")
    bare.index([terms(indexed_text(chunk)) for chunk in index.chunks()], show_progress=False)
    for words in (8, 60, 300):
        texts = queries(chunks, QUERIES, words)
        found = (bare.get_tokens_ids(terms(text)) for text in texts)
        tokens = [ids for ids in found if ids]  # bare bm25s fails at a text of stop words alone
        index.search("bm25", texts, 100)
        _, ours = timed(lambda texts=texts: index.search("bm25", texts, 100))
        _, theirs = timed(lambda tokens=tokens: bare.retrieve(tokens, k=100, show_progress=False))
        report(f"index.bm25.{words}_words.queries_per_second", round(len(texts) / ours))
        report(f"index.bm25.{words}_words.to_bm25s", round(theirs / ours, 2))
    index.search("lsa", queries(chunks, 1, 8), 100)
    for retriever in ("lsa", "hybrid"):
        texts = queries(chunks, QUERIES, 8)
        _, seconds = timed(lambda name=retriever, texts=texts: index.search(name, texts, 100))
        report(f"index.{retriever}.queries_per_second", round(QUERIES / seconds))
    lengths = dict(zip(TECHNIQUES, (60, 60, 200, 200, 100), strict=True))
    texts_of = {name: queries(chunks, QUERIES, words) for name, words in lengths.items()}
    asked: dict[str, dict[Technique, tuple[str, ...]]] = {
        str(place): {name: (texts_of[name][place],) for name in TECHNIQUES}
        for place in range(QUERIES)
    }
    _, seconds = timed(lambda: pool(index, asked, PoolConfig()))
    goal(f"index.pool_{QUERIES}.seconds", seconds, 20)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        if not TINY:
            scifact(root)
        chunks = corpus()
        index = build(root, chunks)
        opening(root)
        speed(index, chunks)


if __name__ == "__main__":
    main()
