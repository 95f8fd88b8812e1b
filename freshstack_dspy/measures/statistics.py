"""Intervals, tests, power and rank correlation for values by query; all deterministic by seed."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from pydantic import model_validator

from freshstack_dspy.records import Record

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

K = TypeVar("K")
SAME = 1e-12
"""Values that are this close, relatively, differ only by rounding."""
LEVEL = 0.95
"""The share of the bootstrap distribution that an interval spans."""
NO_WEIGHTS: Mapping[str, float] = MappingProxyType({})
"""Every query counts once."""
_BLOCK = 1 << 17
"""How many queries are drawn at a time: the arrays of a block have 1 MB each."""


def resamples_of(queries: int) -> int:
    """Give the number of resamples of an interval: 10,000, or fewer above 1,000 queries.

    Above 1,000 queries, ten million queries are drawn in all, in at least 1,000 resamples.
    """
    return min(10_000, max(1_000, 10_000_000 // max(queries, 1)))


class Estimate(Record):
    """A value, or else the reason why there is none."""

    value: float | None = None
    reason: str | None = None

    @model_validator(mode="after")
    def _value_or_reason(self) -> Self:
        if (self.value is None) == (self.reason is None):
            raise ValueError("an estimate has a value or the reason why there is none")
        return self


# Weights


class Weighted(NamedTuple):
    """Values by query, prepared for statistics that count each of them once."""

    terms: list[float]
    """n w v / W for each value v of weight w, with n values and W the sum of their weights: their
    mean is the weighted mean, and zeros stay 0."""
    linearized: list[float]
    """m + (n - 1) h (v - m) / (1 - h), centred at m, where m is the weighted mean and h = w / W: their
    standard deviation by √n is the jackknife's standard error of m, which a value that outweighs
    the others widens, and does not hide."""
    largest: float
    """The largest n w / W: what a value of 1 may add."""
    effective: float
    """W² / Σ w²: as many values of equal weight tell as much."""


def weighted(values: Sequence[float], weights: Sequence[float] = ()) -> Weighted:
    """Prepare values for statistics of their weighted mean; without weights, as they are.

    Source: Efron, The Jackknife, the Bootstrap and Other Resampling Plans, 1982, chapter 3; the last
    field: Kish, Survey Sampling, 1965, section 11.7.
    """
    column = list(values)
    if not weights or len(column) < 2:
        return Weighted(column, column, 1.0, len(column))
    mean, total, n = fmean(column, weights), math.fsum(weights), len(column)
    shares = [weight / total for weight in weights]
    pairs = [*zip(shares, column, strict=True)]
    moved = [(n - 1) * share * (value - mean) / max(1 - share, 1e-12) for share, value in pairs]
    centre = mean - fmean(moved)
    return Weighted(
        [n * share * value for share, value in pairs],
        [centre + each for each in moved],
        n * max(shares),
        1 / math.fsum(share**2 for share in shares),
    )


def in_order(weights: Mapping[str, float], queries: Iterable[str]) -> list[float]:
    """Give the weights of queries, 1 where one has none; an empty list if there are no weights."""
    return [weights.get(query, 1.0) for query in queries] if weights else []


def weighted_mean(values: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Give Σ w v / Σ w; of values from a sample, Hájek's estimator. Without weights, the mean."""
    return fmean(values.values(), in_order(weights, values) or None)


# Intervals


class Interval(Record):
    """A value with its 95% bootstrap interval.

    Percentile intervals of a mean cover .89 to .91 instead of .95 where 30 to 60 values lie near
    the ceiling.
    """

    value: float | None
    """The value on all items; None if it is undefined."""
    low: float | None
    high: float | None
    """The upper end; both ends are None if there is no interval."""
    groups: int
    """How many groups (queries) there are."""
    reason: str | None = None
    """Why there is no interval; None if there is one."""


