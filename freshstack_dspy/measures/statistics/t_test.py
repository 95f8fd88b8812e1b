"""Student's paired t test."""

import math
import sys
from collections.abc import Sequence
from statistics import fmean

from freshstack_dspy.measures.statistics.means import in_order
from freshstack_dspy.measures.statistics.significance import Significance

_ROUNDING = 1e-12


def t_test(differences: Sequence[float]) -> Significance:
    """Test whether two runs differ, by Student's t test of their differences by query.

    t is the mean difference over its standard error, with one degree of freedom fewer than
    queries; two-sided. It takes the mean of the differences to be normally distributed.

    Source: Student, The Probable Error of a Mean, Biometrika 1908; for retrieval, Smucker, Allan
    and Carterette, CIKM 2007.

    Args:
        differences: One for each query.

    Returns:
        What was found; without a p-value, and with the reason, where there are fewer than two or
        all are the same, for t is then 0/0 or infinite.

    Raises:
        ValueError: A difference is not a finite number.
    """
    given = in_order(differences)
    if len(given) < 2:
        return _untested(f"a paired test needs two queries, not {len(given)}")
    mean, spread = fmean(given), deviation(given)
    if spread == 0:
        what = f"the same, {mean:.4g}" if mean else "0"
        return _untested(f"all {len(given)} differences are {what}: t is undefined")
    from scipy.special import stdtr

    t = mean / (spread / math.sqrt(len(given)))
    p_value = 2 * float(stdtr(len(given) - 1, -abs(t)))
    return Significance(
        test="t",
        by="distribution",
        statistic=t,
        p_value=min(1.0, max(p_value, sys.float_info.min)),
        standard_error=0.0,
    )


def deviation(values: Sequence[float]) -> float:
    """Give the standard deviation of a sample (n - 1); 0 where values differ only by rounding.

    Args:
        values: At least two.
    """
    largest = max(map(abs, values))
    if largest == 0:
        return 0.0
    scaled = [value / largest for value in values]
    mean = fmean(scaled)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in scaled) / (len(values) - 1))
    return spread * largest if spread > _ROUNDING else 0.0


def _untested(reason: str) -> Significance:
    return Significance(test="t", by="distribution", reason=reason)
