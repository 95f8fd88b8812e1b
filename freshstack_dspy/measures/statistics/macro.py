"""How sure a macro-average is: the mean of the means of topics."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from freshstack_dspy.measures.statistics.bootstrap import Interval
from freshstack_dspy.measures.statistics.means import (
    check,
    in_order,
    interval_of,
    mean_interval,
    resampled,
    without_ends,
)


def macro_interval(
    values: Mapping[str, float],
    topics: Mapping[str, str | Sequence[str]],
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """Compute the interval of a macro-average: the mean of the means of the topics.

    The topics are taken as given and their queries as a sample. A query moves the average, of G
    topics, by the sum over its topics, of n queries and mean m each, of

        (value - m) / (n G) * sqrt(n / (n - 1))

    and whole queries are drawn by what they move, so what topics share is drawn once. The root
    makes up for a mean that is of the same n queries: plain draws within topics are too narrow
    where topics are small. How a topic of one query varies cannot be seen in it; it is held
    against the average of all topics (collapsed strata), with G for n under the root, which is
    rather too wide where topics differ. No end is beyond the values themselves. Of one topic it is
    `mean_interval`.

    Source: Rao and Wu, Resampling Inference with Complex Survey Data, JASA 1988, the rescaled
    bootstrap; collapsed strata: Cochran, Sampling Techniques, 1977, section 5A.12; whole queries:
    Field and Welsh, Bootstrapping Clustered Data, 2007.

    Args:
        values: By query id.
        topics: The topic of each query, or its topics, by query id; other queries are passed
            over.
        level: As for `mean_interval`.
        resamples: As for `mean_interval`.
        seed: As for `mean_interval`.

    Returns:
        The interval; without ends, and with the reason, where there are fewer than two values or
        the resamples do not vary.

    Raises:
        ValueError: As for `mean_interval`, or a query has no topic.
    """
    check(level, resamples)
    ordered = in_order(values)
    members = _members(values, topics)
    if len(members) == 1:
        return mean_interval(values, level, resamples, seed)
    means = [fmean(values[query] for query in queries) for queries in members]
    macro = fmean(means) if means else None
    if macro is None or len(ordered) < 2:
        reason = f"an interval over queries needs two with a value, not {len(ordered)}"
        return without_ends(macro, level, len(ordered), reason)
    moved = _moved(values, members, means, macro)
    middle = fmean(moved)
    column = [macro + len(moved) * (each - middle) for each in moved]
    drawn = resampled([column], resamples, seed)[0].clip(min(ordered), max(ordered))
    return interval_of(macro, drawn, level, len(ordered))


def _members(
    values: Mapping[str, float], topics: Mapping[str, str | Sequence[str]]
) -> list[list[str]]:
    """Give the queries of each topic, the topics by name and the queries by id."""
    members: dict[str, list[str]] = {}
    for query in sorted(values):
        of = topics.get(query)
        if not of:
            raise ValueError(f"query {query!r} has no topic; leave it out or name its topic")
        for topic in {of} if isinstance(of, str) else set(of):
            members.setdefault(topic, []).append(query)
    return [members[topic] for topic in sorted(members)]


def _moved(
    values: Mapping[str, float],
    members: Sequence[Sequence[str]],
    means: Sequence[float],
    macro: float,
) -> list[float]:
    """Give how far each query moves the macro-average, by query id."""
    moved = dict.fromkeys(sorted(values), 0.0)
    for queries, mean in zip(members, means, strict=True):
        number, middle = (len(queries), mean) if len(queries) > 1 else (len(members), macro)
        weight = math.sqrt(number / (number - 1)) / (len(queries) * len(members))
        for query in queries:
            moved[query] += weight * (values[query] - middle)
    return list(moved.values())
