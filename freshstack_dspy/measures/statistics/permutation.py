"""The paired permutation test, also called randomisation or sign-flip test."""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from freshstack_dspy.measures.statistics.means import in_order
from freshstack_dspy.measures.statistics.significance import Significance

MOST_ENUMERATED = 20
"""Up to how many differences other than 0 all signs are looked at: half a million sums."""
_ROUNDING = 1e-10
_BLOCK = 1 << 22


def permutation_test(
    differences: Sequence[float], *, permutations: int = 100_000, seed: int = 0
) -> Significance:
    """Test whether two runs differ, by the paired permutation test of their mean difference.

    Were the runs alike, each query's difference could as well have the other sign. The p-value
    is the share of all ways to choose the signs that give a mean at least as far from 0, either
    way. Up to 20 differences other than 0, all ways are looked at and the p-value is exact;
    above, ways are sampled and it is (b + 1) / (m + 1), where b of m are as far: the ones
    observed count too, so it is never 0. Differences of 0 have no sign and change nothing.

    Source: Fisher, The Design of Experiments, 1935, section 21; Smucker, Allan and Carterette,
    A Comparison of Statistical Significance Tests for Information Retrieval Evaluation, CIKM
    2007; (b + 1) / (m + 1): Phipson and Smyth, Permutation P-values Should Never Be Zero, 2010.

    Args:
        differences: One for each query, in an order that is always the same.
        permutations: How many to sample, at least 1.
        seed: Of the random numbers.

    Returns:
        What was found; without a p-value, and with the reason, where there are fewer than two.

    Raises:
        ValueError: permutations is below 1, or a difference is not a finite number.
    """
    if permutations < 1:
        raise ValueError(f"permutations is at least 1, not {permutations!r}")
    given = in_order(differences)
    if len(given) < 2:
        reason = f"a paired test needs two queries, not {len(given)}"
        return Significance(test="permutation", by="enumeration", reason=reason)
    mean = fmean(given)
    largest = max(map(abs, given))
    scaled = [difference / largest for difference in given if difference]
    if len(scaled) <= MOST_ENUMERATED:
        ways = 1 << max(0, len(scaled) - 1)
        p_value = _as_far(_every_sum(scaled), scaled) / ways
        return Significance(
            test="permutation",
            by="enumeration",
            statistic=mean,
            p_value=p_value,
            standard_error=0.0,
            permutations=ways,
            smallest=1 / ways,
        )
    p_value = (_sampled(scaled, permutations, seed) + 1) / (permutations + 1)
    return Significance(
        test="permutation",
        by="sampling",
        statistic=mean,
        p_value=p_value,
        standard_error=math.sqrt(p_value * (1 - p_value) / permutations),
        permutations=permutations,
        smallest=1 / (permutations + 1),
    )


def _as_far(sums: Any, scaled: list[float]) -> int:
    """Count the sums as far from 0 as the one observed, which differences by rounding are."""
    import numpy as np

    far = abs(math.fsum(scaled)) - _ROUNDING * math.fsum(map(abs, scaled))
    return int(np.count_nonzero(np.abs(sums) >= far))


def _every_sum(scaled: list[float]) -> Any:
    """Sum under all signs but the first's: turning all of them changes no distance from 0."""
    import numpy as np

    sums = np.asarray(scaled[:1] or [0.0])
    for difference in scaled[1:]:
        sums = np.concatenate([sums + difference, sums - difference])
    return sums


def _sampled(scaled: list[float], permutations: int, seed: int) -> int:
    """Count how many sums under random signs are as far from 0.

    Eight signs are one random byte, which is looked up in a table of the 256 sums of eight
    differences.
    """
    import numpy as np

    tables = [_table(scaled[start : start + 8]) for start in range(0, len(scaled), 8)]
    generator = np.random.default_rng(seed)
    as_far = 0
    size = max(1, _BLOCK // len(tables))
    for start in range(0, permutations, size):
        number = min(size, permutations - start)
        signs = np.frombuffer(generator.bytes(number * len(tables)), np.uint8)
        sums = np.zeros(number)
        # By column, so that one table at a time stays in the processor's cache.
        for table, column in zip(tables, signs.reshape(len(tables), number), strict=True):
            sums += table[column]
        as_far += _as_far(sums, scaled)
    return as_far


def _table(scaled: list[float]) -> Any:
    import numpy as np

    sums = np.zeros(1)
    for difference in scaled + [0.0] * (8 - len(scaled)):
        sums = np.concatenate([sums + difference, sums - difference])
    return sums
