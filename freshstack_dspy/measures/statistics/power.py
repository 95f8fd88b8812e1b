"""How small a difference a number of queries can show, and how many queries one needs."""

import math
from bisect import bisect_left
from statistics import NormalDist

POWER = 0.8
"""The usual chance of finding a difference that is there (Cohen 1988)."""
FEWEST = 10
"""Below so many queries the spread that is known of them means little."""
_MANY = 10**6
"""Above so many queries the formula of Guenther (Sample Size Formulas for Normal Theory T Tests,
The American Statistician 1981), with normal quantiles, gives the same number."""


def detectable_difference(
    deviation: float, queries: int, *, alpha: float = 0.05, power: float = POWER
) -> float | None:
    """Give the smallest true difference of means that a paired t test would mostly find.

    With the differences' standard deviation s and n queries it is s d / sqrt(n), where d is the
    noncentrality at which Student's t, noncentral and of n - 1 degrees of freedom, is above the
    critical value of the test with that power. It depends on the spread only, not on the
    difference observed. Exact for normal differences; the permutation test's power is much the
    same, where it can find anything at all: not with n queries where 2^(1 - n) is above alpha.

    Source: Cohen, Statistical Power Analysis, 1988, section 2.3; for retrieval, Webber, Moffat
    and Zobel, Statistical Power in Retrieval Experimentation, CIKM 2008, and Sakai, Topic Set
    Size Design, 2016.

    Args:
        deviation: Standard deviation of the differences by query.
        queries: How many there are.
        alpha: The level that p-values are held against.
        power: The chance of finding it.

    Returns:
        The difference; None below 10 queries.

    Raises:
        ValueError: alpha or power is not between 0 and 1.
    """
    _check(alpha, power)
    if queries < FEWEST:
        return None
    return deviation * _noncentrality(queries, alpha, power) / math.sqrt(queries)


def queries_needed(
    deviation: float, difference: float, *, alpha: float = 0.05, power: float = POWER
) -> int | None:
    """Give the number of queries with which a true difference would mostly be found.

    `detectable_difference` solved for the queries. It is at least 10, and so many that the
    permutation test, whose p of n queries is at least 2^(1 - n), can come to alpha. For planning:
    an observed difference is no estimate of the true one good enough to say afterwards what the
    power of a test was (Hoenig and Heisey, The Abuse of Power, 2001).

    Args:
        deviation: Standard deviation of the differences by query.
        difference: The true difference of means.
        alpha: As for `detectable_difference`.
        power: As for `detectable_difference`.

    Returns:
        The number; None where the difference is 0 or too small to count.

    Raises:
        ValueError: As for `detectable_difference`.
    """
    _check(alpha, power)
    if difference == 0:
        return None
    effect = abs(difference) / deviation if deviation else math.inf
    normal = NormalDist()
    of_normal = normal.inv_cdf(1 - alpha / 2) + normal.inv_cdf(power)
    many = (of_normal / effect) ** 2 if effect > 1e-150 else math.inf
    many += normal.inv_cdf(1 - alpha / 2) ** 2 / 2
    if not math.isfinite(many):
        return None
    low = max(FEWEST, fewest_for_permutations(alpha))
    if many > _MANY:
        return max(low, math.ceil(many))

    def would_do(queries: int) -> bool:
        # But for rounding, so that this is the inverse of `detectable_difference`.
        needed = _noncentrality(queries, alpha, power) * (1 - 1e-9)
        return effect * math.sqrt(queries) >= needed

    high = max(low, math.ceil(many))
    while not would_do(high):
        low, high = high + 1, 2 * high
    return bisect_left(range(high), True, low, key=would_do)


def fewest_for_permutations(alpha: float) -> int:
    """Give the least n with 2^(1 - n) <= alpha: of fewer queries no permutation test finds any."""
    fewest = max(1, math.ceil(1 - math.log2(alpha)))
    # The logarithm may be off by a last bit where alpha is a power of two.
    while fewest > 1 and math.ldexp(1.0, 2 - fewest) <= alpha:
        fewest -= 1
    while math.ldexp(1.0, 1 - fewest) > alpha:
        fewest += 1
    return fewest


def _noncentrality(queries: int, alpha: float, power: float) -> float:
    """Give the mean of t at which a two-sided test has this power, the wrong side not counted."""
    from scipy.special import nctdtrinc, stdtrit

    freedom = queries - 1
    critical = -float(stdtrit(freedom, alpha / 2))
    return float(nctdtrinc(freedom, 1 - power, critical))


def _check(alpha: float, power: float) -> None:
    for name, value in (("alpha", alpha), ("power", power)):
        if not 0 < value < 1:
            raise ValueError(f"{name} is between 0 and 1, not {value!r}")