def bootstrap(
    sums: "Array",
    statistics: Callable[["Array"], Mapping[K, "Array"]],
    *,
    resamples: int | None = None,
    seed: int = 0,
) -> dict[K, Interval]:
    """Compute the percentile intervals of statistics of sums over queries, by a cluster bootstrap.

    The items of one query are not independent, so whole queries are drawn with replacement, as many
    as there are. An interval has a reason in place of ends if there are fewer than two queries, the
    value is undefined, more resamples are undefined than one tail has, or the resamples do not
    vary.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, ch. 13; Field and Welsh,
    Bootstrapping Clustered Data, 2007.

    Args:
        sums: The sums of each query's items, queries x …; leave out queries without items.
        statistics: From sums over drawn queries (draws x …) to arrays of values by name, one for
            each draw; `nan` where a value is undefined.
        resamples: How many resamples to draw; by default `resamples_of`.
        seed: The seed of the random numbers.
    """
    import numpy as np
    from threadpoolctl import threadpool_limits

    groups = len(sums)
    resamples = resamples or resamples_of(groups)
    blocks = [statistics(np.tensordot(np.ones((1, groups)), sums, 1))]
    with threadpool_limits(1, "blas"):  # products so small make its threads wait for one another
        for start, stop in _blocks(resamples, groups) if groups > 1 else ():
            counts = _draws(groups, resamples, seed)[start:stop].astype(float)
            blocks.append(statistics(np.tensordot(counts, sums, 1)))
    values = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    return {name: _interval(of_all[0], of_all[1:], groups) for name, of_all in values.items()}


@lru_cache(maxsize=4)
def _draws(groups: int, resamples: int, seed: int) -> "Array":
    """How often each resample has each query; the intervals of several runs share their draws."""
    import numpy as np

    generator = np.random.default_rng(seed)
    draws = np.empty((resamples, groups), np.uint8)  # 256 times one query: p < 1 / 256!
    for start, stop in _blocks(resamples, groups):
        drawn = generator.integers(groups, size=(stop - start, groups))
        places = drawn + groups * np.arange(stop - start)[:, None]
        draws[start:stop] = np.bincount(places.ravel(), minlength=drawn.size).reshape(drawn.shape)
    return draws


def _interval(whole: float, draws: "Array", groups: int) -> Interval:
    """Give the interval of a value; without spread no ends, which would claim certainty."""
    import numpy as np

    value = None if math.isnan(whole) else float(whole)
    undefined, tail = int(np.isnan(draws).sum()), (1 - LEVEL) / 2
    low = high = reason = None
    if groups < 2:
        reason = f"an interval over queries needs two with a value, not {groups}"
    elif value is None:
        reason = "the value is undefined on all items"
    elif undefined > tail * len(draws):
        reason = f"the value is undefined on {undefined} of {len(draws)} resamples"
    elif math.isclose(np.nanmin(draws), np.nanmax(draws), rel_tol=SAME):
        reason = "all resamples give the same value, so they do not tell how sure it is"
    else:
        low, high = np.nanquantile(draws, (tail, 1 - tail)).tolist()
    return Interval(value=value, low=low, high=high, groups=groups, reason=reason)


def mean_intervals(
    columns: Mapping[K, Mapping[str, float]],
    resamples: int | None = None,
    weights: Mapping[str, float] = NO_WEIGHTS,
) -> dict[K, Interval]:
    """Compute the interval of the mean of each column of values by query id.

    Columns of one length share their draws. With weights, a draw's mean is the weighted one of the
    drawn queries.
    """
    import numpy as np

    intervals: dict[K, Interval] = {}
    for length in {len(values) for values in columns.values()}:
        names = [name for name, values in columns.items() if len(values) == length]
        array = np.array([[value for _, value in sorted(columns[name].items())] for name in names])
        if weights:
            by_weight = [in_order(weights, sorted(columns[name])) for name in names]
            array = np.concatenate([array * by_weight, by_weight])

        def means(sums: "Array", names: list[K] = names, length: int = length) -> dict[K, "Array"]:
            divisors = sums.T[len(names) :] if weights else length or math.nan
            return dict(zip(names, sums.T[: len(names)] / divisors, strict=True))

        intervals |= bootstrap(array.T, means, resamples=resamples)
    return {  # the mean is exactly rounded
        name: intervals[name].model_copy(update={"value": weighted_mean(values, weights)})
        if values
        else intervals[name]
        for name, values in columns.items()
    }


