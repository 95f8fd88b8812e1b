"""Intervals, tests, power and rank correlation for values by query; all deterministic by seed."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pydantic import model_validator

from freshstack_dspy.records import Record

if TYPE_CHECKING:
    import numpy as np

    from freshstack_dspy.measures.evaluation import Evaluation

T = TypeVar("T")
SAME = 1e-12
"""Values that are this close, relatively, differ only by rounding."""
LEVEL = 0.95
"""How much of the bootstrap distribution an interval spans."""
_BLOCK = 1 << 17
"""How many queries are drawn at a time, so that memory stays the same however many there are."""


def resamples_of(queries: int) -> int:
    """Say how many resamples an interval over queries has: 10,000, of over 1,000 queries fewer.

    Ten million queries are drawn then, and 1,000 resamples at least: of many, fewer tell as much.
    """
    return min(10_000, max(1_000, 10_000_000 // max(queries, 1)))


class Estimate(Record):
    """A value, or the reason why there is none; never both, never neither."""

    value: float | None = None
    reason: str | None = None

    @model_validator(mode="after")
    def _value_or_reason(self) -> Self:
        if (self.value is None) == (self.reason is None):
            raise ValueError("an estimate has a value or the reason why there is none")
        return self


# Intervals


class Interval(Record):
    """A value with its 95% bootstrap interval.

    Percentile intervals of a mean cover .89 to .91 instead of .95 where 30 to 60 values lie near
    the ceiling.
    """

    value: float | None
    """On all items; None where it is undefined."""
    low: float | None
    high: float | None
    """The ends; None where there is no interval."""
    groups: int
    """How many groups (queries) there are."""
    reason: str | None = None
    """Why there is no interval; None where there is one."""


def bootstrap_sums(
    sums: "np.ndarray",
    statistics: Callable[["np.ndarray"], Mapping[str, "np.ndarray"]],
    *,
    resamples: int | None = None,
    seed: int = 0,
) -> dict[str, Interval]:
    """Compute the percentile intervals of statistics of sums over queries, by a cluster bootstrap.

    The items of one query are not independent, so whole queries are drawn, with replacement and
    as many as there are. There is a reason in place of ends where there are fewer than two,
    where the value is undefined, where more resamples are undefined than one tail has, or where
    the resamples do not vary.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, ch. 13; Field and Welsh,
    Bootstrapping Clustered Data, 2007.

    Args:
        sums: Of each query's items, queries x …; a query without items is left out by the caller.
        statistics: Gives several values, by name, of each of several sums over drawn queries,
            draws x …; `nan` where one is undefined.
        resamples: How many resamples to draw, as `resamples_of` says by default.
        seed: Of the random numbers.
    """
    import numpy as np

    groups = len(sums)
    resamples = resamples or resamples_of(groups)
    blocks = [statistics(np.tensordot(np.ones((1, groups)), sums, 1))]
    generator = np.random.default_rng(seed)
    for start, stop in _blocks(resamples, groups) if groups > 1 else ():
        drawn = generator.integers(groups, size=(stop - start, groups))
        places = drawn + groups * np.arange(stop - start)[:, None]
        counts = np.bincount(places.ravel(), minlength=drawn.size).reshape(drawn.shape)
        blocks.append(statistics(np.tensordot(counts.astype(float), sums, 1)))
    found = {}
    for name in blocks[0]:
        value, *draws = np.concatenate([block[name] for block in blocks])
        ends: dict[str, Any] = {"low": None, "high": None}
        if groups < 2:
            ends["reason"] = f"an interval over queries needs two with items, not {groups}"
        elif math.isnan(value):
            ends["reason"] = "the value is undefined on all items"
        elif (undefined := int(np.isnan(draws).sum())) > (1 - LEVEL) / 2 * resamples:
            ends["reason"] = f"the value is undefined on {undefined} of {resamples} resamples"
        else:
            ends = _ends([one for one in draws if not math.isnan(one)])
        defined = None if math.isnan(value) else float(value)
        found[name] = Interval(value=defined, groups=groups, **ends)
    return found


def mean_interval(values: Mapping[str, float], resamples: int | None = None) -> Interval:
    """Compute the percentile interval of a mean over queries by the bootstrap.

    The same as `bootstrap_sums` of the values and their number.
    """
    return intervals([_in_order(values)], resamples)[0]


def mean_intervals(evaluation: "Evaluation") -> dict[str, Interval]:
    """Compute the intervals of all means of an evaluation, by measure, as `mean_interval` does."""
    columns = [_in_order(evaluation.values(measure)) for measure in evaluation.measures]
    return dict(zip(evaluation.measures, intervals(columns), strict=True))


def intervals(columns: Sequence[Sequence[float]], resamples: int | None = None) -> list[Interval]:
    """Compute the interval of the mean of each column; those of one length are drawn together."""

    def of_one_length(columns: Sequence[Sequence[float]]) -> Iterable[Interval]:
        for column, drawn in zip(columns, _resampled(columns, resamples), strict=True):
            yield _interval(fmean(column) if column else None, drawn, len(column))

    return _by_length(columns, of_one_length)


def macro_interval(
    values: Mapping[str, float],
    topics: Mapping[str, Sequence[str]],
    resamples: int | None = None,
) -> Interval:
    """Compute the interval of a macro-average: the mean of the means of the topics.

    The topics are taken as given and their queries as a sample. A query moves the average, of G
    topics, by the sum over its topics, of n queries and mean m each, of

        (value - m) / (n G) * sqrt(n / (n - 1))

    and whole queries are drawn by what they move. The root makes up for a mean that is of the same
    n queries. A topic of one query is compared with the average of all topics (collapsed strata),
    with G for n under the root. No end is beyond the values themselves. Of one topic it is
    `mean_interval`.

    Source: Rao and Wu, Resampling Inference with Complex Survey Data, JASA 1988, the rescaled
    bootstrap; collapsed strata: Cochran, Sampling Techniques, 1977, section 5A.12; whole queries:
    Field and Welsh, Bootstrapping Clustered Data, 2007.

    Args:
        values: By query id.
        topics: The topics of each query, by query id.
        resamples: How many to draw, as `resamples_of` says by default.
    """
    members: dict[str, list[str]] = {}
    for query in sorted(values):
        for topic in set(topics[query]):
            members.setdefault(topic, []).append(query)
    if len(members) < 2:
        return mean_interval(values, resamples)
    groups = [members[topic] for topic in sorted(members)]
    means = [fmean(values[query] for query in group) for group in groups]
    macro = fmean(means)
    moved = dict.fromkeys(sorted(values), 0.0)
    for group, mean in zip(groups, means, strict=True):
        number, middle = (len(group), mean) if len(group) > 1 else (len(groups), macro)
        weight = math.sqrt(number / (number - 1)) / (len(group) * len(groups))
        for query in group:
            moved[query] += weight * (values[query] - middle)
    shift = fmean(moved.values())
    column = [macro + len(moved) * (each - shift) for each in moved.values()]
    drawn = _resampled([column], resamples)[0]
    within = drawn.clip(min(values.values()), max(values.values()))
    return _interval(macro, within, len(values))


def _in_order(values: Mapping[str, float]) -> list[float]:
    """Give the values of queries in the order of the ids."""
    return [values[query] for query in sorted(values)]


def _by_length(
    columns: Sequence[Sequence[float]],
    function: Callable[[Sequence[Sequence[float]]], Iterable[T]],
) -> list[T]:
    """Call a function with all columns of one length together; give its results in their order."""
    found: dict[int, T] = {}
    for length in {len(column): None for column in columns}:
        places = [place for place, column in enumerate(columns) if len(column) == length]
        of_length = function([columns[place] for place in places])
        found.update(zip(places, of_length, strict=True))
    return [found[place] for place in range(len(columns))]


def _resampled(columns: Sequence[Sequence[float]], resamples: int | None) -> "np.ndarray":
    """Draw queries with replacement and give the means of each column, columns x resamples."""
    import numpy as np

    queries = len(columns[0])
    resamples = resamples or resamples_of(queries)
    means = np.empty((len(columns), resamples if queries > 1 else 0))
    if queries < 2:
        return means
    generator = np.random.default_rng(0)
    arrays = [np.asarray(column, dtype=np.float64) for column in columns]
    for start, stop in _blocks(resamples, queries):
        drawn = generator.integers(queries, size=(stop - start, queries))
        for place, array in enumerate(arrays):
            means[place, start:stop] = array[drawn].mean(axis=1)
    return means


def _blocks(number: int, width: int, block: int = _BLOCK) -> Iterator[tuple[int, int]]:
    size = max(1, block // width)
    for start in range(0, number, size):
        yield start, min(number, start + size)


def _interval(mean: float | None, drawn: "np.ndarray", queries: int) -> Interval:
    if queries < 2:
        reason = f"an interval over queries needs two with a value, not {queries}"
        return Interval(value=mean, low=None, high=None, groups=queries, reason=reason)
    return Interval(value=mean, groups=queries, **_ends(drawn))


def _ends(draws: "Sequence[float] | np.ndarray") -> dict[str, Any]:
    """Give the ends; none where they have no width, which would claim that the value is certain."""
    import numpy as np

    tail = (1 - LEVEL) / 2
    if math.isclose(np.min(draws), np.max(draws), rel_tol=SAME):
        reason = "all resamples give the same value, so they do not tell how sure it is"
        return {"low": None, "high": None, "reason": reason}
    low, high = np.quantile(draws, (tail, 1 - tail)).tolist()
    return {"low": low, "high": high}


# Tests


class Significance(Record):
    """The p-value of a test."""

    p_value: float | None = None
    """Two-sided, above 0; None where the test cannot be made."""
    standard_error: float | None = None
    """How far the p-value may be off because permutations were sampled."""
    smallest: float | None = None
    """The smallest p-value that these permutations could have given, however large the
    differences."""
    reason: str | None = None
    """Why there is no p-value; None where there is one."""


MOST_ENUMERATED = 20
"""Up to how many differences other than 0 all signs are looked at: half a million sums."""


def permutation_tests(
    columns: Sequence[Sequence[float]], *, permutations: int = 100_000
) -> list[Significance]:
    """Test whether runs differ, by the paired permutation test of their mean difference.

    Were two runs alike, each query's difference could as well have the other sign. The p-value
    is the share of all ways to choose the signs that give a mean at least as far from 0, either
    way. Up to 20 differences other than 0, all ways are looked at and the p-value is exact;
    above, ways are sampled and it is (b + 1) / (m + 1), where b of m are as far: the ones
    observed count too, so it is never 0.

    Source: Fisher, The Design of Experiments, 1935, section 21; Smucker, Allan and Carterette,
    A Comparison of Statistical Significance Tests for Information Retrieval Evaluation, CIKM
    2007; (b + 1) / (m + 1): Phipson and Smyth, Permutation P-values Should Never Be Zero, 2010.

    Args:
        columns: The differences of each two runs, one for each query, in an order that is always
            the same; columns of one length share the signs that are sampled.
        permutations: How many to sample.
    """
    sampled = [column for column in columns if sum(map(bool, column)) > MOST_ENUMERATED]
    counts = iter(_by_length(sampled, lambda each: _as_far_by_chance(each, permutations)))
    found = []
    for column in columns:
        other_than_0 = [each for each in column if each]
        if len(column) < 2:
            reason = f"a paired test needs two queries, not {len(column)}"
            found.append(Significance(reason=reason))
        elif len(other_than_0) <= MOST_ENUMERATED:
            found.append(_enumerated(other_than_0))
        else:
            p_value = (next(counts) + 1) / (permutations + 1)
            found.append(
                Significance(
                    p_value=p_value,
                    standard_error=math.sqrt(p_value * (1 - p_value) / permutations),
                    smallest=1 / (permutations + 1),
                )
            )
    return found


def _enumerated(differences: list[float]) -> Significance:
    """Look at all signs but the first's: turning all of them changes no distance from 0."""
    import numpy as np

    largest = max(map(abs, differences), default=1.0)
    scaled = [each / largest for each in differences] or [0.0]
    sums = np.asarray(scaled[:1])
    for difference in scaled[1:]:
        sums = np.concatenate([sums + difference, sums - difference])
    as_far = int(np.count_nonzero(np.abs(sums) >= _observed(scaled)))
    return Significance(p_value=as_far / len(sums), standard_error=0.0, smallest=1 / len(sums))


