"""The index: quality on SciFact (BEIR), and times over the source of the installed packages.

    python benchmarks/retrieval.py [--tiny] [--data FOLDER]

FOLDER/scifact is BEIR's: 5,183 abstracts, 300 claims, labels by people.
"""

import json
import random
import tempfile
import time
from pathlib import Path

import bm25s
from timing import TINY, alone, data, files, in_turns, report

from freshstack_dspy import Chunk, HybridIndex, evaluate
from freshstack_dspy.corpus.chunks import chunk_file
from freshstack_dspy.index.lexical import indexed_text
from freshstack_dspy.records import SourceFile
from freshstack_dspy.text import terms

CHUNKS, QUERIES, MAX_TOKENS = (200, 10, 512) if TINY else (50_000, 200, 512)
SUFFIXES = (".py", ".pyi", ".md", ".rst", ".txt")
LEAST = {"bm25": (0.67, 0.918), "lsa": (0.5, 0.85), "hybrid": (0.65, 0.918)}
"""nDCG@10 and Recall@100; Anserini's BM25 has .679 and .925. For the others: floors."""


def corpus(count: int = CHUNKS) -> list[Chunk]:
    """Cut files of the installed packages until there are so many chunks."""
    chunks: list[Chunk] = []
    for path, content in files(count * 4 * MAX_TOKENS, *SUFFIXES):
        if len(chunks) < count:
            chunks += chunk_file(SourceFile("packages", path, content), MAX_TOKENS)
    return chunks[:count]


def queries(chunks: list[Chunk], count: int, words: int) -> list[str]:
    """The first words of chunks chosen by chance."""
    long_enough = [chunk for chunk in chunks if len(chunk.text.split()) >= words]
    chosen = random.Random(words).choices(long_enough or chunks, k=count)
    return [" ".join(chunk.text.split()[:words]) for chunk in chosen]


def scifact(root: Path, folder: Path) -> None:
    """Measure each retriever on the labels of the test queries."""
    asked, documents = (
        {row["_id"]: row for row in map(json.loads, (folder / name).open(encoding="utf-8"))}
        for name in ("queries.jsonl", "corpus.jsonl")
    )
    qrels: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels.test.txt").read_text(encoding="utf-8").splitlines():
        query_id, _, document_id, label = line.split()
        qrels.setdefault(query_id, {})[document_id] = int(label)
    if TINY:
        qrels = dict(list(qrels.items())[:20])
        judged = {document_id for labels in qrels.values() for document_id in labels}
        documents = {name: documents[name] for name in sorted(judged)}
    chunks = [
        Chunk(
            chunk_id=document_id,
            source="scifact",
            path=document_id,
            start_byte=0,
            end_byte=max(1, len(row["text"].encode())),
            text=row["text"],
            title=row["title"],
            tokens=len(row["text"]) // 4,
        )
        for document_id, row in documents.items()
    ]
    index = HybridIndex.build(root, "scifact", chunks)
    for retriever in index.retrievers:
        found = index.search(retriever, [asked[query_id]["text"] for query_id in qrels], 100)
        run = {
            query_id: {hit.chunk_id: -float(rank) for rank, hit in enumerate(hits)}
            for query_id, hits in zip(qrels, found, strict=True)
        }
        means = evaluate(qrels, run, ("nDCG@10", "Recall@100")).means
        for (measure, mean), least in zip(means.items(), LEAST[retriever], strict=True):
            report(f"retrieval.scifact.{retriever}.{measure}", mean, least=least)


def speed(root: Path) -> None:
    """Build, open and search; bm25 next to bare bm25s, which is given the terms already cut."""
    chunks = corpus()
    begun = time.perf_counter()
    index = HybridIndex.build(root, "packages", chunks)
    report("retrieval.build_seconds", time.perf_counter() - begun, most=180, chunks=len(chunks))
    size = sum(file.stat().st_size for file in Path(index.path).rglob("*"))
    report("retrieval.disk_megabytes", size / 1e6)
    begun = time.perf_counter()
    HybridIndex.build(root, "packages", chunks)
    report("retrieval.unchanged_seconds", time.perf_counter() - begun)
    code = (
        "import time; from pathlib import Path; from freshstack_dspy import HybridIndex\n"
        f"begun = time.perf_counter(); index = HybridIndex.open(Path({str(index.path)!r}))\n"
        "index.search('bm25', ['open a file'], 10); print(time.perf_counter() - begun)"
    )
    opened = float(alone("-c", code).output.splitlines()[-1])
    report("retrieval.opened_and_first_search_seconds", opened)
    bare = bm25s.BM25(k1=1.2, b=0.75, method="lucene")
    bare.index([terms(indexed_text(chunk)) for chunk in index.chunks()], show_progress=False)
    for words in (8, 60, 300):
        texts = queries(chunks, QUERIES, words)
        tokens = [ids for ids in (bare.get_tokens_ids(terms(text)) for text in texts) if ids]
        ours, theirs = in_turns(
            lambda: index.search("bm25", texts, 100),  # noqa: B023
            lambda: bare.retrieve(tokens, k=100, show_progress=False),  # noqa: B023
            rounds=3,
        )
        name = f"retrieval.bm25_{words}_words_ms_a_query"
        report(name, 1000 * ours / len(texts), bm25s=1000 * theirs / len(texts))
    texts = queries(chunks, QUERIES, 8)
    for retriever in ("lsa", "hybrid"):
        (seconds,) = in_turns(lambda: index.search(retriever, texts, 100), rounds=3)  # noqa: B023
        report(f"retrieval.{retriever}_ms_a_query", 1000 * seconds / len(texts))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        if place := data("scifact"):
            scifact(Path(folder), place)
        speed(Path(folder))


if __name__ == "__main__":
    main()