def mean_interval(
    values: Mapping[str, float],
    resamples: int | None = None,
    weights: Mapping[str, float] = NO_WEIGHTS,
) -> Interval:
    """Compute the interval of one mean, as `mean_intervals` does."""
    return mean_intervals({"": values}, resamples, weights)[""]


def macro_interval(
    values: Mapping[str, float],
    topics: Mapping[str, Sequence[str]],
    resamples: int | None = None,
    weights: Mapping[str, float] = NO_WEIGHTS,
) -> Interval:
    """Compute the interval of a macro-average: the mean of the means of the topics.

    The topics are fixed, and their queries are a sample. A query moves the average of G topics by
    the sum, over its topics with n queries and mean m, of

        (value - m) / (n G) * sqrt(n / (n - 1))

    (with weights w / Σ w in place of 1 / n), and whole queries are drawn with what they move. The root corrects for m being the mean of the
    same n queries. A topic with one query is compared with the average of all topics (collapsed
    strata), with G in place of n under the root. No end lies beyond the values themselves. With one
    topic it is `mean_interval`.

    Source: Rao and Wu, Resampling Inference with Complex Survey Data, JASA 1988, the rescaled
    bootstrap; collapsed strata: Cochran, Sampling Techniques, 1977, section 5A.12; whole queries:
    Field and Welsh, Bootstrapping Clustered Data, 2007.

    Args:
        values: By query id.
        topics: The topics of each query, by query id.
        resamples: How many resamples to draw; by default `resamples_of`.
        weights: By query id; a query that is missing weighs 1.
    """
    import numpy as np

    members: dict[str, dict[str, float]] = {}
    for query in sorted(values):
        for topic in set(topics[query]):
            members.setdefault(topic, {})[query] = values[query]
    if len(members) < 2:
        return mean_interval(values, resamples, weights)
    groups = [members[topic] for topic in sorted(members)]
    means = [weighted_mean(group, weights) for group in groups]
    macro = fmean(means)
    moved = dict.fromkeys(sorted(values), 0.0)
    for group, mean in zip(groups, means, strict=True):
        number, middle = (len(group), mean) if len(group) > 1 else (len(groups), macro)
        by_weight = in_order(weights, group) or [1.0] * len(group)
        scale = math.sqrt(number / (number - 1)) / (math.fsum(by_weight) * len(groups))
        for (query, value), weight in zip(group.items(), by_weight, strict=True):
            moved[query] += scale * weight * (value - middle)
    shift = fmean(moved.values())
    sums = np.array([[macro / len(moved) + each - shift] for each in moved.values()])
    ends = min(values.values()), max(values.values())
    drawn = bootstrap(sums, lambda draws: {"": draws[:, 0].clip(*ends)}, resamples=resamples)[""]
    return drawn.model_copy(update={"value": macro})


class RareSum(NamedTuple):
    """A sum of rare changes, and the ends of its 95% interval."""

    low: float
    value: float
    high: float


def rare_sum(changes: Sequence[float], largest: float, *, tail: float = (1 - LEVEL) / 2) -> RareSum:
    """Bound a sum of rare changes, taken as Poisson counts of the sizes that were seen.

    With y the sum of the changes and v the sum of their squares, the ends are

        v / 2y times the `tail` quantile of χ² with 2y² / v degrees of freedom
        (v + m²) / 2(y + m) times the 1 - `tail` quantile with 2(y + m)² / (v + m²) degrees

    where m is the largest possible change, which may have been missed once.

    Source: Fay and Feuer, Confidence Intervals for Directly Standardized Rates, Statistics in
    Medicine 1997 (the gamma interval).
    """
    from scipy.special import chdtri

    def end(total: float, squares: float, tail: float) -> float:
        if not squares:
            return 0.0
        return float(chdtri(2 * total**2 / squares, tail)) * squares / (2 * total)

    total, squares = math.fsum(changes), math.fsum(change**2 for change in changes)
    return RareSum(
        end(total, squares, 1 - tail), total, end(total + largest, squares + largest**2, tail)
    )


