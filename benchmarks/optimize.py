"""`freshstack optimize` with the embedded baseline on the TREC RAG 2024 nugget assignments.

A row of the data is a full answer with people's assignment of each nugget to it; the answer is
the chunk, and any support counts. Read from ../shared/data; without it, or with `--tiny`, a few labels of its own.
Prints one JSON line for each measurement: name, value, goal, holds.
"""

import json
import sys
import tempfile
from pathlib import Path

from freshstack_dspy.calibration.optimization import OPTIMIZERS, SplitMetrics, optimize
from freshstack_dspy.config import ModelConfig
from freshstack_dspy.lm.client import connect
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.records import HumanLabel

DATA = (
    Path(__file__).resolve().parent.parent.parent
    / "shared/data/trec-rag24-nugget-assignments/assignments.jsonl"
)
GRADES = {"support": 2, "partial_support": 1, "not_support": 0}


def measured(name: str, value: object) -> None:
    print(json.dumps({"name": name, "value": value, "goal": None, "holds": None}), flush=True)


def assignments(path: Path) -> list[HumanLabel]:
    """Read the assignments as labels that carry their texts."""
    labels = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        labels += [
            HumanLabel(
                query_id=row["qid"],
                nugget_id=f"{row['qid']}_{number}",
                chunk_id=f"{row['run_id']}/{row['qid']}",
                label=GRADES[nugget["assignment"]],
                annotator="NIST",
                question=row["query"],
                nugget=nugget["text"],
                chunk=row["answer_text"],
            )
            for number, nugget in enumerate(row["nuggets"])
        ]
    return labels


def few_labels() -> list[HumanLabel]:
    """Labels of four made-up questions, each with a chunk that supports its nugget and one not."""
    facts = ("A dial shows the moon.", "Rings are dated by growth.", "pip installs.", "It resets.")
    return [
        HumanLabel(
            query_id=str(number),
            nugget_id=f"{number}_0",
            chunk_id=f"{number}/{chunk}",
            label=int(chunk == fact),
            annotator="made up",
            question=f"What of {fact.split()[0]}?",
            nugget=fact,
            chunk=chunk,
        )
        for number, fact in enumerate(facts)
        for chunk in (fact, "Nothing of the kind.")
    ]


def shown(split: SplitMetrics) -> dict[str, object]:
    kappa = split.metrics.kappa
    return {
        "kappa": kappa.value,
        "interval": [kappa.low, kappa.high],
        "exact_match": split.metrics.exact_match.value,
        "pairs": split.metrics.pairs,
        "failed": split.failed,
    }


def main() -> None:
    labels = assignments(DATA) if DATA.exists() and "--tiny" not in sys.argv else few_labels()
    measured("labels", len(labels))
    for optimizer in OPTIMIZERS:
        if optimizer == "mipro":
            continue  # writes instructions, which the baseline cannot
        with tempfile.TemporaryDirectory() as folder:
            store = ReplyStore(Path(folder))
            lm = connect(ModelConfig(), store=store)
            report = optimize(labels, lm, optimizer=optimizer).report
            store.close()
        measured(
            f"{optimizer}: queries to train and test", [report.train_queries, report.test_queries]
        )
        measured(f"{optimizer}: test before", shown(report.before))
        measured(f"{optimizer}: test after", shown(report.after))


if __name__ == "__main__":
    main()
