"""Agreement of two raters on graded labels: weighted kappa, and kappa of labels made two."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from freshstack_dspy.measures.agreement.nominal import LabelPair, cohen_kappa
from freshstack_dspy.measures.estimate import Estimate

Weights = Literal["linear", "quadratic"]
"""How much worse a larger difference is: by its size, or by the square of it."""


def weighted_kappa(pairs: Sequence[LabelPair], weights: Weights) -> Estimate:
    """Compute Cohen's weighted kappa, for which 3 against 2 is a smaller error than 3 against 0.

        kappa = 1 - n * sum of d(a, b) over all pairs
                    / sum over labels i, j of d(i, j) * judge(i) * person(j)

    where `n` is the number of pairs, `judge(i)` and `person(j)` how often each gave the label, and
    `d(a, b)` is |a - b| (linear) or (a - b)² (quadratic). The distance is of the labels
    themselves: a grade between two others counts although nobody gave it. (scikit-learn takes the
    places among the labels that occur, unless it is told all of them.)

    Source: Cohen, Weighted Kappa, 1968, formula 4.

    Args:
        pairs: The two labels of each item; the measure is symmetric.
        weights: How a difference counts.

    Returns:
        Kappa, at most 1. Undefined where `cohen_kappa` is.

    Raises:
        ValueError: The weights are neither linear nor quadratic.
    """
    if weights not in ("linear", "quadratic"):
        raise ValueError(f"weights are 'linear' or 'quadratic', not {weights!r}")
    if (plain := cohen_kappa(pairs)).value is None:
        return plain
    power = 1 if weights == "linear" else 2
    by_judge = Counter(judge for judge, _ in pairs)
    by_person = Counter(person for _, person in pairs)
    # Whole numbers until the last division, so that chance agreement is exactly 0.
    found = sum(abs(judge - person) ** power for judge, person in pairs) * len(pairs)
    chance = sum(
        abs(one - other) ** power * count * times
        for one, count in by_judge.items()
        for other, times in by_person.items()
    )
    return Estimate(value=(chance - found) / chance)


def binarised(pairs: Sequence[LabelPair], threshold: int) -> list[LabelPair]:
    """Make labels two: 1 from the threshold on, 0 below it."""
    return [(int(judge >= threshold), int(person >= threshold)) for judge, person in pairs]


def binarised_kappa(pairs: Sequence[LabelPair], threshold: int) -> Estimate:
    """Compute Cohen's kappa of labels made two: 1 from the threshold on, 0 below it.

    UMBRELA reports it beside the plain one, binarised at "> 1", which is `threshold=2` (Upadhyay et
    al., UMBRELA, 2024, section 4).

    Args:
        pairs: The two labels of each item. An item without one of them is no 0: leave it out.
        threshold: The lowest label that is read as 1.
    """
    return cohen_kappa(binarised(pairs, threshold))
