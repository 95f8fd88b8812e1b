"""Measures: next to the official evaluator, and how time and memory grow with the queries.

    python benchmarks/measures.py [--tiny]

672 queries of 3 nuggets and 50 judged chunks, as many as FreshStack has, and runs of 100 chunks.
"""

import random
import time
import tracemalloc
from typing import Any

from freshstack.retrieval.evaluation import EvaluateRetrieval
from timing import TINY, in_turns, report

from freshstack_dspy import NuggetQrels, Run, compare, evaluate

DEPTH, POOL, NUGGETS = 100, 50, 3
QUERIES, GROWTH = (20, (10, 20)) if TINY else (672, (1_250, 10_000))
MEASURES = ("alpha_nDCG@10", "Coverage@20", "Recall@50")
OFFICIAL = ("alpha-nDCG@10", "Coverage@20", "Recall@50")


def collection(queries: int) -> tuple[NuggetQrels, Run]:
    """Make judgments, and a run without ties."""
    rng = random.Random(0)
    nuggets, labels, scores = {}, {}, {}
    for query in map(str, range(queries)):
        nuggets[query] = tuple(f"{query}_{number}" for number in range(NUGGETS))
        pool = [f"source/folder/file_{rng.randrange(10**6)}.py_0_{place}" for place in range(POOL)]
        for nugget in nuggets[query]:
            supporting = set(rng.sample(pool, 4))
            labels[nugget] = {chunk: int(chunk in supporting) for chunk in pool}
        hits = rng.sample(pool, 40) + [f"other_{query}_{n}" for n in range(DEPTH - 40)]
        rng.shuffle(hits)
        scores[query] = {chunk: 1 - place / 200 for place, chunk in enumerate(hits)}
    return NuggetQrels(nuggets, labels), Run.from_scores(scores, name="benchmark")


def next_to_the_official_one() -> float:
    """Report values and times; give how many times ours is faster."""
    qrels, run = collection(QUERIES)
    dicts, official = qrels.official(), EvaluateRetrieval(k_values=[10, 20, 50])
    scores = {q: {each.chunk_id: each.score for each in hits} for q, hits in run.rankings.items()}
    results: dict[str, Any] = {}

    def ours() -> None:
        results["ours"] = evaluate(qrels, run, MEASURES).means

    def theirs() -> None:
        values = official.evaluate(*dicts, scores)
        results["theirs"] = {name: mean for each in values for name, mean in each.items()}

    mine, their = in_turns(ours, theirs)
    apart = max(
        abs(results["ours"][our_name] - results["theirs"][name])
        for our_name, name in zip(MEASURES, OFFICIAL, strict=True)
    )
    report("measures.largest_difference_of_means", apart, most=6e-5)
    report("measures.official_over_ours", their / mine, least=5, ours=mine, official=their)
    (seconds,) = in_turns(lambda: compare(qrels, {"a": run, "b": run, "c": run}), rounds=1)
    report("measures.compare_three_runs_seconds", seconds)
    return their / mine


def growth() -> None:
    """Time and memory of a query: constant."""
    milliseconds, kilobytes = [], []
    for queries in GROWTH:
        qrels, run = collection(queries)
        begun = time.process_time()
        evaluate(qrels, run, MEASURES)
        milliseconds.append(1000 * (time.process_time() - begun) / queries)
        tracemalloc.start()
        evaluate(qrels, run, MEASURES)
        kilobytes.append(tracemalloc.get_traced_memory()[1] / 1024 / queries)
        tracemalloc.stop()
    for unit, values, most in (("ms", milliseconds, 1.5), ("peak_kb", kilobytes, 1.1)):
        name = f"measures.{unit}_a_query, {GROWTH[-1]} to {GROWTH[0]} queries"
        report(name, values[-1] / values[0], most=most, few=values[0], many=values[-1])


def main() -> None:
    next_to_the_official_one()
    growth()


if __name__ == "__main__":
    main()
