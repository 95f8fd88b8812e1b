"""Measure the embedded baseline: its agreement with people, on public labels, and its speed.

Two sets of TREC RAG 2024 are read from `../shared/data`: nuggets assigned to answers, and
sentences judged against the passages that they cite. Each person's label is taken twice: any
support against none, and full support against the rest. Intervals are 95 % bootstrap intervals
over topics. `unseen topics` is the mean over random halves of the topics: one half chooses the
threshold, for both sets together, and the other is judged. All else uses the one that ships.

Prints one JSON line a figure: {"name", "value", "goal", "holds"}.
"""

import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from freshstack_dspy.lm.baseline.replies import reply
from freshstack_dspy.lm.baseline.support import THRESHOLD, support
from freshstack_dspy.measures import kappa as measures
from freshstack_dspy.measures.kappa import kappa_interval, table_of

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
ASSIGNMENTS = DATA / "trec-rag24-nugget-assignments" / "assignments.jsonl"
CITATIONS = DATA / "trec-rag24-citation-support" / "support.jsonl"
GRADES = {"support": 2, "partial_support": 1, "not_support": 0}
GOALS = {"nugget assignment": 0.46, "citation support": 0.37}
STRICTNESS = {"any support": 1, "full support": 2}
THRESHOLDS = [place / 100 for place in range(10, 41)]
PAIRS_PER_SECOND = 1500
HALVES = 30
PASSAGES = 1000
REPETITIONS = 3


class Pair(NamedTuple):
    """A nugget and a text: how the baseline scores them and what a person said (0, 1 or 2)."""

    topic: str
    score: float
    grade: int


class Call(NamedTuple):
    """Nuggets to judge against one text, with a person's grade for each."""

    topic: str
    question: str
    nuggets: list[str]
    chunk: str
    grades: list[int]


def assignments() -> Iterator[Call]:
    for line in ASSIGNMENTS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield Call(
            row["qid"],
            row["query"],
            [nugget["text"] for nugget in row["nuggets"]],
            row["answer_text"],
            [GRADES[nugget["assignment"]] for nugget in row["nuggets"]],
        )


def citations() -> Iterator[Call]:
    for line in CITATIONS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield Call(row["topic"], "", [row["sentence"]], row["passage"], [row["support"]])


def scored(calls: Iterator[Call]) -> list[Pair]:
    pairs = []
    for call in calls:
        found = support(call.question, call.nuggets, [call.chunk])[0]
        for score, grade in zip(found.scores, call.grades, strict=True):
            pairs.append(Pair(call.topic, score, grade))
    return pairs


def labels(pairs: Sequence[Pair], threshold: float, least: int) -> list[tuple[int, int]]:
    return [(int(pair.score >= threshold), int(pair.grade >= least)) for pair in pairs]


def kappa(pairs: Sequence[Pair], threshold: float, least: int) -> float:
    return number(measures.kappa(table_of(labels(pairs, threshold, least), 2)))


def number(value: float) -> float:
    """0 where a metric is undefined."""
    return float(np.nan_to_num(value))


def report(name: str, value: float, goal: str, *, holds: bool) -> None:
    print(json.dumps({"name": name, "value": round(value, 3), "goal": goal, "holds": holds}))


def agreement(name: str, pairs: Sequence[Pair]) -> None:
    for strictness, least in STRICTNESS.items():
        by_topic = defaultdict(list)
        for pair, label in zip(pairs, labels(pairs, THRESHOLD, least), strict=True):
            by_topic[pair.topic].append(label)
        found = kappa_interval(by_topic)
        value, low, high = found.value or 0.0, found.low or 0.0, found.high or 0.0
        what = f"{name}, {strictness}"
        if least == 1:
            report(f"{what}: kappa", value, f"> {GOALS[name]}", holds=value > GOALS[name])
        else:
            report(f"{what}: kappa", value, "none", holds=True)
        report(f"{what}: kappa, lower end of 95 %", low, "none", holds=True)
        report(f"{what}: kappa, upper end of 95 %", high, "none", holds=True)
        table = table_of(chain.from_iterable(by_topic.values()), 2)
        for measure, compute in (("precision", measures.precision), ("recall", measures.recall)):
            share = number(compute(table, 1))
            report(f"{what}: {measure}", share, "none", holds=True)


def unseen_topics(sets: dict[str, list[Pair]]) -> None:
    """Choose the threshold on half of the topics, for both sets together; judge the others."""
    topics = sorted({pair.topic for pairs in sets.values() for pair in pairs})
    found: dict[str, list[float]] = {name: [] for name in sets}
    rng = random.Random(0)
    for _ in range(HALVES):
        seen = set(rng.sample(topics, len(topics) // 2))
        known = [[pair for pair in pairs if pair.topic in seen] for pairs in sets.values()]
        chosen = max(THRESHOLDS, key=lambda t: sum(kappa(pairs, t, 1) for pairs in known))
        for name, pairs in sets.items():
            unseen = [pair for pair in pairs if pair.topic not in seen]
            found[name].append(kappa(unseen, chosen, 1))
    for name, kappas in found.items():
        value = sum(kappas) / len(kappas)
        what = f"{name}, any support: kappa on unseen topics, threshold chosen on the others"
        report(what, value, f"> {GOALS[name]}", holds=value > GOALS[name])


def judge_inputs(nuggets: Sequence[str], chunks: Sequence[str]) -> dict[str, Any]:
    return {
        "question": "",
        "nuggets": [{"number": n, "text": text} for n, text in enumerate(nuggets, 1)],
        "chunks": [{"number": n, "path": "", "text": text} for n, text in enumerate(chunks, 1)],
    }


def speed(name: str, calls: Sequence[dict[str, Any]]) -> None:
    """Judge all calls a few times; report the pairs a second of processor time of the fastest."""
    times = []
    for _ in range(REPETITIONS):
        start = time.process_time()
        for inputs in calls:
            reply("JudgeSupport", inputs)
        times.append(time.process_time() - start)
    pairs = sum(len(inputs["nuggets"]) * len(inputs["chunks"]) for inputs in calls)
    rate = pairs / min(times)
    goal = f">= {PAIRS_PER_SECOND}"
    report(f"pairs a second of one core, {name}", rate, goal, holds=rate >= PAIRS_PER_SECOND)


def speeds() -> None:
    rows = list(citations())[:PASSAGES]
    texts = [row.chunk for row in rows]
    nuggets = [row.nuggets[0] for row in rows]
    speed("1 nugget x 1 passage a call", [judge_inputs(row.nuggets, [row.chunk]) for row in rows])
    batches = [
        judge_inputs(nuggets[place : place + 5], texts[place : place + 20])
        for place in range(0, PASSAGES, 20)
    ]
    speed("5 nuggets x 20 passages a call", batches)


def main() -> None:
    missing = [path for path in (ASSIGNMENTS, CITATIONS) if not path.exists()]
    if missing:
        print(json.dumps({"skipped": f"{missing[0]} is absent"}))
        return
    if "--tiny" in sys.argv:
        agreement("nugget assignment", scored(islice(assignments(), 60)))
        agreement("citation support", scored(islice(citations(), 60)))
        return
    sets = {"nugget assignment": scored(assignments()), "citation support": scored(citations())}
    for name, pairs in sets.items():
        agreement(name, pairs)
    unseen_topics(sets)
    speeds()


if __name__ == "__main__":
    main()
