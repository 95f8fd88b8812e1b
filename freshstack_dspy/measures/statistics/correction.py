"""Corrections of p-values for several comparisons."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Literal, assert_never

CorrectionName = Literal["holm", "bonferroni", "bh", "none"]


def adjust(p_values: Sequence[float], correction: CorrectionName = "holm") -> list[float]:
    """Adjust the p-values of a family of tests, so that each is held against the one level.

    With m tests and the p-values ascending, p(1) to p(m):

    - `holm`: max over j <= i of min(1, (m - j + 1) p(j)). The chance of any false finding stays
      at the level, whatever the tests have to do with each other.
    - `bonferroni`: min(1, m p). The same, and never finds more than Holm.
    - `bh`: min over j >= i of min(1, m p(j) / j). The share of false findings among all findings
      stays at the level on average, where tests are independent or positively dependent.
    - `none`: p.

    Source: Holm, A Simple Sequentially Rejective Multiple Test Procedure, 1979; Benjamini and
    Hochberg, Controlling the False Discovery Rate, 1995; as adjusted p-values, Wright, Adjusted
    P-values for Simultaneous Inference, 1992.

    Args:
        p_values: Of all tests of the family, between 0 and 1.
        correction: Its name.

    Returns:
        The adjusted p-values, in the order given.

    Raises:
        ValueError: A p-value is not between 0 and 1, or there is no such correction.
    """
    for p in p_values:
        if not 0 <= p <= 1:
            raise ValueError(f"a p-value is between 0 and 1, not {p!r}")
    tests = len(p_values)
    order = sorted(range(tests), key=p_values.__getitem__)
    ascending = [p_values[place] for place in order]
    match correction:
        case "holm":
            steps = [(tests - rank) * p for rank, p in enumerate(ascending)]
            adjusted = list(accumulate(steps, max))
        case "bonferroni":
            adjusted = [tests * p for p in ascending]
        case "bh":
            steps = [p * (tests / rank) for rank, p in enumerate(ascending, start=1)]
            adjusted = list(accumulate(reversed(steps), min))[::-1]
        case "none":
            adjusted = ascending
        case _:
            assert_never(correction)
    found = dict(zip(order, adjusted, strict=True))
    return [min(1.0, found[place]) for place in range(tests)]


def strictest_level(level: float, tests: int, correction: CorrectionName) -> float:
    """Give the level that the smallest p-value of a family is held against.

    Holm, Bonferroni, and Benjamini and Hochberg all divide it by the number of tests. The other
    p-values are held against more by Holm once smaller ones were found, and by Benjamini and
    Hochberg; a test that must be found whatever the others show has to pass this one.

    Args:
        level: Of the family, as .05.
        tests: How many p-values there are.
        correction: Its name.
    """
    return level if correction == "none" else level / max(1, tests)
