"""How far a model's labels agree with people's: support (TREC RAG 2024) and answers (NQ301).

    python benchmarks/agreement.py [--tiny] [--data FOLDER] [--model NAME]

By default of `extractive/baseline`. FOLDER has trec-rag24-nugget-assignments/assignments.jsonl,
trec-rag24-citation-support/support.jsonl and qa-eval-nq301, as their authors publish them. Cohen's
kappa, any support against none, with 95 % bootstrap intervals over topics or questions.
"""

import csv
import gzip
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import dspy
import numpy as np
from timing import TINY, data, report

from freshstack_dspy import AnswerComparer, Chunk, Nugget, Query, SupportJudge, connect

GRADES = {"support": 2, "partial_support": 1, "not_support": 0}
LEAST = {"assignments": 0.46, "citations": 0.37, "answers": 0.4}
"""What plain IDF-weighted overlap of words reaches on the first two; the third is a floor."""
MOST = 30 if TINY else None
Pairs = Iterator[tuple[str, bool, bool]]
"""Of each pair its topic, and what the model and the person said."""


def support(topic: str, question: str, nuggets: list[str], text: str) -> list[bool]:
    """What the judge says to each nugget."""
    query = Query(query_id=topic, title=question, body="")
    place = {"source": "trec", "path": "a", "start_byte": 0, "end_byte": len(text.encode())}
    chunk = Chunk(chunk_id="a", text=text, tokens=len(text) // 4, **place)
    judged = SupportJudge()(
        query=query,
        nuggets=[
            Nugget(nugget_id=str(n), query_id=topic, text=nugget, call_id=None)
            for n, nugget in enumerate(nuggets)
        ],
        chunks=[chunk],
    )
    return [bool(judgment.label) for judgment in judged.judgments]


def lines(path: Path) -> Iterator[dict]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, islice(file, MOST))


def assignments(folder: Path) -> Pairs:
    for row in lines(folder / "assignments.jsonl"):
        texts = [nugget["text"] for nugget in row["nuggets"]]
        judged = support(row["qid"], row["query"], texts, row["answer_text"])
        for nugget, label in zip(row["nuggets"], judged, strict=True):
            yield row["qid"], label, GRADES[nugget["assignment"]] > 0


def citations(folder: Path) -> Pairs:
    for row in lines(folder / "support.jsonl"):
        (label,) = support(row["topic"], "the sentence", [row["sentence"]], row["passage"])
        yield row["topic"], label, row["support"] > 0


def answers(folder: Path) -> Pairs:
    def plain(question: str) -> str:
        return question.lower().strip(" ?")

    with gzip.open(folder / "nq-open-oracle.jsonl.gz", "rt", encoding="utf-8") as file:
        gold = {plain(row["question"]): row["answers"] for row in map(json.loads, file)}
    compare = AnswerComparer()
    with (folder / "NQ301_human.tsv").open(encoding="utf-8", newline="") as people:
        for row in islice(csv.DictReader(people, delimiter="\t", quoting=csv.QUOTE_NONE), MOST):
            question = row["Question"]
            if references := gold.get(plain(question)):
                query = Query(query_id=question, title=question, body="")
                said = compare(query=query, references=references, answer=row["Model answer"])
                yield question, said.agrees, row["Acceptable?"] == "Yes"


def kappa(table: np.ndarray) -> np.ndarray:
    """Cohen's kappa of tables [..., model, person]."""
    total = table.sum((-1, -2))
    observed = np.trace(table, axis1=-2, axis2=-1) / total
    chance = (table.sum(-1) * table.sum(-2)).sum(-1) / total**2
    return np.asarray((observed - chance) / (1 - chance))


def agreement(name: str, pairs: Pairs) -> None:
    tables: dict[str, np.ndarray] = defaultdict(lambda: np.zeros((2, 2)))
    for topic, said, person in pairs:
        tables[topic][int(said), int(person)] += 1
    topics = np.stack([*tables.values()])
    rng, count = np.random.default_rng(0), len(topics)
    drawn = rng.multinomial(count, np.full(count, 1 / count), 2_000)
    low, high = np.nanquantile(kappa(np.tensordot(drawn, topics, 1)), (0.025, 0.975))
    whole = topics.sum(0)
    report(
        f"agreement.{name}.kappa",
        float(kappa(whole)),
        least=LEAST[name],
        low=float(low),
        high=float(high),
        precision=whole[1, 1] / whole[1].sum(),
        recall=whole[1, 1] / whole[:, 1].sum(),
        pairs=int(whole.sum()),
    )


def main() -> None:
    place = sys.argv.index("--model") + 1 if "--model" in sys.argv else 0
    with tempfile.TemporaryDirectory() as store:
        lm = connect(sys.argv[place] if place else "extractive/baseline", store=Path(store))
        with dspy.context(lm=lm):
            for name, pairs, folder in (
                ("assignments", assignments, "trec-rag24-nugget-assignments"),
                ("citations", citations, "trec-rag24-citation-support"),
                ("answers", answers, "qa-eval-nq301"),
            ):
                if found := data(folder):
                    agreement(name, pairs(found))


if __name__ == "__main__":
    main()
