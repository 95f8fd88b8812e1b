"""Measure the evaluator: against the official one, and how it grows with the number of queries.

672 queries x 100 chunks for the first, up to 10,000 for the second; with `--tiny`, 20 queries and
nothing else. Nothing is warmed up: what is called `first` is the first call in its process. Prints
one JSON line a value: {"name", "value", "goal", "holds"}.
"""

import json
import random
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from freshstack_dspy.measures.compare import compare
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.qrels import NuggetQrels
from freshstack_dspy.measures.run import Run
from freshstack_dspy.records import ScoredChunk

QUERIES, DEPTH, POOL, NUGGETS = 672, 100, 50, 3
GROWTH = (1250, 2500, 5000, 10_000)
PYNDEVAL_GROWTH = (200, 400, 800)
MEASURES = ("alpha_nDCG@10", "Coverage@20", "Recall@50")
OFFICIAL_NAMES = ("alpha-nDCG@10", "Coverage@20", "Recall@50")
IMPORTS = {"our": "freshstack_dspy.measures", "official": "freshstack.retrieval.evaluation"}
REPETITIONS = 5


def collection(queries: int = QUERIES) -> tuple[NuggetQrels, Run]:
    """Make a collection, by default of FreshStack's size, and a run without ties."""
    rng = random.Random(0)
    nuggets, labels, rankings = {}, {}, {}
    for query in map(str, range(queries)):
        nuggets[query] = tuple(f"{query}_{number}" for number in range(NUGGETS))
        pool = [f"source/folder/file_{rng.randrange(10**6)}.py_0_{place}" for place in range(POOL)]
        for nugget in nuggets[query]:
            supporting = set(rng.sample(pool, 4))
            labels[nugget] = {chunk: int(chunk in supporting) for chunk in pool}
        found = rng.sample(pool, 40) + [f"other_{query}_{n}" for n in range(DEPTH - 40)]
        rng.shuffle(found)
        rankings[query] = tuple(ScoredChunk(c, 1 - place / 200) for place, c in enumerate(found))
    return NuggetQrels(nuggets, labels), Run("benchmark", rankings)


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def report(name: str, value: float, goal: str = "for comparison", *, holds: bool = True) -> None:
    print(json.dumps({"name": f"measures.{name}", "value": value, "goal": goal, "holds": holds}))


def against_the_official_one(queries: int) -> None:
    from freshstack.retrieval.evaluation import EvaluateRetrieval

    qrels, run = collection(queries)
    dicts = qrels.official()
    results = {
        query: {chunk.chunk_id: chunk.score for chunk in ranking}
        for query, ranking in run.rankings.items()
    }
    official = EvaluateRetrieval(k_values=[10, 20, 50])
    pairs = [
        (
            timed(lambda: evaluate(qrels, run, MEASURES)),
            timed(lambda: official.evaluate(*dicts, results)),
        )
        for _ in range(REPETITIONS)
    ]
    (our_first, ours), (their_first, their_values) = pairs[0]
    our_best, their_best = (min(pair[side][0] for pair in pairs) for side in (0, 1))
    theirs = {name: value for values in their_values for name, value in values.items()}
    apart = max(
        abs(ours.means[our_name] - theirs[their_name])
        for our_name, their_name in zip(MEASURES, OFFICIAL_NAMES, strict=True)
    )
    same, printed = timed(lambda: evaluate(qrels, run, MEASURES, conventions="freshstack"))
    first, best = their_first / our_first, their_best / our_best
    report("evaluate_first_seconds", round(our_first, 4))
    report("official_first_seconds", round(their_first, 4))
    report("first_times_faster_than_official", round(first, 1), ">= 5", holds=first >= 5)
    report("times_faster_than_official", round(best, 1), ">= 5, aim 10", holds=best >= 5)
    report("largest_difference_of_means", round(apart, 6), "<= 6e-5", holds=apart <= 6e-5)
    equal = list(printed.means.values()) == [theirs[name] for name in OFFICIAL_NAMES]
    report("equal_in_official_mode", int(equal), "1", holds=equal)
    report("evaluate_in_official_mode_seconds", round(same, 4))
    whole = timed(lambda: evaluate(qrels, run, MEASURES).intervals)[0]
    report("evaluate_with_intervals_seconds", round(whole, 3), "<= 0.2", holds=whole <= 0.2)
    several = dict.fromkeys("abc", run)
    report("compare_three_runs_seconds", round(timed(lambda: compare(qrels, several))[0], 2))


def imports() -> None:
    """Import each package in fresh processes; the least processor time counts."""
    for whose, module in IMPORTS.items():
        seconds = min(_import_seconds(module) for _ in range(3))
        report(f"{whose}_import_seconds", round(seconds, 2))


def _import_seconds(module: str) -> float:
    code = f"import {module}, time; print(time.process_time())"
    command = [sys.executable, "-c", code]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def growth() -> None:
    """Evaluate more and more queries, each number in a process of its own."""
    milliseconds, kilobytes = [], []
    for queries in GROWTH:
        took, peak = in_a_process("our", queries)
        milliseconds.append(1000 * took / queries)
        kilobytes.append(peak / 1024 / queries)
        report(f"milliseconds_a_query_of_{queries}", round(milliseconds[-1], 3))
        report(f"peak_kilobytes_a_query_of_{queries}", round(kilobytes[-1], 2))
    slower, larger = milliseconds[-1] / milliseconds[0], kilobytes[-1] / kilobytes[0]
    report("time_a_query_10000_to_1250", round(slower, 2), "<= 1.5", holds=slower <= 1.5)
    report("memory_a_query_10000_to_1250", round(larger, 2), "<= 1.1", holds=larger <= 1.1)
    for queries in PYNDEVAL_GROWTH:
        took, _ = in_a_process("pyndeval", queries)
        report(f"pyndeval_milliseconds_a_query_of_{queries}", round(1000 * took / queries, 3))


def in_a_process(whose: str, queries: int) -> tuple[float, float]:
    """Give the seconds of the first call, and the bytes at the peak of another."""
    command = [sys.executable, __file__, whose, str(queries)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, peak = json.loads(done.stdout)
    return seconds, peak


def one_size(whose: str, queries: int) -> None:
    qrels, run = collection(queries)
    if whose == "pyndeval":
        print(json.dumps([by_pyndeval(qrels, run), 0]))
        return
    seconds, _ = timed(lambda: evaluate(qrels, run, MEASURES))
    tracemalloc.start()
    evaluate(qrels, run, MEASURES)
    print(json.dumps([seconds, tracemalloc.get_traced_memory()[1]]))


def by_pyndeval(qrels: NuggetQrels, run: Run) -> float:
    """Time alpha-nDCG by pyndeval, its judgments read in included, as in every evaluation."""
    import pyndeval

    judgments = [
        pyndeval.SubtopicQrel(query, nugget, chunk, label)
        for query, nuggets in qrels.nuggets.items()
        for nugget in nuggets
        for chunk, label in qrels.labels[nugget].items()
    ]
    found = [
        pyndeval.ScoredDoc(query, chunk, score)
        for query, ranking in run.rankings.items()
        for chunk, score in ranking
    ]
    return timed(lambda: pyndeval.RelevanceEvaluator(judgments, ["alpha-nDCG@10"]).evaluate(found))[
        0
    ]


def main() -> None:
    if "--tiny" in sys.argv:
        against_the_official_one(20)
        return
    if len(sys.argv) > 1:
        one_size(sys.argv[1], int(sys.argv[2]))
        return
    against_the_official_one(QUERIES)
    imports()
    growth()


if __name__ == "__main__":
    main()
