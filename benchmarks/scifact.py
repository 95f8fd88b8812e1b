"""Measure the retrievers on SciFact (BEIR): 5,183 abstracts, 300 claims, labels made by people.

    python benchmarks/scifact.py [--tiny]

Prints one JSON line a measurement: {"name", "value", "goal", "holds"}.
The data is read from ../shared/data next to the repository, and skipped where it is absent.
`--tiny` takes the first 20 queries and the documents judged for them, without goals.
"""

import json
import sys
import tempfile
from pathlib import Path
from statistics import fmean

from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.records import Chunk

TINY = "--tiny" in sys.argv
SCIFACT = next(
    (
        found
        for parent in Path(__file__).resolve().parents
        if (found := parent / "shared" / "data" / "scifact").is_dir()
    ),
    Path("shared/data/scifact"),
)
GOALS = {"bm25": (0.67, 0.918), "lsa": (0.5, 0.85), "hybrid": (0.65, 0.918)}
"""nDCG@10 and R@100; Anserini's BM25 has .6789 and .9253. For the others: floors."""


def report(name: str, value: float | str, goal: str = "", *, holds: bool = True) -> None:
    print(json.dumps({"name": name, "value": value, "goal": goal, "holds": holds}), flush=True)


def json_lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def document(document_id: str, title: str, text: str) -> Chunk:
    """A chunk as an import of BEIR makes it."""
    return Chunk(
        chunk_id=document_id,
        source="scifact",
        path=document_id,
        start_byte=0,
        end_byte=max(1, len(text.encode())),
        text=text,
        title=title,
        tokens=len(text) // 4,
    )


def scifact(root: Path) -> None:
    """Judge each retriever by the relevance labels of SciFact's 300 test queries."""
    import pytrec_eval

    if not SCIFACT.is_dir():
        report("index.scifact", "skipped: ../shared/data/scifact is absent")
        return
    queries = {query["_id"]: query["text"] for query in json_lines(SCIFACT / "queries.jsonl")}
    qrels: dict[str, dict[str, int]] = {}
    for line in (SCIFACT / "qrels.test.txt").read_text(encoding="utf-8").splitlines():
        query_id, _, document_id, label = line.split()
        qrels.setdefault(query_id, {})[document_id] = int(label)
    documents = json_lines(SCIFACT / "corpus.jsonl")
    if TINY:
        qrels = dict(list(qrels.items())[:20])
        judged = {document_id for labels in qrels.values() for document_id in labels}
        documents = [each for each in documents if each["_id"] in judged]
    chunks = [document(each["_id"], each["title"], each["text"]) for each in documents]
    index = HybridIndex.build(root, "scifact", chunks)
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "recall.100"})
    for retriever in index.retrievers:
        found = index.search(retriever, [queries[query_id] for query_id in qrels], 100)
        run = {  # by rank, for pytrec_eval breaks ties its own way; a query without finds counts 0
            query_id: {entry.chunk_id: -rank for rank, entry in enumerate(ranking)}
            for query_id, ranking in zip(qrels, found, strict=True)
        }
        scores = evaluator.evaluate(run)
        for key, name, least in zip(
            ("ndcg_cut_10", "recall_100"), ("nDCG@10", "R@100"), GOALS[retriever], strict=True
        ):
            value = fmean(scores.get(query_id, {}).get(key, 0.0) for query_id in qrels)
            label = f"index.scifact.{retriever}.{name}"
            report(label, round(value, 4), f">= {least}", holds=TINY or value >= least)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        scifact(Path(folder))
