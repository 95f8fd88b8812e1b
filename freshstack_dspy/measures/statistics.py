"""Intervals, tests, power and rank correlation for values by query; all deterministic by seed."""

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from pydantic import model_validator

from freshstack_dspy.records import Record

if TYPE_CHECKING:
    import numpy as np

    from freshstack_dspy.measures.evaluation import Evaluation

T = TypeVar("T")
Values = Mapping[str, float] | Sequence[float]
"""One value for each query: by query id, or in any order that is always the same."""

SAME = 1e-12
"""Values that are this close, relatively, differ only by rounding."""
_BLOCK = 1 << 17
"""How many queries are drawn at a time, so that memory stays the same however many there are."""


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
    """A value with its bootstrap interval.

    Percentile intervals of a mean cover .89 to .91 instead of .95 where 30 to 60 values lie near
    the ceiling.
    """

    value: float | None
    """On all items; None where it is undefined."""
    low: float | None
    high: float | None
    """The ends; None where there is no interval."""
    level: float
    """How much of the bootstrap distribution the interval spans, as .95."""
    groups: int
    """How many groups (queries) there are."""
    resamples: int = 0
    """How many were drawn; 0 where drawing could not help."""
    undefined: int = 0
    """On how many of them the value was undefined; they are left out."""
    reason: str | None = None
    """Why there is no interval; None where there is one."""


