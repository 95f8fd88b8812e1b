"""How sure a macro-average is whose groups share queries, as the tags of questions do."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from freshstack_dspy.measures.statistics import Interval

_BLOCK = 1_000_000
"""How many queries are drawn at a time: memory stays the same however many there are."""


def overlapping_macro_interval(
    values: Mapping[str, float],
    groups: Mapping[str, Sequence[str]],
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """Compute the interval of the mean of the means of groups that may share queries.

    Whole queries are drawn from all that are in a group, and a query counts in each of its
    groups, so what the groups share is drawn once. A group of which a resample draws no query
    is left out of that resample. Groups without a shared query are strata: `macro_interval`.

    Source: Field and Welsh, Bootstrapping Clustered Data, 2007, the clusters being queries.

    Args:
        values: By query id; queries in no group are passed over.
        groups: The query ids of each group; those without a value are passed over.
        level: How much of the distribution the interval spans, between 0 and 1.
        resamples: How many resamples to draw, at least 1.
        seed: Of the random numbers.

    Returns:
        The interval; without ends, and with the reason, where fewer than two queries have a value.

    Raises:
        ValueError: level or resamples is out of range.
    """
    if not 0 < level < 1 or resamples < 1:
        raise ValueError(f"level {level!r} is between 0 and 1, resamples {resamples!r} at least 1")
    valued = {name: [query for query in ids if query in values] for name, ids in groups.items()}
    members = [sorted(set(valued[name])) for name in sorted(valued) if valued[name]]
    queries = sorted({query for ids in members for query in ids})
    mean = fmean(fmean(values[query] for query in ids) for ids in members) if members else None
    if len(queries) < 2:
        return Interval(
            value=mean,
            low=None,
            high=None,
            level=level,
            groups=len(queries),
            resamples=0,
            undefined=0,
            reason=f"an interval over queries needs two with a value, not {len(queries)}",
        )
    import numpy as np

    drawn = _drawn(values, queries, members, np.random.default_rng(seed), resamples)
    tail = (1 - level) / 2
    low, high = np.quantile(drawn, (tail, 1 - tail)).tolist()
    return Interval(
        value=mean,
        low=low,
        high=high,
        level=level,
        groups=len(queries),
        resamples=resamples,
        undefined=0,
        reason=None,
    )


def _drawn(
    values: Mapping[str, float],
    queries: Sequence[str],
    members: Sequence[Sequence[str]],
    generator: Any,
    resamples: int,
) -> Any:
    """Give the macro-average of each resample: what is drawn is how often each query counts."""
    import numpy as np
    from scipy.sparse import csr_array

    places = {query: place for place, query in enumerate(queries)}
    rows = [row for row, ids in enumerate(members) for _ in ids]
    columns = [places[query] for ids in members for query in ids]
    shape = (len(members), len(queries))
    belongs = csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
    worth = csr_array(([values[queries[place]] for place in columns], (rows, columns)), shape=shape)
    means = np.empty(resamples)
    size = max(1, _BLOCK // len(queries))
    for start in range(0, resamples, size):
        number = min(size, resamples - start)
        picked = generator.integers(len(queries), size=(number, len(queries)))
        picked += np.arange(number)[:, None] * len(queries)
        counts = np.bincount(picked.ravel(), minlength=number * len(queries))
        counts = counts.reshape(number, len(queries)).T.astype(np.float64)
        sizes = belongs @ counts
        there = sizes > 0
        each = np.divide(worth @ counts, sizes, out=np.zeros(sizes.shape), where=there)
        means[start : start + number] = each.sum(axis=0) / there.sum(axis=0)
    return means
