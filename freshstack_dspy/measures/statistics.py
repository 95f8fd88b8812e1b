"""A figure that may be undefined, and then says why."""

import math
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, assert_never

from pydantic import model_validator

from freshstack_dspy.records import Record

if TYPE_CHECKING:
    from freshstack_dspy.measures.evaluation import Evaluation


class Estimate(Record):
    """A figure, or the reason why there is none; never both, never neither."""

    value: float | None = None
    reason: str | None = None

    @model_validator(mode="after")
    def _value_or_reason(self) -> Self:
        if (self.value is None) == (self.reason is None):
            raise ValueError("an estimate has a value or the reason why there is none")
        return self


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


SAME = 1e-12
"""Values that are this close, relatively, differ only as rounding does."""


@dataclass(frozen=True)
class Pairs:
    """The values of two runs on the queries that have one in both, by query id.

    Attributes:
        queries: The queries of both, ordered by id.
        values: Of the run, in the order of the queries.
        against: Of the run that it is held against, likewise.
        left_out: How many queries have a value in only one of the two.
    """

    queries: tuple[str, ...]
    values: tuple[float, ...]
    against: tuple[float, ...]
    left_out: int

    @property
    def differences(self) -> tuple[float, ...]:
        """The run's value minus the other's; 0 where they differ only as rounding does."""
        return tuple(map(_difference, self.values, self.against))


def pair(values: Mapping[str, float], against: Mapping[str, float]) -> Pairs:
    """Pair the values of two runs by query.

    Runs are compared on queries that both were measured on by the same rule, so a query with a
    value in only one of the two is left out, and counted.

    Args:
        values: Of one run, by query id.
        against: Of the other.

    Raises:
        ValueError: A value is not a finite number.
    """
    for value in (*values.values(), *against.values()):
        if not math.isfinite(value):
            raise ValueError(f"a value is a finite number, not {value!r}")
    queries = tuple(sorted(values.keys() & against.keys()))
    return Pairs(
        queries,
        tuple(values[query] for query in queries),
        tuple(against[query] for query in queries),
        len(values.keys() ^ against.keys()),
    )


def _difference(value: float, against: float) -> float:
    return 0.0 if math.isclose(value, against, rel_tol=SAME, abs_tol=0) else value - against


TestName = Literal["permutation", "t"]


class Significance(Record):
    """The p-value of a test, and how it was come by.

    Attributes:
        test: The test.
        by: `enumeration` of all permutations, `sampling` of some, or a `distribution`.
        statistic: The mean difference, or Student's t; None where it is undefined.
        p_value: Two-sided, above 0; None where the test cannot be made.
        standard_error: How far the p-value may be off because permutations were sampled; 0 where
            nothing was.
        permutations: How many were looked at; 0 for a distribution.
        smallest: The smallest p-value that these permutations could have given, however large
            the differences; None for a distribution.
        reason: Why there is no p-value; None where there is one.
    """

    test: TestName
    by: Literal["enumeration", "sampling", "distribution"]
    statistic: float | None = None
    p_value: float | None = None
    standard_error: float | None = None
    permutations: int = 0
    smallest: float | None = None
    reason: str | None = None


MOST_ENUMERATED = 20
"""Up to how many differences other than 0 all signs are looked at: half a million sums."""
_ROUNDING = 1e-10
_BLOCK_permutation = 1 << 22


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
    size = max(1, _BLOCK_permutation // len(tables))
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


_ROUNDING_t_test = 1e-12


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
    return spread * largest if spread > _ROUNDING_t_test else 0.0


def _untested(reason: str) -> Significance:
    return Significance(test="t", by="distribution", reason=reason)
