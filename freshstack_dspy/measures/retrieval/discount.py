"""What a rank takes away from a gain: log2(rank + 1)."""

import math
from collections.abc import Sequence
from functools import cache


def log2_discounts(depth: int) -> Sequence[float]:
    """Give what the gains of the first ranks are divided by: at place r, log2(r + 1).

    Source: Järvelin and Kekäläinen, TOIS 20(4), 2002, with the discount of Burges et al., Learning
    to Rank using Gradient Descent, ICML 2005, that trec_eval and ndeval have.

    Args:
        depth: The deepest rank that is asked for; place 0 belongs to no rank.
    """
    return _table(max(depth, 127).bit_length())


@cache
def _table(bits: int) -> tuple[float, ...]:
    return (math.nan, *(math.log2(rank + 1) for rank in range(1, 1 << bits)))