def _blocks(number: int, width: int, block: int = _BLOCK) -> Iterator[tuple[int, int]]:
    size = max(1, block // width)
    for start in range(0, number, size):
        yield start, min(number, start + size)


# Tests


class Significance(Record):
    """The p-value of a test."""

    p_value: float | None = None
    """Two-sided, above 0; None if the test is not possible."""
    standard_error: float | None = None
    """How far the p-value may be off because permutations were sampled."""
    smallest: float | None = None
    """The smallest p-value that these permutations could have given, however large the
    differences."""
    reason: str | None = None
    """Why there is no p-value; None if there is one."""


MOST_ENUMERATED = 20
"""The most nonzero differences for which all signs are enumerated (half a million sums)."""


def permutation_tests(
    columns: Sequence[Sequence[float]], *, permutations: int = 100_000
) -> list[Significance]:
    """Test whether runs differ, by the paired permutation test of their mean difference.

    If two runs were alike, each query's difference could as well have the other sign. The p-value
    is the share of all choices of signs that give a mean at least as far from 0, on either side.
    Up to 20 nonzero differences, all choices are enumerated and the p-value is exact. Above, m
    choices are sampled, and the p-value is (b + 1) / (m + 1) if b of them are as far: the observed
    signs count too, so it is never 0.

    Source: Fisher, The Design of Experiments, 1935, section 21; Smucker, Allan and Carterette,
    A Comparison of Statistical Significance Tests for Information Retrieval Evaluation, CIKM
    2007; (b + 1) / (m + 1): Phipson and Smyth, Permutation P-values Should Never Be Zero, 2010.

    Args:
        columns: For each pair of runs, the differences by query, in a fixed order; all columns
            share the sampled signs.
        permutations: How many choices of signs to sample.
    """
    import numpy as np

    scaled = [np.divide(column, max(map(abs, column), default=0) or 1) for column in columns]
    observed = [
        abs(math.fsum(each)) - 1e-10 * float(abs(each).sum()) for each in scaled
    ]  # rounding
    sampled = [place for place, each in enumerate(scaled) if (each != 0).sum() > MOST_ENUMERATED]
    # A difference of 0 changes no sum, so shorter columns are padded with 0.
    array = np.zeros((max((len(scaled[place]) for place in sampled), default=0), len(sampled)))
    for number, place in enumerate(sampled):
        array[: len(scaled[place]), number] = scaled[place]
    least = np.array([observed[place] for place in sampled])
    as_far = dict(zip(sampled, _as_far_by_chance(array, least, permutations), strict=True))

    def tested(place: int) -> Significance:
        if len(scaled[place]) < 2:
            return Significance(reason=f"a paired test needs two queries, not {len(scaled[place])}")
        if place not in as_far:
            sums = _sums_of_all_signs(scaled[place][scaled[place] != 0])
            share = float(np.mean(abs(sums) >= observed[place]))
            return Significance(p_value=share, standard_error=0.0, smallest=1 / len(sums))
        p = (as_far[place] + 1) / (permutations + 1)
        error = math.sqrt(p * (1 - p) / permutations)
        return Significance(p_value=p, standard_error=error, smallest=1 / (permutations + 1))

    return list(map(tested, range(len(scaled))))


def _sums_of_all_signs(differences: "Array") -> "Array":
    """Sum up under all signs; the first stays, because flipping all keeps the distance from 0."""
    import numpy as np

    sums = differences[:1] if len(differences) else np.zeros(1)
    for difference in differences[1:]:
        sums = np.concatenate([sums + difference, sums - difference])
    return sums


def _as_far_by_chance(differences: "Array", least: "Array", permutations: int) -> list[int]:
    """Count, for each column, the sums under random signs that are as far from 0."""
    import numpy as np
    from threadpoolctl import threadpool_limits

    queries, totals = len(differences), differences.sum(axis=0)
    generator = np.random.default_rng(0)
    counts = np.zeros(len(least), dtype=np.int64)
    with threadpool_limits(1, "blas"):
        for start, stop in _blocks(permutations, queries, 8 * _BLOCK) if queries else ():
            bits = np.frombuffer(generator.bytes((stop - start) * (-(-queries // 8))), np.uint8)
            signs = np.unpackbits(bits.reshape(stop - start, -1), axis=1)[:, :queries]
            for part in np.array_split(signs, 8):  # as much as the processor's cache holds
                sums = totals - 2 * (part.astype(np.float64) @ differences)
                counts += np.count_nonzero(np.abs(sums) >= least, axis=0)
    return counts.tolist()


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
    """Adjust the p-values of a family of tests, so that all are compared with the same level.

    With m tests and the p-values ascending, p(1) to p(m), p(i) becomes the largest of
    min(1, (m - j + 1) p(j)) over j <= i, which bounds the chance of any false finding.

    Source: Holm, A Simple Sequentially Rejective Multiple Test Procedure, 1979.
    """
    tests = len(p_values)
    order = sorted(range(tests), key=p_values.__getitem__)
    adjusted = accumulate(((tests - i) * p_values[place] for i, place in enumerate(order)), max)
    by_place = dict(zip(order, adjusted, strict=True))
    return [min(1.0, by_place[place]) for place in range(tests)]


# Power

FEWEST = 10
"""With fewer queries, their observed spread means little."""


def detectable_difference(deviation: float, queries: int, *, alpha: float = 0.05) -> float:
    """Give the smallest true difference of means that a paired t test finds four times in five.

    With the differences' standard deviation s and n queries it is s d / sqrt(n), where d is the
    noncentrality at which noncentral t with n - 1 degrees of freedom exceeds the critical value of
    the test at level alpha with probability .8. It is exact for normal differences; the power of
    the permutation test is much the same.

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
    """Compute Kendall's tau-b, which allows for ties, of two orders given as values by name.

    Values that differ only by rounding (1e-12) are tied. It is the correlation of the signs of all
    differences, and undefined with fewer than two values or if all values of an order are tied.

    Source: Kendall, The Treatment of Ties in Ranking Problems, Biometrika 1945.
    """
    return _correlation(first, second, lambda signs: signs.ravel())


def spearman_rho(first: Mapping[str, float], second: Mapping[str, float]) -> Estimate:
    """Compute Spearman's rank correlation, where ties have their mean rank; see `kendall_tau`.

    Source: Spearman, The Proof and Measurement of Association between Two Things, 1904.
    """
    return _correlation(first, second, lambda signs: signs.sum(axis=1))  # twice the ranks, centred


def kendall_intervals(
    tables: Mapping[str, Mapping[str, Mapping[str, float]]], pairs: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], Interval]:
    """Compute Kendall's tau-b of the means of two tables' rows, with its interval over queries.

    In each resample of the queries all means are computed anew. A tau is undefined where all rows
    of a table are tied, or a row has no value.

    Args:
        tables: By name, the values by row (such as a run) and query; all have the same rows.
        pairs: The names of the tables to correlate.
    """
    import numpy as np

    places = {name: place for place, name in enumerate(tables)}
    names = list(next(iter(tables.values())))
    rows = [[table[name] for name in names] for table in tables.values()]
    queries = sorted({query for table in rows for row in table for query in row})
    sums = [[[[row.get(q, 0.0), q in row] for row in table] for table in rows] for q in queries]
    left, right = np.triu_indices(len(names), 1)

    def taus(drawn: "Array") -> "Array":
        means = (drawn[..., 0] / drawn[..., 1]).round(12)  # rounding is no order
        signs = np.sign(means[..., left] - means[..., right])
        products = signs @ signs.swapaxes(1, 2)
        untied = np.sqrt(products.diagonal(axis1=1, axis2=2))
        correlations: Array = products / (untied[:, :, None] * untied[:, None, :])
        return correlations

    def statistics(drawn: "Array") -> dict[tuple[str, str], "Array"]:
        with np.errstate(invalid="ignore", divide="ignore"):
            blocks = [
                taus(drawn[start:stop])
                for start, stop in _blocks(len(drawn), len(tables) * len(left), 16 * _BLOCK)
            ]
        whole = np.concatenate(blocks)
        return {pair: whole[:, places[pair[0]], places[pair[1]]] for pair in pairs}

    return bootstrap(np.array(sums, dtype=float), statistics)


def _correlation(
    first: Mapping[str, float], second: Mapping[str, float], scores: Callable[["Array"], "Array"]
) -> Estimate:
    """Correlate what `scores` makes of the signs of all differences within each order."""
    import numpy as np

    if len(first) < 2:
        return Estimate(reason=f"an order needs two, not {len(first)}")
    scored = []
    for which, by_name in (("first", first), ("second", second)):
        values = [
            float(f"{by_name[name]:.12g}") for name in sorted(by_name)
        ]  # rounding is no order
        signs = np.sign(np.subtract.outer(values, values))
        if not signs.any():
            return Estimate(reason=f"all {len(first)} are tied in the {which}")
        scored.append(scores(signs))
    x, y = scored
    return Estimate(value=max(-1.0, min(1.0, float(x @ y / math.sqrt((x @ x) * (y @ y))))))


Correlations = dict[str, Interval]
"""By name: Pearson's r, Spearman's rho and Kendall's tau-b."""
ItemValues = Mapping[tuple[str, str], float]
"""By query id and another id."""


def correlation_intervals(raters: Sequence[tuple[ItemValues, ItemValues]]) -> Correlations:
    """Compute how two raters' values of the same items correlate, with intervals over queries.

    Args:
        raters: The values by one and by the other rater. With several pairs of raters, each
            coefficient is the mean over the pairs, weighted by their numbers of items.
    """
    import numpy as np

    queries = sorted({query for values, _ in raters for query, _ in values})
    columns: list[tuple[list[int], Array, Array]] = []
    for values, others in raters:
        items = sorted(values)
        first, second = (np.array([each[item] for item in items]) for each in (values, others))
        columns.append(([queries.index(query) for query, _ in items], first, second))

    def means(counts: "Array") -> dict[str, "Array"]:
        sums: dict[str, Array] = {}
        for places, first, second in columns:
            weights = counts[:, places]
            for name, values in correlations(first, second, weights).items():
                number = np.where(np.isnan(values), 0, weights.sum(-1))
                sums[name] = sums.get(name, 0) + np.stack([np.nan_to_num(values) * number, number])
        with np.errstate(invalid="ignore"):
            return {name: total / number for name, (total, number) in sums.items()}

    return bootstrap(np.eye(len(queries)), means)


def correlations(first: "Array", second: "Array", weights: "Array") -> dict[str, "Array"]:
    """Compute Pearson's r, Spearman's rho and Kendall's tau-b of the values of items.

    Args:
        first: The values of the items; values that differ only by rounding (1e-12) are tied.
        second: Their other values.
        weights: How often each item counts, draws x items. A coefficient is given for each draw,
            `nan` if it is undefined.
    """
    import numpy as np

    x, y = (np.array([float(f"{value:.12g}") for value in column]) for column in (first, second))
    signs = [np.sign(np.subtract.outer(column, column)) for column in (x, y)]

    def ratio(both: "Array", one: "Array", other: "Array") -> "Array":
        varies = (one > SAME) & (other > SAME)
        ratios: Array = (both / np.sqrt(np.where(varies, one * other, 1))).clip(-1, 1)
        return np.where(varies, ratios, np.nan)

    def correlation(x: "Array", y: "Array") -> "Array":
        number = np.maximum(weights.sum(-1, keepdims=True), 1)
        x, y = (column - (weights * column).sum(-1, keepdims=True) / number for column in (x, y))
        return ratio(*((weights * part).sum(-1) for part in (x * y, x * x, y * y)))

    def over_pairs(one: "Array", other: "Array") -> "Array":
        sums: Array = ((weights @ (one * other)) * weights).sum(-1)
        return sums

    ranks = [weights @ column.T for column in signs]  # twice the mean ranks, centred
    tau = ratio(*(over_pairs(*two) for two in (signs, signs[:1] * 2, signs[1:] * 2)))
    return {
        "Pearson's r": correlation(x, y),
        "Spearman's rho": correlation(*ranks),
        "Kendall's tau-b": tau,
    }