def _as_far_by_chance(columns: Sequence[Sequence[float]], permutations: int) -> list[int]:
    """Count, for each column, the sums under random signs that are as far from 0."""
    import numpy as np

    scaled = [
        [each / largest for each in column]
        for column in columns
        for largest in [max(map(abs, column))]
    ]
    observed = np.asarray([_observed(column) for column in scaled])
    array = np.asarray(scaled).T
    queries = len(array)
    totals = array.sum(axis=0)
    generator = np.random.default_rng(0)
    counts = np.zeros(len(columns), dtype=np.int64)
    for start, stop in _blocks(permutations, queries, 8 * _BLOCK):
        bits = np.frombuffer(generator.bytes((stop - start) * (-(-queries // 8))), np.uint8)
        signs = np.unpackbits(bits.reshape(stop - start, -1), axis=1)[:, :queries]
        sums = totals - 2 * (signs.astype(np.float64) @ array)
        counts += np.count_nonzero(np.abs(sums) >= observed, axis=0)
    return counts.tolist()


def _observed(scaled: list[float]) -> float:
    """How far the observed sum is from 0, less what rounding can add."""
    return abs(math.fsum(scaled)) - 1e-10 * math.fsum(map(abs, scaled))


def deviation(values: Sequence[float]) -> float:
    """Give the standard deviation of a sample (n - 1); 0 where values differ only by rounding."""
    largest = max(map(abs, values))
    if largest == 0:
        return 0.0
    scaled = [value / largest for value in values]
    mean = fmean(scaled)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in scaled) / (len(values) - 1))
    return spread * largest if spread > SAME else 0.0


def adjust(p_values: Sequence[float]) -> list[float]:
    """Adjust the p-values of a family of tests, so that each is compared with the one level.

    With m tests and the p-values ascending, p(1) to p(m), p(i) becomes the largest of
    min(1, (m - j + 1) p(j)) over j <= i, which bounds the chance of any false finding.

    Source: Holm, A Simple Sequentially Rejective Multiple Test Procedure, 1979.
    """
    tests = len(p_values)
    order = sorted(range(tests), key=p_values.__getitem__)
    adjusted = accumulate(((tests - i) * p_values[place] for i, place in enumerate(order)), max)
    found = dict(zip(order, adjusted, strict=True))
    return [min(1.0, found[place]) for place in range(tests)]


# Power

FEWEST = 10
"""Below so many queries the spread that is known of them means little."""


def detectable_difference(deviation: float, queries: int, *, alpha: float = 0.05) -> float:
    """Give the smallest true difference of means that a paired t test finds four times in five.

    With the differences' standard deviation s and n queries it is s d / sqrt(n), where d is the
    noncentrality at which Student's t, noncentral and of n - 1 degrees of freedom, is above the
    critical value of the test at level alpha with a power of .8. Exact for normal differences; the
    permutation test's power is much the same.

    Source: Cohen, Statistical Power Analysis, 1988, section 2.3; for retrieval, Webber, Moffat
    and Zobel, Statistical Power in Retrieval Experimentation, CIKM 2008, and Sakai, Topic Set
    Size Design, 2016.
    """
    from scipy.special import nctdtrinc, stdtrit

    critical = -float(stdtrit(queries - 1, alpha / 2))
    noncentrality = float(nctdtrinc(queries - 1, 1 - 0.8, critical))
    return deviation * noncentrality / math.sqrt(queries)


# Rank correlation


def kendall_tau(first: Mapping[str, float], second: Mapping[str, float]) -> Estimate:
    """Compute Kendall's tau-b of two orders, given as values by name, which allows for ties.

    Values that differ only by rounding (1e-12) are tied. Undefined where there are fewer than two
    values or all of an order are tied.

    Source: Kendall, The Treatment of Ties in Ranking Problems, Biometrika 1945.
    """
    import numpy as np

    one, other = _levels(first), _levels(second)
    if reason := _no_order(one, other):
        return Estimate(reason=reason)
    x, y = np.asarray(one), np.asarray(other)
    agreeing = untied_one = untied_other = 0
    for place in range(len(x) - 1):
        over, under = np.sign(x[place + 1 :] - x[place]), np.sign(y[place + 1 :] - y[place])
        agreeing += int(over @ under)
        untied_one += int(np.count_nonzero(over))
        untied_other += int(np.count_nonzero(under))
    return Estimate(value=agreeing / math.sqrt(untied_one * untied_other))


def spearman_rho(first: Mapping[str, float], second: Mapping[str, float]) -> Estimate:
    """Compute Spearman's rank correlation, ties having their mean rank; as `kendall_tau`.

    Source: Spearman, The Proof and Measurement of Association between Two Things, 1904.
    """
    from scipy.stats import rankdata

    one, other = _levels(first), _levels(second)
    if reason := _no_order(one, other):
        return Estimate(reason=reason)
    x, y = (ranks - ranks.mean() for ranks in map(rankdata, (one, other)))
    return Estimate(value=max(-1.0, min(1.0, float(x @ y / math.sqrt((x @ x) * (y @ y))))))


def _levels(of: Mapping[str, float]) -> list[int]:
    """Number the values upwards, by name; those that differ only by rounding alike."""
    values = [of[name] for name in sorted(of)]
    order = sorted(range(len(values)), key=values.__getitem__)
    levels = [0] * len(values)
    for lower, upper in pairwise(order):
        tied = math.isclose(values[lower], values[upper], rel_tol=SAME, abs_tol=0)
        levels[upper] = levels[lower] + (not tied)
    return levels


def _no_order(one: list[int], other: list[int]) -> str | None:
    """Give the reason why two orders have no correlation."""
    if len(one) < 2:
        return f"an order needs two, not {len(one)}"
    for which, levels in (("first", one), ("second", other)):
        if max(levels) == 0:
            return f"all {len(levels)} are tied in the {which}"
    return None
