"""How sure a figure is: bootstrap intervals over whole queries."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from freshstack_dspy.records import Record

T = TypeVar("T")

_SAME = 1e-12
"""Figures that are this close, relatively, differ only as rounding does."""
_WITHOUT_WIDTH = "all resamples give the same figure: they cannot tell how sure it is"


class Interval(Record):
    """A figure with its bootstrap interval.

    Attributes:
        value: The figure on all items; None where it is undefined.
        low: Lower end; None where there is no interval.
        high: Upper end; None where there is no interval.
        level: How much of the bootstrap distribution the interval spans, as .95.
        groups: How many groups (queries) there are.
        resamples: How many resamples were drawn; 0 where drawing could not help.
        undefined: On how many of them the figure was undefined; they are left out.
        reason: Why there is no interval; None where there is one.
    """

    value: float | None
    low: float | None
    high: float | None
    level: float
    groups: int
    resamples: int
    undefined: int
    reason: str | None


def bootstrap_interval(
    groups: Mapping[str, Sequence[T]],
    statistic: Callable[[Sequence[T]], float | None],
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """Compute the percentile interval of a figure by a cluster bootstrap.

    The items of one query are not independent, so whole groups are drawn, with replacement and
    as many as there are, and the figure is computed on all their items. The same arguments give
    the same interval, in whatever order the groups stand.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, ch. 13; Field and Welsh,
    Bootstrapping Clustered Data, 2007.

    Args:
        groups: The items by the id of their query; groups without items are passed over.
        statistic: Gives the figure of a list of items, or None where it is undefined on them, as
            `lambda pairs: cohen_kappa(pairs).value`.
        level: How much of the distribution the interval spans, between 0 and 1.
        resamples: How many resamples to draw, at least 1.
        seed: Of the random numbers.

    Returns:
        The interval. It has no ends, and says why, where there are fewer than two groups, where
        the figure is undefined, where so many resamples are undefined (more than one tail holds)
        that an end could lie anywhere, or where the resamples do not vary.

    Raises:
        ValueError: level or resamples is out of range.
    """
    if not 0 < level < 1:
        raise ValueError(f"level is between 0 and 1, not {level!r}")
    if resamples < 1:
        raise ValueError(f"resamples is at least 1, not {resamples!r}")
    clusters = [items for _, items in sorted(groups.items()) if len(items) > 0]
    value = statistic([item for items in clusters for item in items]) if clusters else None
    draws: list[float | None] = []
    if value is not None and len(clusters) > 1:
        draws = _draw(clusters, statistic, resamples, seed)
    defined = [draw for draw in draws if draw is not None]
    undefined = len(draws) - len(defined)
    tail = (1 - level) / 2
    reason: str | None = None
    low = high = None
    if len(clusters) < 2:
        reason = f"an interval over queries needs two with items, not {len(clusters)}"
    elif value is None:
        reason = "the figure is undefined on all items"
    elif undefined > tail * len(draws):
        reason = f"the figure is undefined on {undefined} of {len(draws)} resamples"
    else:
        low, high, reason = percentile_ends(defined, level)
    return Interval(
        value=value,
        low=low,
        high=high,
        level=level,
        groups=len(clusters),
        resamples=len(draws),
        undefined=undefined,
        reason=reason,
    )


def percentile_ends(
    draws: Sequence[float], level: float
) -> tuple[float | None, float | None, str | None]:
    """Give the ends of the percentile interval, or why there are none.

    Where all resamples give one figure, as of a share that is 1 in all queries, an interval
    without width would say that the figure is certain, which so many queries cannot say.

    Args:
        draws: The figure of each resample.
        level: How much of them the interval spans, between 0 and 1.

    Returns:
        The lower end, the upper end, and None; or None, None, and the reason.
    """
    import numpy as np

    tail = (1 - level) / 2
    if math.isclose(np.min(draws), np.max(draws), rel_tol=_SAME):
        return None, None, _WITHOUT_WIDTH
    low, high = np.quantile(draws, (tail, 1 - tail)).tolist()
    return low, high, None


def _draw(
    clusters: Sequence[Sequence[T]],
    statistic: Callable[[Sequence[T]], float | None],
    resamples: int,
    seed: int,
) -> list[float | None]:
    import numpy as np

    generator = np.random.default_rng(seed)
    draws = []
    for _ in range(resamples):
        drawn = generator.integers(len(clusters), size=len(clusters)).tolist()
        draws.append(statistic([item for index in drawn for item in clusters[index]]))
    return draws
