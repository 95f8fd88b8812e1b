"""Coverage of the intervals of corrected values, where the truth is known.

    python benchmarks/correction.py [--tiny] [rates | whole | agreement | measures | first-order | trec]…

Simulated: 3,000 queries of 2 to 6 nuggets and 24 pooled chunks. A judge labels with the confusion
that the default wording had on TREC RAG 2024 (sensitivity .79, specificity .91), and better ones
with .90 and .97, and with .97 and .99; errors go together within a query, a nugget and a chunk. Each draw takes 157 of the
queries as a collection and labels a sample of it. `these`: how often the interval holds what all
labels of people give for the collection; `like these`: for all 3,000 queries.
`whole`: shares of all pairs from queries that are labelled in full, whose pools are of one size, or
of 4 to 300 chunks. `agreement`: kappa of single pairs and of whole queries, also of judges that agree
with people on nearly all.
`first-order`: a measure corrected from labels of single pairs, by the sum of the changes that each
makes alone; it is not in the package.
`trec`: nuggets assigned to answers, and sentences against cited passages, of TREC RAG 2024 in
`../shared/data`, judged by `extractive/baseline`; the truth is all labels of people.

Prints one JSON line for each row.
"""

import json
import sys
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
from baseline import ASSIGNMENTS, THRESHOLD, assignments, citations

from freshstack_dspy.calibration.sampling import allocated
from freshstack_dspy.lm.baseline.support import support
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.kappa import (
    FEW_DISAGREEMENTS,
    disagreement_bound,
    kappa,
    least_kappa,
)
from freshstack_dspy.measures.ppi import (
    Corrected,
    corrected_mean,
    corrected_share,
    rogan_gladen,
)
from freshstack_dspy.measures.qrels import NuggetQrels
from freshstack_dspy.measures.run import Run
from freshstack_dspy.measures.statistics import bootstrap

TINY = "--tiny" in sys.argv
QUERIES, DRAWS = (200, 20) if TINY else (3000, 1000)
COLLECTION, CHUNKS = 157, 24
JUDGES = {"TREC's": (0.79, 0.91), "a better": (0.90, 0.97), "the best": (0.97, 0.99)}
NEARLY_PERFECT = {"99.5 %": (0.995, 0.995), "99.9 %": (0.999, 0.999)}
MEASURES = ("alpha_nDCG@10", "Recall@10", "P@10", "Coverage@10", "nDCG@10", "RR@10")
rng = np.random.default_rng(0)


def logistic(share: float, effect: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-np.log(share / (1 - share)) - effect)))


