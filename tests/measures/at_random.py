"""Random collections with everything that evaluation programs have been seen to differ in.

Ties, near-ties that are ties in single precision, scores too large for it, duplicate judgments,
labels on a scale with negative ones, unjudged chunks, nuggets and queries without support or
without labels, empty rankings, absent and unknown queries, ids whose byte order is not natural.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from freshstack_dspy import NuggetQrels, Run
from freshstack_dspy.records import ScoredChunk

CHUNKS = [
    *("a", "b", "c", "d", "A", "B", "B10", "B9", "Z", "z", "_", "~", "é", "ß", "ア", "\uffee"),
    *("🙂", "a b", "a  b", "src/a.py_0_9", "src/a.py_10_19", "src/b.py_0_9", "ab", "abc"),
    *(f"doc{number}" for number in range(8, 24)),
]
NEAR = 1e-9
"""Apart in double precision, one number in single precision."""
SCALES = (
    (0.0, 0.5, 1.0),
    (1.0, 1.0 + NEAR, 1.0 - NEAR, 1.0 + 2 * NEAR),
    (-3.0, -3.0 - NEAR, 2, 16_777_216.0, 16_777_217.0),
    (1e39, 1e300, -1e39, -1e300, 1e-46, -1e-46, 0.0, -0.0),
)


@dataclass(frozen=True)
class Example:
    """A collection, a run of it as it was handed in, and cut-offs."""

    qrels: NuggetQrels
    judgments: tuple[tuple[str, str, str, int], ...]
    """(query, nugget, chunk, label); some stand there twice."""
    results: dict[str, dict[str, float]]
    cutoffs: tuple[int, ...]

    @property
    def run(self) -> Run:
        """The run, chunks listed in the order of `results`."""
        return Run(
            "run",
            {
                query: tuple(ScoredChunk(chunk, score) for chunk, score in found.items())
                for query, found in self.results.items()
            },
        )


def example(seed: int) -> Example:
    """Make the collection of this seed."""
    rng = random.Random(f"collection {seed}")
    nuggets: dict[str, tuple[str, ...]] = {}
    labels: dict[str, dict[str, int]] = {}
    results: dict[str, dict[str, float]] = {}
    top_label = rng.choice([1, 1, 4])
    for query in rng.sample(["1", "12", "123", "q_1", "q_10", "é"], rng.randint(1, 4)):
        pool = rng.sample(CHUNKS, rng.randint(1, 15))
        share = rng.choice([0.0, 0.15, 0.5])
        ids = tuple(f"{query}_{number}" for number in range(rng.randint(1, 4)))
        nuggets[query] = ids
        for nugget in ids:
            judged = rng.sample(pool, rng.randint(0, len(pool)))
            labels[nugget] = {chunk: _label(rng, share, top_label) for chunk in judged}
        if rng.random() < 0.9:
            results[query] = _scores(rng, pool)
    results["unknown"] = {"a": 1.0}
    if len(results) == 1:
        results[next(iter(nuggets))] = {"a": 1.0, "b": 1.0}
    queries = rng.sample(list(results), len(results))
    threshold = rng.choice([1, 2]) if top_label > 1 else 1
    return Example(
        NuggetQrels(nuggets, labels, threshold=threshold),
        _judgments(rng, nuggets, labels),
        {query: results[query] for query in queries},
        tuple(sorted(rng.sample([1, 2, 3, 5, 10, 20], rng.randint(1, 3)))),
    )


def _label(rng: random.Random, share: float, top_label: int) -> int:
    return rng.randint(1, top_label) if rng.random() < share else rng.choice([0, 0, -1, -2])


def _scores(rng: random.Random, pool: Sequence[str]) -> dict[str, float]:
    if rng.random() < 0.05:
        return {}
    found = sorted({*rng.sample(pool, rng.randint(1, len(pool))), *rng.sample(CHUNKS, 6)})
    rng.shuffle(found)
    if rng.random() < 0.2:
        return {chunk: rng.random() for chunk in found}
    scale = rng.choice(SCALES)
    return {chunk: rng.choice(scale) for chunk in found}


def _judgments(
    rng: random.Random, nuggets: dict[str, tuple[str, ...]], labels: dict[str, dict[str, int]]
) -> tuple[tuple[str, str, str, int], ...]:
    judgments = []
    for query, ids in nuggets.items():
        for nugget in ids:
            for chunk, label in labels[nugget].items():
                judgments.append((query, nugget, chunk, label))
                if rng.random() < 0.1:
                    judgments.append((query, nugget, chunk, label))
    return tuple(judgments)
