"""How alike two orders of the same things are: Kendall's tau-b, Spearman's rho, tau-ap."""

import math
from collections.abc import Mapping
from itertools import pairwise
from statistics import fmean

from freshstack_dspy.measures.estimate import Estimate
from freshstack_dspy.measures.statistics.pairs import SAME


def kendall_tau(first: Mapping[str, float], second: Mapping[str, float]) -> Estimate:
    """Compute Kendall's tau-b of two orders, which allows for ties.

    (C - D) / sqrt((n0 - n1)(n0 - n2)): of all n0 pairs C stand the same way round in both orders
    and D the other way; n1 are tied in the first and n2 in the second. Values that differ only
    as rounding does (1e-12) are tied.

    Source: Kendall, The Treatment of Ties in Ranking Problems, Biometrika 1945.

    Args:
        first: The values of runs, or whatever is ordered, by name.
        second: Of the same.

    Returns:
        Between -1 and 1; none, with the reason, where there are fewer than two or all are tied.

    Raises:
        ValueError: They are not of the same things, or a value is not a finite number.
    """
    one, other = _levels_of(first, second)
    if reason := _undefined(one, other):
        return Estimate(reason=reason)
    import numpy as np

    x, y = np.asarray(one), np.asarray(other)
    agreeing = untied_one = untied_other = 0
    for place in range(len(x) - 1):
        over, under = np.sign(x[place + 1 :] - x[place]), np.sign(y[place + 1 :] - y[place])
        agreeing += int((over * under).sum())
        untied_one += int(np.count_nonzero(over))
        untied_other += int(np.count_nonzero(under))
    return Estimate(value=_within_one(agreeing / math.sqrt(untied_one * untied_other)))


def spearman_rho(first: Mapping[str, float], second: Mapping[str, float]) -> Estimate:
    """Compute Spearman's rank correlation: Pearson's r of the ranks, ties having their mean rank.

    Source: Spearman, The Proof and Measurement of Association between Two Things, 1904.

    Args:
        first: As for `kendall_tau`.
        second: As for `kendall_tau`.

    Returns:
        As for `kendall_tau`.

    Raises:
        ValueError: As for `kendall_tau`.
    """
    one, other = _levels_of(first, second)
    if reason := _undefined(one, other):
        return Estimate(reason=reason)
    middle = (len(one) + 1) / 2
    x = [rank - middle for rank in _mean_ranks(one)]
    y = [rank - middle for rank in _mean_ranks(other)]
    product = math.fsum(a * b for a, b in zip(x, y, strict=True))
    spread = math.sqrt(math.fsum(a * a for a in x) * math.fsum(b * b for b in y))
    return Estimate(value=_within_one(product / spread))


def tau_ap(actual: Mapping[str, float], estimated: Mapping[str, float]) -> Estimate:
    """Compute the AP rank correlation, to which the top of the estimated order matters most.

    2 / (N - 1) · sum over ranks i from 2 of C(i) / (i - 1), minus 1: C(i) is how many of those
    above rank i of the estimated order stand above it in the actual one too. Not symmetric.

    Source: Yilmaz, Aslam and Robertson, A New Rank Correlation Coefficient for Information
    Retrieval, SIGIR 2008, equation 3. It knows no ties.

    Args:
        actual: Values by name, the best the highest.
        estimated: Of the same.

    Returns:
        Between -1 and 1; none, with the reason, where there are fewer than two or two are tied.

    Raises:
        ValueError: As for `kendall_tau`.
    """
    one, other = _levels_of(actual, estimated)
    reason = _undefined(one, other)
    if reason is None and min(len(set(one)), len(set(other))) < len(one):
        reason = "two are tied, and tau-ap knows no ties"
    if reason is not None:
        return Estimate(reason=reason)
    down = [one[place] for place in sorted(range(len(other)), key=lambda n: -other[n])]
    shares = [
        sum(above > below for above in down[:rank]) / rank
        for rank, below in enumerate(down)
        if rank
    ]
    return Estimate(value=2 * fmean(shares) - 1)


def _levels_of(
    first: Mapping[str, float], second: Mapping[str, float]
) -> tuple[list[int], list[int]]:
    if strangers := sorted(first.keys() ^ second.keys()):
        raise ValueError(
            f"{strangers[0]!r} has a value in only one of the two ({len(strangers)} such); give "
            "those that have one in both"
        )
    names = sorted(first)
    return _levels([first[name] for name in names]), _levels([second[name] for name in names])


def _levels(values: list[float]) -> list[int]:
    """Number the values upwards, tied ones alike."""
    for value in values:
        if not math.isfinite(value):
            raise ValueError(f"a value is a finite number, not {value!r}")
    order = sorted(range(len(values)), key=values.__getitem__)
    levels = [0] * len(values)
    for lower, upper in pairwise(order):
        tied = math.isclose(values[lower], values[upper], rel_tol=SAME, abs_tol=0)
        levels[upper] = levels[lower] + (not tied)
    return levels


def _mean_ranks(levels: list[int]) -> list[float]:
    counts = [0] * (max(levels) + 1)
    for level in levels:
        counts[level] += 1
    ranks, below = [], 0
    for count in counts:
        ranks.append(below + (count + 1) / 2)
        below += count
    return [ranks[level] for level in levels]


def _undefined(one: list[int], other: list[int]) -> str | None:
    if len(one) < 2:
        return f"an order needs two, not {len(one)}"
    for which, levels in (("first", one), ("second", other)):
        if max(levels) == 0:
            return f"all {len(levels)} are tied in the {which}"
    return None


def _within_one(value: float) -> float:
    return max(-1.0, min(1.0, value))
