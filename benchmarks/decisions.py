"""How often the decision between two runs is wrong, and how well it forecasts questions.

Simulated differences of two runs by question, of five shapes, with a true difference of 0, of
just what matters (.02), and of three times that. A decision is wrong where it ships a run that is not
better by more than what matters, or finds no difference that matters where there is one.
"""

from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from timing import TINY, report

from freshstack_dspy.measures.decision import decide, questions_needed

MATTERS = 0.02
DRAWS, PILOT = (20, 20) if TINY else (1_000, 60)
QUESTIONS = (20,) if TINY else (20, 60, 200)
Shape = Callable[[np.random.Generator, Any, float], Any]
SHAPES: dict[str, Shape] = {
    "normal": lambda draws, size, true: draws.normal(true, 0.2, size),
    "mostly ties": lambda draws, size, true: (
        (draws.random(size) < 0.4) * (draws.normal(true / 0.4, 0.25, size))
    ),
    "a few large gains": lambda draws, size, true: draws.exponential(0.2, size) - 0.2 + true,
    "rare gains": lambda draws, size, true: (draws.random(size) < 0.05) * true / 0.05,
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


def main() -> None:
    """Print a line for each case."""
    draws = np.random.default_rng(0)
    for name, shape in SHAPES.items():
        for true in (0.0, MATTERS, 3 * MATTERS):
            wrong = {}
            for questions in QUESTIONS:
                values = shape(draws, (DRAWS, questions), true)
                wrong[questions] = sum(is_wrong(each, true) for each in outcomes(values)) / DRAWS
            sides = {f"of {questions} questions": share for questions, share in wrong.items()}
            report(f"wrong, {name}, true {true:g}", max(wrong.values()), most=0.05, **sides)
        if name == "rare gains":  # without any there is no spread to forecast by
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
