"""Measure the hybrid index: quality on SciFact, and times on real code.

Prints one JSON line a figure: {"name", "value", "goal", "holds"}.
SciFact is read from ../shared/data beside the repository, and skipped where it is absent; the code
and prose of the large corpus are those of the installed packages, cut by our own chunker.
"""

import hashlib
import random
import resource
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import bm25s
from scifact import report, scifact

from freshstack_dspy.config import PoolConfig
from freshstack_dspy.corpus.chunks import chunk_files
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.index.storage import IndexedFile, IndexSettings
from freshstack_dspy.recipes.pooling import pool
from freshstack_dspy.records import TECHNIQUES, Chunk, SourceFile, Technique
from freshstack_dspy.text import terms

CHUNKS, MAX_TOKENS, LARGEST_FILE = 50_000, 512, 1_000_000
SUFFIXES = (".py", ".pyi", ".md", ".rst", ".txt")
SECONDS_TO_BUILD, GIGABYTES_TO_BUILD, SECONDS_TO_POOL = 180, 4.0, 20
NAME = "packages"


class Corpus(NamedTuple):
    """Files and their chunks, and how long it took to cut them."""

    files: list[SourceFile]
    chunks: list[list[Chunk]]
    """Of each file."""
    seconds: float

    @property
    def all_chunks(self) -> list[Chunk]:
        """The chunks of all files."""
        return [chunk for of_file in self.chunks for chunk in of_file]

    @property
    def indexed(self) -> list[IndexedFile]:
        """The files that have chunks, with their hashes."""
        return [
            IndexedFile(file.source, file.path, hashlib.sha256(file.data).hexdigest())
            for file, chunks in zip(self.files, self.chunks, strict=True)
            if chunks
        ]


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return work(), time.perf_counter() - start


