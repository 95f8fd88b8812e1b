"""Measure bm25 over four cuts of one corpus on one collection, and project the collection.

    python benchmarks/chunkers.py --dump ../shared/data/stackexchange-bioinformatics --wheels DIR
    python benchmarks/chunkers.py --tiny

The collection is that of `benchmarks/collection.py`, cut at 512 tokens and judged by the embedded
baseline; `--folder` keeps it for another run. Its files are cut at 256, 512 and 1,024 tokens by our
chunker, and at 800 characters with an overlap of 80 by another. Prints one JSON line for each
figure: name, value, goal, holds.
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from collection import configured, say, timed

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.rechunk import rechunk
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.measures.compare import compare_evaluations
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.run import PassageRun
from freshstack_dspy.measures.spans import Hit
from freshstack_dspy.recipes.build import build
from freshstack_dspy.records import Chunk
from freshstack_dspy.stored.passage_runs import place_all
from freshstack_dspy.stored.placing import Files, FileText

SIZES = (256, 512, 1024)
MEASURES = (
    *("alpha_nDCG@10", "Coverage@20", "Recall@50"),
    *("alpha_nDCG@2000tok", "Coverage@2000tok", "Recall@2000tok"),
    *("BytePrecision@2000tok", "ByteRecall@2000tok"),
)


def pieces(text: str, size: int = 800, overlap: int = 80) -> Iterator[tuple[int, int]]:
    """Cut a text at the last paragraph, line, sentence or word that fits, with an overlap."""
    start = 0
    while start + size < len(text):
        window = text[start : start + size]
        cuts = (window.rfind(mark, overlap + 1) + len(mark) for mark in ("\n\n", "\n", ". ", " "))
        end = start + next((cut for cut in cuts if cut > size // 2), size)
        yield start, end
        start = end - overlap
    yield start, len(text)


def cut_by_characters(collection: Collection) -> list[Chunk]:
    files = Files(collection.chunks())
    found = []
    for chunk in collection.chunks():
        if chunk.start_byte == 0:
            file: FileText = files.text(chunk.source, chunk.path)
            for start, end in pieces(file.text):
                place = {"start_byte": file.byte_at(start), "end_byte": file.byte_at(end)}
                ids = {
                    "chunk_id": f"{chunk.source}/{chunk.path} {start}",
                    "text": file.text[start:end],
                }
                found.append(chunk.model_copy(update={**ids, **place}))
    return found


def bm25(collection: Collection, chunks: list[Chunk], name: str, folder: Path) -> PassageRun:
    """Search the chunks for the questions; give the passages."""
    ids = set(collection.query_ids())
    queries = [query for query in collection.queries if query.query_id in ids]
    index = HybridIndex.build(folder / "indexes", name, chunks, dimensions=0)
    rankings = index.search("bm25", [query.text for query in queries], 50)
    by_id = {chunk.chunk_id: chunk for chunk in chunks}
    hits = {
        query.query_id: [
            Hit(
                score,
                source=one.source,
                path=one.path,
                start=one.start_byte,
                end=one.end_byte,
                unit="bytes",
            )
            for chunk_id, score in ranking
            for one in [by_id[chunk_id]]
        ]
        for query, ranking in zip(queries, rankings, strict=True)
    }
    return place_all(Files(collection.chunks()), hits, name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dump", type=Path)
    parser.add_argument("--wheels", type=Path)
    parser.add_argument("--folder", type=Path, help="where the collection is, or is built")
    parser.add_argument("--tiny", action="store_true", help="the quickstart, to see that it runs")
    chosen = parser.parse_args()
    if not chosen.tiny and not (chosen.dump and chosen.wheels):
        parser.error("name --dump and --wheels, or --tiny")
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.folder or Path(scratch)
        config = configured(folder, chosen.dump, chosen.wheels)
        collection = timed("build", lambda: build(config))
        measure(collection, Path(scratch))


def measure(collection: Collection, scratch: Path) -> None:
    counts = collection.manifest.counts
    say("labels of support", counts.supported)
    say("labels of support without evidence", counts.missing_evidence)
    cuts: dict[str, list[Chunk]] = {}
    for size in SIZES:
        after = timed(f"rechunk {size}", lambda: rechunk(collection, size, scratch / f"{size}"))  # noqa: B023
        cuts[f"{size} tokens"] = list(after.collection.chunks())
        say(f"rechunk {size}: labels of support lost", after.lost)
        say(f"rechunk {size}: nuggets lost", len(after.lost_nuggets))
        if size == 512:
            same = after.collection.qrels() == collection.qrels()
            say("projected at its own size: the same qrels", same, True, same)
    cuts["800 characters"] = cut_by_characters(collection)
    runs = {
        name: bm25(collection, chunks, name.replace(" ", "-"), scratch)
        for name, chunks in cuts.items()
    }
    qrels = collection.qrels()
    found = {}
    for name, run in runs.items():
        found[name] = timed(f"evaluate {name}", lambda: evaluate(qrels, run, MEASURES))  # noqa: B023
        of = found[name]
        say(f"{name}: chunks", len(cuts[name]))
        say(f"{name}: means", {measure: round(mean, 4) for measure, mean in of.means.items()})
        assert of.passages is not None
        say(
            f"{name}: means, half of the evidence",
            {m: round(mean, 4) for m, mean in of.passages.half.items()},
        )
        say(
            f"{name}: unjudged",
            {str(one.k): one.mean and round(one.mean, 3) for one in of.unjudged},
        )
    for each in compare_evaluations(found, baseline="512 tokens").differences:
        value, p = each.interval.value, each.adjusted_p
        say(
            f"{each.measure}, {each.run} - 512 tokens", [value and round(value, 4), p, each.verdict]
        )


if __name__ == "__main__":
    main()
