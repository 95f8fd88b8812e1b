"""How often the decision between two runs is wrong, and how well it forecasts questions and labels.

Simulated differences of two runs by question, of seven shapes, with a true difference of 0, of
just what matters (.02), and of three times that. A decision is wrong where it ships a run that is not
better by more than what matters, or finds no difference that matters where there is one; where the
true difference is just what matters, either is wrong, each at most 2.5 % of the time.
"""

from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from timing import TINY, report

from freshstack_dspy import HumanLabel, Judgment
from freshstack_dspy.calibration.agreement import compare
from freshstack_dspy.calibration.sampling import allocated
from freshstack_dspy.measures.decision import decide, questions_needed
from freshstack_dspy.measures.kappa import KAPPA_HALF_WIDTH
from freshstack_dspy.records import Scale
from freshstack_dspy.stored.contents import Contents
from freshstack_dspy.stored.manifest import labels_that_calibrate

MATTERS = 0.02
MOST_WRONG = 0.064
"""5 %, and two standard errors of a share of 1,000 draws."""
DRAWS, PILOT = (20, 20) if TINY else (1_000, 60)
QUESTIONS = (20,) if TINY else (20, 60, 200, 300)
Shape = Callable[[np.random.Generator, Any, float], Any]
SHAPES: dict[str, Shape] = {
    "normal": lambda draws, size, true: draws.normal(true, 0.2, size),
    "mostly ties": lambda draws, size, true: (
        (draws.random(size) < 0.4) * (draws.normal(true / 0.4, 0.25, size))
    ),
    "a few large gains": lambda draws, size, true: draws.exponential(0.2, size) - 0.2 + true,
    "a few large losses": lambda draws, size, true: 0.2 - draws.exponential(0.2, size) + true,
    "rare gains": lambda draws, size, true: (draws.random(size) < 0.05) * true / 0.05,
    "gains of 8 %": lambda draws, size, true: (draws.random(size) < 0.08) * true / 0.08,
    "nDCG near 0 and 1": lambda draws, size, true: (
        (ends := draws.beta(0.6, 0.6, size)) - (ends + draws.normal(0, 0.2, size)).clip(0, 1) + true
    ),
}


def outcomes(values: Any) -> list[Any]:
    """The decision of each row of differences."""
    return [decide("nDCG@10", ("new", "old"), row.tolist(), matters=MATTERS) for row in values]


def is_wrong(decision: Any, true: float) -> bool:
    """Whether a decision is not what the true difference allows."""
    if decision.outcome == "ship":
        return decision.ship == "old" or true <= MATTERS
    return bool(decision.outcome == "no difference that matters" and true >= MATTERS)


def decided(draws: np.random.Generator, shape: Shape, true: float, questions: int) -> float:
    """How often so many questions decide it."""
    values = shape(draws, (DRAWS, questions), true)
    return sum(each.outcome != "cannot tell yet" for each in outcomes(values)) / DRAWS


def calibrated(draws: np.random.Generator, labels: int, min_kappa: float) -> bool:
    """Whether so many labels calibrate a collection whose judge errs like one on TREC RAG 2024."""
    pairs = [(f"q{n % 100}", f"q{n % 100}_0", f"c{n}") for n in range(6_000)]
    people = draws.random(len(pairs)) < 0.25
    judge = draws.random(len(pairs)) < np.where(people, 0.79, 0.09)
    sizes = {"label 0": int((~judge).sum()), "label 1": int(judge.sum())}
    given = []
    for stratum, drawn in allocated(sizes, labels).items():
        places = draws.choice(np.flatnonzero(judge == (stratum == "label 1")), drawn, replace=False)
        for place in places:
            ids = dict(zip(("query_id", "nugget_id", "chunk_id"), pairs[place], strict=True))
            share = {"stratum": stratum, "probability": drawn / sizes[stratum]}
            given.append(HumanLabel(**ids, **share, label=int(people[place]), annotator="ada"))
    judgments = tuple(
        Judgment(
            query_id=query,
            nugget_id=nugget,
            chunk_id=chunk,
            label=int(label),
            status="ok",
            reason="",
            call_id=None,
        )
        for (query, nugget, chunk), label in zip(pairs, judge, strict=True)
    )
    contents = Contents(queries=(), nuggets=(), judgments=judgments, slices=())
    kappa = compare(contents, Scale(), "simulated", given).metrics["kappa"].judge
    return kappa is not None and kappa.low is not None and kappa.low >= min_kappa


def main() -> None:
    """Print a line for each case."""
    draws = np.random.default_rng(0)
    for min_kappa in (0.5, 0.55, 0.6):  # the judge's kappa is .68
        labels = labels_that_calibrate(0.68 - min_kappa, KAPPA_HALF_WIDTH)
        share = sum(calibrated(draws, labels, min_kappa) for _ in range(DRAWS // 5)) / (DRAWS // 5)
        report(f"calibrated at {min_kappa:g} by {labels} labels", share, least=0.75)
    for name, shape in SHAPES.items():
        for true in (0.0, MATTERS, 3 * MATTERS):
            wrong = {}
            for questions in QUESTIONS:
                values = shape(draws, (DRAWS, questions), true)
                wrong[questions] = sum(is_wrong(each, true) for each in outcomes(values)) / DRAWS
            sides = {f"of {questions} questions": share for questions, share in wrong.items()}
            report(f"wrong, {name}, true {true:g}", max(wrong.values()), most=MOST_WRONG, **sides)
        if name in ("rare gains", "gains of 8 %"):  # without any there is no spread to forecast by
            continue
        spread = float(shape(draws, 10**6, 0.0).std())
        needed = questions_needed(spread, MATTERS)
        assert needed is not None
        pilots = shape(draws, (DRAWS, PILOT), 0.0)
        forecasts = [questions_needed(float(row.std(ddof=1)), MATTERS) or 0 for row in pilots]
        ratios = [forecast / needed for forecast in forecasts]
        within = sum(1 / 1.3 <= ratio <= 1.3 for ratio in ratios) / DRAWS
        report(
            f"forecast over need, {name}", median(ratios), least=1 / 1.3, most=1.3, within=within
        )
        questions = PILOT if TINY else needed
        report(
            f"decided by the questions that are needed, {name}",
            decided(draws, shape, 0.0, questions),
            least=0.75,
            at_twice_what_matters=decided(draws, shape, 2 * MATTERS, questions),
        )


if __name__ == "__main__":
    main()
