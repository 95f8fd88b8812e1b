"""How sure a mean over queries is: bootstrap intervals, of many means at once."""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from freshstack_dspy.measures.statistics.bootstrap import Interval, percentile_ends

if TYPE_CHECKING:
    from freshstack_dspy.measures.evaluation import Evaluation

Values = Mapping[str, float] | Sequence[float]
"""One value for each query: by query id, or in any order that is always the same."""

_BLOCK = 1 << 17
"""How many queries are drawn at a time: memory stays the same however many there are."""


def mean_interval(
    values: Values, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> Interval:
    """Compute the percentile interval of a mean over queries by the bootstrap.

    The same figures as `bootstrap_interval` with one item in each group, drawn all at once.
    Values by query id are taken in the order of the ids.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, ch. 13.

    Args:
        values: One for each query.
        level: How much of the distribution the interval spans, between 0 and 1.
        resamples: How many resamples to draw, at least 1.
        seed: Of the random numbers.

    Returns:
        The interval; without ends, and with the reason, where there are fewer than two values or
        all are the same.

    Raises:
        ValueError: level or resamples is out of range, or a value is not a finite number.
    """
    return intervals([in_order(values)], level, resamples, seed)[0]


def mean_intervals(
    evaluation: "Evaluation", level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> dict[str, Interval]:
    """Compute the intervals of all means of an evaluation, by measure.

    Each is what `mean_interval` gives for the queries that have a value.

    Args:
        evaluation: Of one run.
        level: As for `mean_interval`.
        resamples: As for `mean_interval`.
        seed: As for `mean_interval`.

    Raises:
        ValueError: As for `mean_interval`.
    """
    columns = [in_order(evaluation.values(measure)) for measure in evaluation.measures]
    found = intervals(columns, level, resamples, seed)
    return dict(zip(evaluation.measures, found, strict=True))


def in_order(values: Values) -> list[float]:
    """Give the values in the order of their query ids, or as they are given.

    Raises:
        ValueError: One is not a finite number.
    """
    ordered = [values[key] for key in sorted(values)] if isinstance(values, Mapping) else [*values]
    for value in ordered:
        if not math.isfinite(value):
            raise ValueError(f"a value is a finite number, not {value!r}")
    return ordered


def check(level: float, resamples: int) -> None:
    """Refuse a level or a number of resamples that is out of range.

    Raises:
        ValueError: It is.
    """
    if not 0 < level < 1:
        raise ValueError(f"level is between 0 and 1, not {level!r}")
    if resamples < 1:
        raise ValueError(f"resamples is at least 1, not {resamples!r}")


def intervals(
    columns: Sequence[Sequence[float]], level: float, resamples: int, seed: int
) -> list[Interval]:
    """Compute the interval of the mean of each column; those of one length are drawn together.

    Args:
        columns: One value for each query, in an order that is always the same.
        level: As for `mean_interval`.
        resamples: As for `mean_interval`.
        seed: As for `mean_interval`.

    Raises:
        ValueError: level or resamples is out of range.
    """
    check(level, resamples)
    found: dict[int, Interval] = {}
    together: dict[int, list[int]] = {}
    for place, column in enumerate(columns):
        together.setdefault(len(column), []).append(place)
    for length, places in together.items():
        if length < 2:
            reason = f"an interval over queries needs two with a value, not {length}"
            for place in places:
                mean = columns[place][0] if length else None
                found[place] = without_ends(mean, level, length, reason)
            continue
        drawn = resampled([columns[place] for place in places], resamples, seed)
        for place, means in zip(places, drawn, strict=True):
            found[place] = interval_of(fmean(columns[place]), means, level, length)
    return [found[place] for place in range(len(columns))]


def resampled(columns: Sequence[Sequence[float]], resamples: int, seed: int) -> Any:
    """Draw queries with replacement and give the means of each column, columns x resamples.

    Within a row the order of the sum does not depend on how many rows are drawn at a time.
    """
    import numpy as np

    generator = np.random.default_rng(seed)
    arrays = [np.asarray(column, dtype=np.float64) for column in columns]
    queries = len(arrays[0])
    means = np.empty((len(arrays), resamples))
    for start, stop in _blocks(resamples, queries):
        drawn = generator.integers(queries, size=(stop - start, queries))
        for column, array in enumerate(arrays):
            means[column, start:stop] = array[drawn].mean(axis=1)
    return means


def _blocks(resamples: int, queries: int) -> Iterator[tuple[int, int]]:
    size = max(1, _BLOCK // queries)
    for start in range(0, resamples, size):
        yield start, min(resamples, start + size)


def interval_of(mean: float | None, drawn: Any, level: float, queries: int) -> Interval:
    """Give the interval of a mean over so many queries by what its resamples gave."""
    low, high, reason = percentile_ends(drawn, level)
    return Interval(
        value=mean,
        low=low,
        high=high,
        level=level,
        groups=queries,
        resamples=len(drawn),
        undefined=0,
        reason=reason,
    )


def without_ends(mean: float | None, level: float, queries: int, reason: str) -> Interval:
    """Give the interval of a mean for which nothing could be drawn."""
    return Interval(
        value=mean,
        low=None,
        high=None,
        level=level,
        groups=queries,
        resamples=0,
        undefined=0,
        reason=reason,
    )