def simulated(
    sensitivity: float, specificity: float, *, unequal: bool = False
) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each query the labels of people (0, 1) and of the judge (0, 1, 2), nuggets x chunks."""
    found = []
    for _ in range(QUERIES):
        nuggets = int(rng.integers(2, 7))
        chunks = int(np.clip(rng.lognormal(3, 0.8), 4, 300)) if unequal else CHUNKS
        shape = (nuggets, chunks)
        likely = rng.beta(1.0, 3.0, (nuggets, 1)) * np.linspace(1.6, 0.2, chunks)
        people = rng.random(shape) < np.clip(likely, 0, 1)
        hard = 0.5 * (rng.normal() + rng.normal(size=(nuggets, 1)) + rng.normal(size=(1, chunks)))
        right = logistic(sensitivity, hard), logistic(1 - specificity, hard)
        positive = rng.random(shape) < np.where(people, *right)
        full = rng.random(shape) < np.where(people, 0.75, 0.35)
        found.append((people.astype(int), positive * (1 + full)))
    return found


def row(part: str, **values: Any) -> None:
    rounded = {name: round(v, 4) if isinstance(v, float) else v for name, v in values.items()}
    print(json.dumps({"part": part, **rounded}), flush=True)


def coverage(found: Sequence[tuple[Corrected, float, float]]) -> dict[str, float]:
    """The shares of intervals that hold the truth, and what the estimates are like."""
    given = [(one, here, wide) for one, here, wide in found if one.low is not None]
    if not given:
        return {"offered": 0.0}
    values = {
        "offered": len(given) / len(found),
        "these": np.mean([one.low <= here <= one.high for one, here, _ in given]),
        "half": np.mean([(one.high - one.low) / 2 for one, *_ in given]),
        "error": np.sqrt(np.mean([(one.value - here) ** 2 for one, here, _ in given])),
        "judge_error": np.sqrt(np.mean([(one.judge - here) ** 2 for one, here, _ in given])),
    }
    wides = [one for one in given if one[0].wide_low is not None]
    if wides:
        held = [one.wide_low <= wide <= one.wide_high for one, _, wide in wides]
        values["like_these"] = np.mean(held)
    return {name: float(value) for name, value in values.items()}


def masked(values: np.ndarray, labelled: np.ndarray) -> list[float | None]:
    known = np.zeros(len(values), bool)
    known[labelled] = True
    return [value if of else None for value, of in zip(values.tolist(), known, strict=True)]


def drawn(strata: np.ndarray, limit: int) -> np.ndarray:
    """Draw pairs as `freshstack sample` does."""
    places = {int(name): np.flatnonzero(strata == name) for name in np.unique(strata)}
    sizes = allocated({str(name): len(of) for name, of in places.items()}, limit)
    return np.concatenate(
        [rng.choice(of, sizes[str(name)], replace=False) for name, of in places.items()]
    )


def rates() -> None:
    for judge, errors in JUDGES.items():
        queries = simulated(*errors)
        for limit in (100, 200, 400):
            found: dict[str, list[tuple[Corrected, float, float]]] = {}
            for _ in range(DRAWS):
                chosen = rng.choice(QUERIES, COLLECTION, replace=False)
                people = np.concatenate([queries[q][0].ravel() for q in chosen])
                labels = np.concatenate([queries[q][1].ravel() for q in chosen])
                query = np.repeat(chosen, [queries[q][0].size for q in chosen])
                known = masked(people, drawn(labels, limit))
                for name, of in (
                    ("all", labels >= 0),
                    ("label 2", labels == 2),
                    ("0", labels == 0),
                ):
                    f = (labels > 0).astype(int)[of]
                    some = [one for one, is_of in zip(known, of, strict=True) if is_of]
                    one = corrected_mean(f, some, strata=labels[of], queries=query[of])
                    truth = float(people[of].mean())
                    found.setdefault(name, []).append((one, truth, shares(queries)[name]))
                    if name == "all":
                        one = rogan_gladen(f, some, strata=labels[of])
                        found.setdefault("Rogan–Gladen", []).append((one, truth, truth))
            for name, of in found.items():
                row("rates", judge=judge, labels=limit, rate=name, **coverage(of))


def whole() -> None:
    for judge, errors in JUDGES.items():
        for unequal in (False, True):
            queries = simulated(*errors, unequal=unequal)
            sums = np.array([(y.sum(), (f > 0).sum(), y.size) for y, f in queries], float)
            everywhere = float(sums[:, 0].sum() / sums[:, 2].sum())
            for number in (12, 20, 40, 60):
                found = []
                for _ in range(DRAWS):
                    y, f, m = sums[rng.choice(QUERIES, COLLECTION, replace=False)].T
                    known = masked(y, rng.choice(COLLECTION, number, replace=False))
                    one = corrected_share(f.tolist(), known, m.tolist())
                    found.append((one, float(y.sum() / m.sum()), everywhere))
                row(
                    "whole",
                    judge=judge,
                    pools="4 to 300" if unequal else "equal",
                    queries=number,
                    **coverage(found),
                )


def agreement() -> None:
    """Kappa, as `agree` takes it: weighted, over queries, exact where all labels agree."""
    for judge, errors in (JUDGES | NEARLY_PERFECT).items():
        queries = simulated(*errors)
        for limit in (100, 200, 400, "20 queries", "60 queries"):
            held, above, halves, exact = [], [], [], []
            for _ in range(DRAWS // 4):
                chosen = rng.choice(QUERIES, COLLECTION, replace=False)
                y = np.concatenate([queries[q][0].ravel() for q in chosen])
                labels = np.concatenate([queries[q][1].ravel() for q in chosen])
                f = (labels > 0).astype(int)
                query = np.repeat(chosen, [queries[q][0].size for q in chosen])
                if isinstance(limit, int):
                    at = drawn(labels, limit)
                    labelled = np.bincount(labels[at], minlength=3)
                    weight = (np.bincount(labels, minlength=3) / np.maximum(labelled, 1))[labels]
                else:
                    at = np.flatnonzero(np.isin(query, chosen[: int(limit.split()[0])]))
                    weight = np.ones(len(labels))
                truth = np.zeros((2, 2))
                np.add.at(truth, (f, y), 1)
                tables: dict[int, np.ndarray] = {}
                for pair in at:
                    table = tables.setdefault(int(query[pair]), np.zeros((2, 2)))
                    table[f[pair], y[pair]] += weight[pair]
                stacked = np.stack([*tables.values()])
                differs = f[at] != y[at]
                exact.append(not differs.any())
                low = high = None
                if not exact[-1]:
                    one = bootstrap(stacked, lambda of: {"kappa": kappa(of)})["kappa"]
                    low, high = one.low, one.high
                singly = isinstance(limit, int)
                if exact[-1] or (singly and low is not None and differs.sum() < FEW_DISAGREEMENTS):
                    units = weight[at].tolist() if singly else stacked.sum((1, 2)).tolist()
                    given = weight[at][differs].tolist()
                    share = float(weight[at] @ f[at] / weight[at].sum())
                    part = None if exact[-1] else float(weight[at] @ (differs * f[at]) / sum(given))
                    bound = least_kappa(share, disagreement_bound(units, given), part)
                    low, high = (bound, 1.0) if exact[-1] else (min(low, bound), high)
                held.append(low is not None and low <= float(kappa(truth)) <= high)
                above.append(low is not None and float(kappa(truth)) < low)
                halves.append(np.nan if low is None else (high - low) / 2)
            row(
                "agreement",
                judge=judge,
                labels=limit,
                these=float(np.mean(held)),
                below_the_lower_end=float(np.mean(above)),
                half=float(np.nanmean(halves)),
                all_agree=float(np.mean(exact)),
                held_where_all_agree=float(np.mean(np.array(held)[exact])) if any(exact) else None,
            )


def shares(queries: list[tuple[np.ndarray, np.ndarray]]) -> dict[str, float]:
    """The rates of all queries; computed once."""
    key = id(queries)
    if key not in _SHARES:
        people = np.concatenate([one.ravel() for one, _ in queries])
        labels = np.concatenate([one.ravel() for _, one in queries])
        parts = {"all": labels >= 0, "label 2": labels == 2, "0": labels == 0}
        _SHARES[key] = {name: float(people[of].mean()) for name, of in parts.items()}
    return _SHARES[key]


_SHARES: dict[int, dict[str, float]] = {}


def qrels_of(labels: dict[str, np.ndarray]) -> NuggetQrels:
    """Queries with a supported nugget, on their supported nuggets, as `Collection.qrels`."""
    nuggets: dict[str, tuple[str, ...]] = {}
    found: dict[str, dict[str, int]] = {}
    for query, of in labels.items():
        supported = [place for place, values in enumerate(of) if values.any()]
        if supported:
            nuggets[query] = tuple(f"{query}_{place}" for place in supported)
            for place in supported:
                found[f"{query}_{place}"] = {
                    f"c{number:02}": int(label > 0) for number, label in enumerate(of[place])
                }
    return NuggetQrels(nuggets, found)


def run_of(queries: int, noise: float) -> Run:
    scores = {
        str(query): {
            f"c{place:02}": float(CHUNKS - place + rng.normal(0, noise)) for place in range(CHUNKS)
        }
        for query in range(queries)
    }
    return Run.from_scores(scores)


def values(labels: dict[str, np.ndarray], run: Any) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """By measure, the value of each query, and whether it counts."""
    evaluation = evaluate(qrels_of(labels), run, MEASURES)
    found = {}
    for measure in MEASURES:
        of = evaluation.values(measure)
        found[measure] = (
            np.array([of.get(query, 0.0) for query in labels]),
            np.array([float(query in of) for query in labels]),
        )
    return found


def measures() -> None:
    for judge, errors in JUDGES.items():
        queries = simulated(*errors)
        runs = run_of(QUERIES, 4), run_of(QUERIES, 8)
        sides = [{str(q): of[side] for q, of in enumerate(queries)} for side in (0, 1)]
        people, judged = ([values(side, run) for run in runs] for side in sides)
        for measure in MEASURES:
            for what in ("mean", "difference"):
                (y, z), (f, g) = (
                    (
                        of[0][measure][0] - (of[1][measure][0] if what == "difference" else 0),
                        of[0][measure][1],
                    )
                    for of in (people, judged)
                )
                for number in (12, 20, 40, 60, 100):
                    found = []
                    for _ in range(DRAWS):
                        at = rng.choice(QUERIES, COLLECTION, replace=False)
                        known = masked(y[at], rng.choice(COLLECTION, number, replace=False))
                        one = corrected_mean(f[at], known, judge_counts=g[at], people_counts=z[at])
                        truth = float(y[at].sum() / z[at].sum())
                        found.append((one, truth, float(y.sum() / z.sum())))
                    row(
                        "measures",
                        judge=judge,
                        measure=measure,
                        of=what,
                        queries=number,
                        **coverage(found),
                    )


def first_order() -> None:
    for judge, errors in JUDGES.items():
        queries = simulated(*errors)[:COLLECTION]
        runs = run_of(COLLECTION, 4)
        people, judged = ({str(q): of[side] for q, of in enumerate(queries)} for side in (0, 1))
        truth, before = values(people, runs), values(judged, runs)
        pairs = [
            (q, place) for q, (one, _) in enumerate(queries) for place in np.ndindex(one.shape)
        ]
        strata = np.concatenate([of.ravel() for _, of in queries])
        alone: dict[str, np.ndarray] = {m: np.zeros((len(pairs), 2)) for m in MEASURES}
        changed = [
            (n, q, place)
            for n, (q, place) in enumerate(pairs)
            if (queries[q][1][place] > 0) != queries[q][0][place]
        ]
        for start in range(0, len(changed), 500):  # many copies of queries in one evaluation
            some = changed[start : start + 500]
            copies = {}
            for n, q, place in some:
                labels = queries[q][1].copy()
                labels[place] = queries[q][0][place]
                copies[str(n)] = labels
            ranks = {str(n): dict(runs.rankings[str(q)]) for n, q, _ in some}
            after = values(copies, ranks)
            for measure in MEASURES:
                for place, (n, q, _) in enumerate(some):
                    for side in (0, 1):
                        alone[measure][n, side] = (
                            after[measure][side][place] - before[measure][side][q]
                        )
        for measure in MEASURES:
            (y, z), (f, g) = truth[measure], before[measure]
            real, by_judge = float(y.sum() / z.sum()), float(f.sum() / g.sum())
            total = np.array([f.sum(), g.sum()]) + alone[measure].sum(0)
            for limit in (100, 200, 400):
                found = []
                for _ in range(DRAWS):
                    at = drawn(strata, limit)
                    scale = len(pairs)
                    one = corrected_mean(
                        np.full(scale, f.sum() / scale),
                        masked(f.sum() / scale + alone[measure][:, 0], at),
                        judge_counts=np.full(scale, g.sum() / scale),
                        people_counts=g.sum() / scale + alone[measure][:, 1],
                        strata=strata,
                        power=1,
                    )
                    found.append((one.model_copy(update={"judge": by_judge}), real, real))
                row(
                    "first-order",
                    judge=judge,
                    measure=measure,
                    labels=limit,
                    bias=float(total[0] / total[1] - real),
                    **coverage(found),
                )


def trec() -> None:
    if not ASSIGNMENTS.exists():
        row("trec", skipped=f"{ASSIGNMENTS} is absent")
        return
    for name, calls in (("nugget assignment", assignments()), ("citation support", citations())):
        texts = list(islice(calls, 300 if TINY else None))
        people = [np.array(call.grades) >= 1 for call in texts]
        judged = [
            np.array(support(call.question, call.nuggets, [call.chunk])[0].scores) >= THRESHOLD
            for call in texts
        ]
        y, f = (np.concatenate(of).astype(int) for of in (people, judged))
        topics = np.repeat([call.topic for call in texts], [len(call.grades) for call in texts])
        for limit in (100, 200):
            found: dict[str, list[tuple[Corrected, float, float]]] = {}
            for _ in range(DRAWS):
                truth = float(y.mean())
                known = masked(y, drawn(f, limit))
                at_random = masked(y, rng.choice(len(y), limit, replace=False))
                for what, one in (
                    ("corrected", corrected_mean(f, known, strata=f, queries=topics)),
                    ("Rogan–Gladen", rogan_gladen(f, known, strata=f)),
                    ("labels alone", corrected_mean(np.zeros(len(y)), at_random, power=0)),
                ):
                    found.setdefault(what, []).append((one, truth, truth))
            for what, of in found.items():
                scores = coverage(of) | {"judge_error": abs(float(f.mean() - y.mean()))}
                scores.pop("like_these", None)
                row("trec", labels_of=name, labels=limit, estimate=what, truth=truth, **scores)
        if name == "nugget assignment":
            trec_answers(people, judged)


def trec_answers(people: list[np.ndarray], judged: list[np.ndarray]) -> None:
    """The share of the nuggets that an answer supports, from answers that are labelled in full."""
    y, f = (np.array([of.mean() for of in each]) for each in (people, judged))
    for number in (12, 20, 40, 100):
        found: dict[str, list[tuple[Corrected, float, float]]] = {"corrected": [], "alone": []}
        for _ in range(DRAWS):
            known = masked(y, rng.choice(len(y), number, replace=False))
            for what, power in (("corrected", None), ("alone", 0.0)):
                one = corrected_mean(f, known, power=power).model_copy(
                    update={"judge": float(f.mean()), "wide_low": None}
                )
                found[what].append((one, float(y.mean()), 0.0))
        for what, of in found.items():
            row("trec", answers=number, estimate=what, truth=float(y.mean()), **coverage(of))


if __name__ == "__main__":
    parts = {
        "rates": rates,
        "whole": whole,
        "agreement": agreement,
        "measures": measures,
        "first-order": first_order,
        "trec": trec,
    }
    for name in [each for each in sys.argv[1:] if each in parts] or list(parts):
        parts[name]()