def corpus() -> Corpus:
    """Cut files of the installed packages, in an order of chance, until there are enough chunks."""
    root = Path(sysconfig.get_path("purelib"))
    paths = sorted(path for path in root.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    random.Random(0).shuffle(paths)
    entries = (readable(root, path) for path in paths)
    readables = (entry for entry in entries if entry is not None)
    files: list[SourceFile] = []
    chunks: list[list[Chunk]] = []
    start = time.perf_counter()
    count = 0
    while count < CHUNKS and (more := list(islice(readables, 2000))):
        files += more
        chunks += chunk_files(more, MAX_TOKENS)
        count = sum(map(len, chunks))
    return Corpus(files, chunks, time.perf_counter() - start)


def readable(root: Path, path: Path) -> SourceFile | None:
    data = path.read_bytes()
    try:
        data.decode()
    except UnicodeDecodeError:
        return None
    if not data.strip() or len(data) > LARGEST_FILE:
        return None
    return SourceFile(NAME, path.relative_to(root).as_posix(), data)


def build(root: Path, cut: Corpus) -> float:
    """Build the large index; gives the seconds."""
    stages: dict[str, float] = {}
    chunks, indexed = cut.all_chunks, cut.indexed
    megabytes = sum(len(file.data) for file in cut.files) / 1e6
    report("index.corpus", f"{len(cut.files)} files, {megabytes:.0f} MB, {len(chunks)} chunks")
    report("index.chunks", len(chunks), f">= {CHUNKS}", holds=len(chunks) >= CHUNKS)
    report("index.chunking.seconds", round(cut.seconds, 1))
    report("index.chunking.files_per_second", round(len(cut.files) / cut.seconds))
    start = time.perf_counter()
    index = HybridIndex.build(
        root,
        NAME,
        chunks,
        files=indexed,
        progress=lambda stage, _: stages.update({stage: time.perf_counter()}),
    )
    seconds = time.perf_counter() - start
    for stage, end in stages.items():
        report(f"index.build.{stage}.seconds", round(end - start, 1))
        start = end
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    goal = f"<= {SECONDS_TO_BUILD}"
    report("index.build.seconds", round(seconds, 1), goal, holds=seconds <= SECONDS_TO_BUILD)
    report("index.build.chunks_per_second", round(len(chunks) / seconds))
    goal = f"< {GIGABYTES_TO_BUILD}"
    report("index.build.peak_gigabytes", round(peak, 2), goal, holds=peak < GIGABYTES_TO_BUILD)
    for part, size in index.stats().bytes.items():
        report(f"index.disk.{part}.megabytes", round(size / 1e6, 1))
    return seconds


def opening(root: Path) -> None:
    """Open in a process of its own, as a command does."""
    code = (
        "import time; from pathlib import Path; from freshstack_dspy.index import HybridIndex\n"
        "start = time.perf_counter()\n"
        f"index = HybridIndex.open(Path({str(root)!r}), name={NAME!r})\n"
        "opened = time.perf_counter()\n"
        "index.search('bm25', ['open a file'], 10); by_words = time.perf_counter()\n"
        "index.search('lsa', ['open a file'], 10); by_vectors = time.perf_counter()\n"
        "print(opened - start, by_words - opened, by_vectors - by_words)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    for name, seconds in zip(("open", "first_bm25", "first_lsa"), output.split(), strict=True):
        report(f"index.{name}.seconds", round(float(seconds), 3))


def update(root: Path, cut: Corpus, seconds_to_build: float) -> None:
    """Edit one file of a hundred, update, and compare with a build from nothing."""
    edited = set(random.Random(1).sample(range(len(cut.files)), len(cut.files) // 100))
    files = [
        file._replace(data=b"def edited(): ...\n\n\n" + file.data) if number in edited else file
        for number, file in enumerate(cut.files)
    ]
    start = time.perf_counter()
    changed = list(chunk_files([files[number] for number in sorted(edited)], MAX_TOKENS))
    chunks = list(cut.chunks)
    for number, of_file in zip(sorted(edited), changed, strict=True):
        chunks[number] = of_file
    now = Corpus(files, chunks, 0)
    index, difference = HybridIndex.update(
        root,
        NAME,
        [chunk for of_file in changed for chunk in of_file],
        files=now.indexed,
        revisions={NAME: None},
    )
    seconds = time.perf_counter() - start
    share = seconds / (cut.seconds + seconds_to_build)
    report("index.update.changed", f"{len(edited)} files, {difference.added} chunks added")
    report("index.update.seconds", round(seconds, 2))
    report("index.update.share_of_rebuild", round(share, 4), "< 0.05", holds=share < 0.05)
    fresh = HybridIndex.build(root, "fresh", now.all_chunks, files=now.indexed, lsa=index.lsa_model)
    texts = queries(now.all_chunks, 100, 40)
    for retriever in index.retrievers:
        same = index.search(retriever, texts, 100) == fresh.search(retriever, texts, 100)
        report(f"index.update.{retriever}.as_rebuilt", str(same).lower(), "true", holds=same)


def queries(chunks: Sequence[Chunk], count: int, words: int) -> list[str]:
    """The first words of chunks chosen by chance."""
    long_enough = [chunk for chunk in chunks if len(chunk.text.split()) >= words]
    chosen = random.Random(words).sample(long_enough, count)
    return [" ".join(chunk.text.split()[:words]) for chunk in chosen]


def speed(root: Path, chunks: Sequence[Chunk]) -> None:
    """Search beside bare bm25s, which is given the terms already cut, and pool."""
    index = HybridIndex.open(root, name=NAME)
    bare = bm25s.BM25(k1=1.2, b=0.75, method="lucene")
    bare.index(
        [terms(f"{chunk.path}\n{chunk.text}") for chunk in index.chunks()], show_progress=False
    )
    for words in (8, 60, 300):
        texts = queries(chunks, 200, words)
        tokens = [
            [bare.vocab_dict[term] for term in terms(text) if term in bare.vocab_dict]
            for text in texts
        ]
        index.search("bm25", texts, 100)
        rounds = [
            (
                timed(lambda texts=texts: index.search("bm25", texts, 100))[1],
                timed(lambda tokens=tokens: bare.retrieve(tokens, k=100, show_progress=False))[1],
            )
            for _ in range(3)
        ]
        ours, theirs = (min(seconds) for seconds in zip(*rounds, strict=True))
        ratio = theirs / ours
        report(f"index.bm25.{words}_words.queries_per_second", round(len(texts) / ours))
        report(f"index.bm25.{words}_words.to_bm25s", round(ratio, 2), ">= 0.8", holds=ratio >= 0.8)
    index.search("lsa", queries(chunks, 1, 8), 100)
    for retriever in ("lsa", "hybrid"):
        _, seconds = timed(lambda name=retriever: index.search(name, queries(chunks, 200, 8), 100))
        report(f"index.{retriever}.queries_per_second", round(200 / seconds))
    lengths = dict(zip(TECHNIQUES, (60, 60, 200, 200, 100), strict=True))
    texts_of = {name: queries(chunks, 200, words) for name, words in lengths.items()}
    asked: dict[str, dict[Technique, tuple[str, ...]]] = {
        str(place): {name: (texts_of[name][place],) for name in TECHNIQUES} for place in range(200)
    }
    _, seconds = timed(lambda: pool(index, asked, PoolConfig()))
    goal = f"< {SECONDS_TO_POOL}"
    report("index.pool_200.seconds", round(seconds, 1), goal, holds=seconds < SECONDS_TO_POOL)


def approximate(root: Path, chunks: Sequence[Chunk]) -> None:
    """Compare approximate with exact search of the same vectors."""
    exact = HybridIndex.open(root, name=NAME)
    index, seconds = timed(
        lambda: HybridIndex.build(
            root,
            "approximate",
            list(exact.chunks()),
            lsa=exact.lsa_model,
            settings=IndexSettings(search="approximate"),
        )
    )
    report("index.approximate.build_seconds", round(seconds, 1))
    texts = queries(chunks, 100, 20)
    for each in (exact, index):
        each.search("lsa", texts[:1], 10)
    for kind, where in (("all", None), ("few", "path LIKE '%.md'"), ("most", "tokens > 100")):
        expected = exact.search("lsa", texts, 10, where=where)
        found, seconds = timed(lambda where=where: index.search("lsa", texts, 10, where=where))
        recall = fmean(
            len({entry.chunk_id for entry in one} & {entry.chunk_id for entry in other})
            / max(1, len(one))
            for one, other in zip(expected, found, strict=True)
        )
        name = f"index.approximate.of_{kind}"
        report(f"{name}.recall@10", round(recall, 3), ">= 0.9", holds=recall >= 0.9)
        report(f"{name}.queries_per_second", round(len(texts) / seconds))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        scifact(root)
        cut = corpus()
        seconds = build(root, cut)
        opening(root)
        speed(root, cut.all_chunks)
        approximate(root, cut.all_chunks)
        update(root, cut, seconds)


if __name__ == "__main__":
    main()
