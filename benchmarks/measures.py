"""Measure the evaluator: ours and the official one on the same run, 672 queries x 100 chunks.

Prints one JSON line a figure: {"name", "value", "goal", "holds"}.
"""

import json
import random
import time
from collections.abc import Callable
from typing import Any

from freshstack_dspy.measures import NuggetQrels, Run, evaluate
from freshstack_dspy.records import ScoredChunk

QUERIES, DEPTH, POOL, NUGGETS = 672, 100, 50, 3
MEASURES = ("alpha_nDCG@10", "Coverage@20", "Recall@50")
OFFICIAL_NAMES = ("alpha-nDCG@10", "Coverage@20", "Recall@50")
REPETITIONS = 5


def collection() -> tuple[NuggetQrels, Run]:
    """Make a collection of FreshStack's size and a run without ties."""
    rng = random.Random(0)
    nuggets, labels, rankings = {}, {}, {}
    for query in map(str, range(QUERIES)):
        nuggets[query] = tuple(f"{query}_{number}" for number in range(NUGGETS))
        pool = [f"source/folder/file_{rng.randrange(10**6)}.py_0_{place}" for place in range(POOL)]
        for nugget in nuggets[query]:
            supporting = set(rng.sample(pool, 4))
            labels[nugget] = {chunk: int(chunk in supporting) for chunk in pool}
        found = rng.sample(pool, 40) + [f"other_{query}_{n}" for n in range(DEPTH - 40)]
        rng.shuffle(found)
        rankings[query] = tuple(ScoredChunk(c, 1 - place / 200) for place, c in enumerate(found))
    return NuggetQrels(nuggets, labels), Run("benchmark", rankings)


def fastest(function: Callable[[], Any]) -> tuple[float, Any]:
    """Run a function a few times; give the least time in seconds and what it gave."""
    times = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return min(times), result


def report(name: str, value: float, goal: str, *, holds: bool) -> None:
    print(json.dumps({"name": name, "value": value, "goal": goal, "holds": holds}))


def main() -> None:
    from freshstack.retrieval.evaluation import EvaluateRetrieval

    qrels, run = collection()
    dicts = qrels.official()
    results = {
        query: {chunk.chunk_id: chunk.score for chunk in ranking}
        for query, ranking in run.rankings.items()
    }
    official = EvaluateRetrieval(k_values=[10, 20, 50])
    their_time, their_values = fastest(lambda: official.evaluate(*dicts, results))
    our_time, ours = fastest(lambda: evaluate(qrels, run, MEASURES))
    theirs = {name: value for values in their_values for name, value in values.items()}
    apart = max(
        abs(ours.means[our_name] - theirs[their_name])
        for our_name, their_name in zip(MEASURES, OFFICIAL_NAMES, strict=True)
    )
    ratio = their_time / our_time
    report("measures.evaluate_seconds", round(our_time, 4), "<= 0.15", holds=our_time <= 0.15)
    report("measures.official_seconds", round(their_time, 4), "for comparison", holds=True)
    report("measures.times_faster_than_official", round(ratio, 1), ">= 4", holds=ratio >= 4)
    report("measures.largest_difference_of_means", round(apart, 6), "<= 6e-5", holds=apart <= 6e-5)


if __name__ == "__main__":
    main()