def bootstrap_interval(
    groups: Mapping[str, Sequence[T]],
    statistic: Callable[[Sequence[T]], float | None],
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """Compute the percentile interval of a statistic by a cluster bootstrap.

    The items of one query are not independent, so whole groups are drawn, with replacement and
    as many as there are. There is a reason in place of ends where there are fewer than two groups,
    where the value is undefined, where more resamples are undefined than one tail has, or where
    the resamples do not vary.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, ch. 13; Field and Welsh,
    Bootstrapping Clustered Data, 2007.

    Args:
        groups: The items by the id of their query; groups without items are passed over.
        statistic: Gives the value of a list of items, or None where it is undefined on them.
        level: How much of the distribution the interval spans, between 0 and 1.
        resamples: How many resamples to draw.
        seed: Of the random numbers.
    """
    import numpy as np

    clusters = [items for _, items in sorted(groups.items()) if len(items) > 0]
    value = statistic([item for items in clusters for item in items]) if clusters else None
    found = Interval(value=value, low=None, high=None, level=level, groups=len(clusters))
    if len(clusters) < 2:
        reason = f"an interval over queries needs two with items, not {len(clusters)}"
        return found.model_copy(update={"reason": reason})
    if value is None:
        return found.model_copy(update={"reason": "the value is undefined on all items"})
    generator = np.random.default_rng(seed)
    defined = []
    for _ in range(resamples):
        drawn = generator.integers(len(clusters), size=len(clusters)).tolist()
        draw = statistic([item for index in drawn for item in clusters[index]])
        if draw is not None:
            defined.append(draw)
    undefined = resamples - len(defined)
    found = found.model_copy(update={"resamples": resamples, "undefined": undefined})
    if undefined > (1 - level) / 2 * resamples:
        reason = f"the value is undefined on {undefined} of {resamples} resamples"
        return found.model_copy(update={"reason": reason})
    return found.model_copy(update=_ends(defined, level))


def mean_interval(
    values: Values, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> Interval:
    """Compute the percentile interval of a mean over queries by the bootstrap.

    The same as `bootstrap_interval` with one item in each group, drawn all at once. Values by
    query id are taken in the order of the ids.
    """
    return intervals([_in_order(values)], level, resamples, seed)[0]


def mean_intervals(
    evaluation: "Evaluation", level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> dict[str, Interval]:
    """Compute the intervals of all means of an evaluation, by measure, as `mean_interval` does."""
    columns = [_in_order(evaluation.values(measure)) for measure in evaluation.measures]
    found = intervals(columns, level, resamples, seed)
    return dict(zip(evaluation.measures, found, strict=True))


def intervals(
    columns: Sequence[Sequence[float]], level: float, resamples: int, seed: int
) -> list[Interval]:
    """Compute the interval of the mean of each column; those of one length are drawn together."""

    def of_one_length(columns: Sequence[Sequence[float]]) -> Iterable[Interval]:
        for column, drawn in zip(columns, _resampled(columns, resamples, seed), strict=True):
            yield _interval(fmean(column) if column else None, drawn, level, len(column))

    return _by_length(columns, of_one_length)


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

    and whole queries are drawn by what they move. The root makes up for a mean that is of the same
    n queries. A topic of one query is compared with the average of all topics (collapsed strata),
    with G for n under the root. No end is beyond the values themselves. Of one topic it is
    `mean_interval`.

    Source: Rao and Wu, Resampling Inference with Complex Survey Data, JASA 1988, the rescaled
    bootstrap; collapsed strata: Cochran, Sampling Techniques, 1977, section 5A.12; whole queries:
    Field and Welsh, Bootstrapping Clustered Data, 2007.

    Args:
        values: By query id.
        topics: The topic of each query, or its topics, by query id.
        level: As for `mean_interval`, like those that follow.
        resamples: How many to draw.
        seed: Of the random numbers.
    """
    members: dict[str, list[str]] = {}
    for query in sorted(values):
        of = topics[query]
        for topic in {of} if isinstance(of, str) else set(of):
            members.setdefault(topic, []).append(query)
    if len(members) < 2:
        return mean_interval(values, level, resamples, seed)
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
    drawn = _resampled([column], resamples, seed)[0]
    within = drawn.clip(min(values.values()), max(values.values()))
    return _interval(macro, within, level, len(values))


def _in_order(values: Values) -> list[float]:
    return [values[key] for key in sorted(values)] if isinstance(values, Mapping) else [*values]


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


def _resampled(columns: Sequence[Sequence[float]], resamples: int, seed: int) -> "np.ndarray":
    """Draw queries with replacement and give the means of each column, columns x resamples."""
    import numpy as np

    queries = len(columns[0])
    means = np.empty((len(columns), resamples if queries > 1 else 0))
    if queries < 2:
        return means
    generator = np.random.default_rng(seed)
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


def _interval(mean: float | None, drawn: "np.ndarray", level: float, queries: int) -> Interval:
    if queries < 2:
        reason = f"an interval over queries needs two with a value, not {queries}"
        return Interval(value=mean, low=None, high=None, level=level, groups=queries, reason=reason)
    ends = _ends(drawn, level)
    return Interval(value=mean, level=level, groups=queries, resamples=len(drawn), **ends)


def _ends(draws: "Sequence[float] | np.ndarray", level: float) -> dict[str, Any]:
    """Give the ends; none where they have no width, which would claim that the value is certain."""
    import numpy as np

    tail = (1 - level) / 2
    if math.isclose(np.min(draws), np.max(draws), rel_tol=SAME):
        reason = "all resamples give the same value, so they do not tell how sure it is"
        return {"low": None, "high": None, "reason": reason}
    low, high = np.quantile(draws, (tail, 1 - tail)).tolist()
    return {"low": low, "high": high}


# Tests

TestName = Literal["permutation", "t"]
CorrectionName = Literal["holm", "bonferroni", "bh", "none"]


class Significance(Record):
    """The p-value of a test, and where it is from."""

    test: TestName
    by: Literal["enumeration", "sampling", "distribution"]
    """Of all permutations, of some, or a distribution."""
    statistic: float | None = None
    """The mean difference, or Student's t."""
    p_value: float | None = None
    """Two-sided, above 0; None where the test cannot be made."""
    standard_error: float | None = None
    """How far the p-value may be off because permutations were sampled."""
    permutations: int = 0
    """How many were looked at; 0 for a distribution."""
    smallest: float | None = None
    """The smallest p-value that these permutations could have given, however large the
    differences; None for a distribution."""
    reason: str | None = None
    """Why there is no p-value; None where there is one."""


MOST_ENUMERATED = 20
"""Up to how many differences other than 0 all signs are looked at: half a million sums."""


def permutation_tests(
    columns: Sequence[Sequence[float]], *, permutations: int = 100_000, seed: int = 0
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
        seed: Of the random numbers.
    """
    sampled = [column for column in columns if sum(map(bool, column)) > MOST_ENUMERATED]
    counts = iter(_by_length(sampled, lambda each: _as_far_by_chance(each, permutations, seed)))
    found = []
    for column in columns:
        other_than_0 = [each for each in column if each]
        if len(column) < 2:
            reason = f"a paired test needs two queries, not {len(column)}"
            found.append(Significance(test="permutation", by="enumeration", reason=reason))
        elif len(other_than_0) <= MOST_ENUMERATED:
            found.append(_enumerated(fmean(column), other_than_0))
        else:
            p_value = (next(counts) + 1) / (permutations + 1)
            found.append(
                Significance(
                    test="permutation",
                    by="sampling",
                    statistic=fmean(column),
                    p_value=p_value,
                    standard_error=math.sqrt(p_value * (1 - p_value) / permutations),
                    permutations=permutations,
                    smallest=1 / (permutations + 1),
                )
            )
    return found


def _enumerated(mean: float, differences: list[float]) -> Significance:
    """Look at all signs but the first's: turning all of them changes no distance from 0."""
    import numpy as np

    largest = max(map(abs, differences), default=1.0)
    scaled = [each / largest for each in differences] or [0.0]
    sums = np.asarray(scaled[:1])
    for difference in scaled[1:]:
        sums = np.concatenate([sums + difference, sums - difference])
    as_far = int(np.count_nonzero(np.abs(sums) >= _observed(scaled)))
    return Significance(
        test="permutation",
        by="enumeration",
        statistic=mean,
        p_value=as_far / len(sums),
        standard_error=0.0,
        permutations=len(sums),
        smallest=1 / len(sums),
    )


def _as_far_by_chance(
    columns: Sequence[Sequence[float]], permutations: int, seed: int
) -> list[int]:
    """Count, for each column, the sums under random signs that are as far from 0."""
    import numpy as np

    scaled = [[each / max(map(abs, column)) for each in column] for column in columns]
    observed = np.asarray([_observed(column) for column in scaled])
    array = np.asarray(scaled).T
    queries = len(array)
    totals = array.sum(axis=0)
    generator = np.random.default_rng(seed)
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


def t_test(differences: Sequence[float]) -> Significance:
    """Test whether two runs differ, by Student's paired t test, two-sided.

    It has a reason and no p-value where there are fewer than two differences or all are the same.

    Source: Student, The Probable Error of a Mean, Biometrika 1908; for retrieval, Smucker, Allan
    and Carterette, CIKM 2007.
    """
    from scipy.stats import ttest_1samp

    reason = None
    if len(differences) < 2:
        reason = f"a paired test needs two queries, not {len(differences)}"
    elif deviation(differences) == 0:
        mean = fmean(differences)
        reason = f"all {len(differences)} differences are the same, {mean:.4g}: t is undefined"
    if reason:
        return Significance(test="t", by="distribution", reason=reason)
    found: Any = ttest_1samp(differences, 0.0)
    return Significance(
        test="t",
        by="distribution",
        statistic=float(found.statistic),
        p_value=max(float(found.pvalue), sys.float_info.min),
        standard_error=0.0,
    )


def deviation(values: Sequence[float]) -> float:
    """Give the standard deviation of a sample (n - 1); 0 where values differ only by rounding."""
    largest = max(map(abs, values))
    if largest == 0:
        return 0.0
    scaled = [value / largest for value in values]
    mean = fmean(scaled)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in scaled) / (len(values) - 1))
    return spread * largest if spread > SAME else 0.0


def adjust(p_values: Sequence[float], correction: CorrectionName = "holm") -> list[float]:
    """Adjust the p-values of a family of tests, so that each is compared with the one level.

    With m tests and the p-values ascending, p(1) to p(m):

    - `holm`: max over j <= i of min(1, (m - j + 1) p(j)), bounds the chance of any false finding.
    - `bonferroni`: min(1, m p), the same, and never finds more than Holm.
    - `bh`: min over j >= i of min(1, m p(j) / j), bounds the mean share of false findings among all
      findings, where tests are independent or positively dependent.
    - `none`: p.

    Source: Holm, A Simple Sequentially Rejective Multiple Test Procedure, 1979; Benjamini and
    Hochberg, Controlling the False Discovery Rate, 1995.
    """
    tests = len(p_values)
    order = sorted(range(tests), key=p_values.__getitem__)
    ascending = [p_values[place] for place in order]
    if correction == "holm":
        adjusted = list(accumulate([(tests - i) * p for i, p in enumerate(ascending)], max))
    elif correction == "bonferroni":
        adjusted = [tests * p for p in ascending]
    elif correction == "bh":
        steps = [p * (tests / rank) for rank, p in enumerate(ascending, start=1)]
        adjusted = list(accumulate(reversed(steps), min))[::-1]
    else:
        adjusted = ascending
    found = dict(zip(order, adjusted, strict=True))
    return [min(1.0, found[place]) for place in range(tests)]


# Power

FEWEST = 10
"""Below so many queries the spread that is known of them means little."""


def detectable_difference(
    deviation: float, queries: int, *, alpha: float = 0.05, power: float = 0.8
) -> float:
    """Give the smallest true difference of means that a paired t test would mostly find.

    With the differences' standard deviation s and n queries it is s d / sqrt(n), where d is the
    noncentrality at which Student's t, noncentral and of n - 1 degrees of freedom, is above the
    critical value of the test at level alpha with that power. Exact for normal differences; the
    permutation test's power is much the same.

    Source: Cohen, Statistical Power Analysis, 1988, section 2.3; for retrieval, Webber, Moffat
    and Zobel, Statistical Power in Retrieval Experimentation, CIKM 2008, and Sakai, Topic Set
    Size Design, 2016.
    """
    from scipy.special import nctdtrinc, stdtrit

    critical = -float(stdtrit(queries - 1, alpha / 2))
    noncentrality = float(nctdtrinc(queries - 1, 1 - power, critical))
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


def tau_ap(actual: Mapping[str, float], estimated: Mapping[str, float]) -> Estimate:
    """Compute the AP rank correlation, to which the top of the estimated order matters most.

        2 / (N - 1) * sum over ranks i from 2 of C(i) / (i - 1), minus 1

    where C(i) is how many of those above rank i of the estimated order are above it in the actual
    one too. Not symmetric, and not defined where two are tied.

    Source: Yilmaz, Aslam and Robertson, A New Rank Correlation Coefficient for Information
    Retrieval, SIGIR 2008, equation 3.
    """
    one, other = _levels(actual), _levels(estimated)
    if reason := _no_order(one, other):
        return Estimate(reason=reason)
    if min(len(set(one)), len(set(other))) < len(one):
        return Estimate(reason="two are tied, and tau-ap knows no ties")
    down = [one[place] for place in sorted(range(len(other)), key=lambda n: -other[n])]
    shares = [sum(above > down[i] for above in down[:i]) / i for i in range(1, len(down))]
    return Estimate(value=2 * fmean(shares) - 1)


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
