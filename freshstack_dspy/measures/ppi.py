"""Values corrected for the judge's errors, from the labels that people gave a sample of the items."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from freshstack_dspy.measures.statistics import LEVEL, rare_sum
from freshstack_dspy.records import Record

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

FEWEST_ITEMS = 10
"""With fewer labelled items, or fewer than `FEWEST_OF_STRATUM` in a stratum, there is no estimate."""
FEWEST_OF_STRATUM = 5
FEW_CHANGED = 8
"""If people differ from the judge on fewer items, Student's interval covers too little."""


class Corrected(Record):
    """A value from the judge's labels, and its estimate from people's, with two 95% intervals."""

    judge: float
    value: float | None = None
    low: float | None = None
    high: float | None = None
    """The interval for these same items, had people labelled all of them."""
    wide_low: float | None = None
    wide_high: float | None = None
    """The interval for other queries like these."""
    labelled: int
    items: int
    reason: str | None = None
    """Why there is no value or no interval."""

    def because(self, reason: str) -> Self:
        """Give a copy with a reason."""
        return self.model_copy(update={"reason": reason})


def corrected_mean(  # noqa: PLR0913 - two sets of values, and how the second was drawn
    judge: Sequence[float],
    people: Sequence[float | None],
    *,
    strata: Sequence[Any] | None = None,
    queries: Sequence[Any] | None = None,
    judge_counts: Sequence[float] | None = None,
    people_counts: Sequence[float] | None = None,
    largest_counts: Sequence[float] | None = None,
    weights: Sequence[float] | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
    tail: float = (1 - LEVEL) / 2,
) -> Corrected:
    """Estimate what a mean would be with people's labels: the stratified difference estimator.

    With people's values y, the judge's values f, and W_h the share of stratum h among all items,
    where n_h of the N_h items of stratum h were drawn at random and labelled:

        θ = mean of f over all items + Σ_h W_h (mean of y - f over the labelled of h)
        V = Σ_h W_h² (1/n_h - 1/N_h) s_h²,  s_h² the variance of y - f in h

    With counts it is the ratio Σ y / Σ count, linearised: a mean over the queries that count (which
    may be other queries for people than for the judge), or a share of pairs in queries of unequal
    size. The interval takes Student's quantiles, with fewer degrees of freedom if few items make
    most of V (`_freedom`). Two cases where V says too little have another interval:

    - if people's values are 0 and 1 and the judge's are alike in each stratum, Wilson's intervals
      of the strata are combined (MOVER);
    - if people change fewer than `FEW_CHANGED` of the labelled items, as with a good judge, it is
      at least as wide as the gamma interval for a sum of rare changes, where the largest possible
      change may have been missed (`_Sample.rare`).

    V is for these same items; for other queries, the variance between the queries' parts of θ is
    added.

    Source: Särndal, Swensson and Wretman, Model Assisted Survey Sampling, 1992, sections 4.6 and 6.3;
    with λ = 1, Fisch et al., stratified PPI, arXiv 2406.04291; Zou and Donner, Statistics in Medicine
    2008 (MOVER); Wilson, JASA 1927; Fay and Feuer, Statistics in Medicine 1997 (gamma).

    Args:
        judge: The values of all items, which are pairs, or queries.
        people: People's values; None for items that are not labelled.
        strata: The stratum that each item was drawn from; by default all are in one.
        queries: The query of each item; by default each item has its own.
        judge_counts: How much each item counts with the judge's labels; 1 by default.
        people_counts: The same with people's labels; read only for labelled items.
        largest_counts: What each item can count at most; by default 1, or as with the judge's.
        weights: 1 / probability of each labelled item, if it differs within a stratum.
        bounds: The lowest and the highest value that an item can have, per unit of its count.
        tail: How often the truth may be below the interval, and how often above it.
    """
    import numpy as np

    sample = _Sample(people, strata, weights, tail)
    f, y = np.asarray(judge, float), sample.values
    ones: Array = np.ones(len(f))
    g = ones if judge_counts is None else np.asarray(judge_counts, float)
    z = ones if people_counts is None else np.where(sample.labelled, people_counts, 0).astype(float)
    result = Corrected(
        judge=float(f.sum() / max(g.sum(), 1e-300)),
        labelled=int(sample.numbers.sum()),
        items=len(f),
        reason=sample.too_few("pairs" if judge_counts is None else "queries"),
    )
    if result.reason:
        return result
    count = sample.total(z - g) + float(g.sum())
    if count <= 0:
        return result.because("by people's labels no labelled query counts")
    ratio = (sample.total(y - f) + float(f.sum())) / count
    predicted = f - ratio * g
    error = y - ratio * z - predicted
    means = sample.means(error)[sample.code]
    moved = sample.expansion * (error - means)  # by how much each labelled item moves the sum
    variance = float(moved**2 @ sample.finite) / count**2
    # If the judge's values differ within a stratum, beyond rounding, this is not a share of items.
    within = np.abs(f - (sample.sums(f) / sample.sizes)[sample.code]).max() > 1e-12
    binary = people_counts is None and bool(np.isin(y, (0, 1)).all()) and not within
    if binary:
        low, high = sample.wilson(ratio)
    else:
        freedom = _freedom(moved[sample.labelled], result.labelled - len(sample.sizes))
        below = above = _quantile(freedom, tail) * math.sqrt(variance)
        changed = (np.abs(y - f) + np.abs(z - g))[sample.labelled] > 1e-12
        if np.count_nonzero(changed) < FEW_CHANGED:
            values = np.concatenate([f[g > 0] / g[g > 0], y[z > 0] / z[z > 0], bounds]) - ratio
            most = np.maximum(g, 1 if largest_counts is None else largest_counts)
            down, up = sample.rare(
                error, predicted - values.min() * most, values.max() * most - predicted
            )
            below, above = max(below, down / count), max(above, up / count)
        low, high = ratio - below, ratio + above
    result = result.model_copy(update={"value": ratio, "low": low, "high": high})
    between, number = sample.between(predicted + means + moved, queries)
    if not number:
        return result
    more = _quantile(number, tail) * math.sqrt(max(0.0, between / count**2 - variance))
    low, high = ratio - math.hypot(ratio - low, more), ratio + math.hypot(high - ratio, more)
    if binary:
        low, high = max(0.0, low), min(1.0, high)
    return result.model_copy(update={"wide_low": low, "wide_high": high})


class _Sample:
    """Which items are labelled, each item's stratum, and how many items a labelled one stands for."""

    def __init__(
        self,
        people: Sequence[float | None],
        strata: Sequence[Any] | None,
        weights: Sequence[float] | None = None,
        tail: float = (1 - LEVEL) / 2,
    ) -> None:
        import numpy as np

        self.tail = tail
        self.labelled = np.array([value is not None for value in people])
        self.values = np.array([float(value or 0) for value in people])
        self.names, self.code = np.unique(
            np.asarray(strata if strata is not None else [""] * len(people)), return_inverse=True
        )
        self.sizes = np.bincount(self.code)
        self.numbers = np.bincount(self.code[self.labelled], minlength=len(self.sizes))
        raw = np.where(self.labelled, 1.0 if weights is None else weights, 0)
        total = self.sums(raw)
        self.weights = raw / np.where(total, total, 1)[self.code]  # 1 in each stratum
        self.expansion = self.sizes[self.code] * self.weights
        unseen = 1 - self.numbers / self.sizes
        self.finite = (unseen * self.numbers / np.maximum(self.numbers - 1, 1))[self.code]

    def too_few(self, what: str) -> str | None:
        """Give the reason why the labels are too few for an estimate, if they are."""
        number, items = int(self.numbers.sum()), len(self.values)
        if number < min(FEWEST_ITEMS, items):
            return f"{number} of {items} {what} are labelled, and {FEWEST_ITEMS} are needed"
        for name, size, labelled in zip(self.names, self.sizes, self.numbers, strict=True):
            if labelled < min(FEWEST_OF_STRATUM, size):
                return (
                    f"of {name!s}, {labelled} of {size} {what} are labelled, and "
                    f"{FEWEST_OF_STRATUM} are needed"
                )
        return None

    def sums(self, values: "Array") -> "Array":
        """The sum over each stratum."""
        import numpy as np

        return np.asarray(np.bincount(self.code, values, len(self.sizes)))

    def means(self, values: "Array") -> "Array":
        """The mean of the labelled items of each stratum."""
        return self.sums(self.weights * values)

    def total(self, values: "Array") -> float:
        """The sum over all items, estimated from the labelled ones."""
        return float(self.sizes @ self.means(values))

    def rare(self, error: "Array", down: "Array", up: "Array") -> tuple[float, float]:
        """How far a sum may be below and above its estimate, from changes that are seldom seen.

        Those up and those down are sums of Poisson counts with an interval each, put together
        (MOVER); `down` and `up` are the largest changes that are possible.
        """
        largest, rest = float(self.expansion.max()), math.sqrt(1 - self.labelled.mean())
        less, more = (
            rare_sum(
                (self.expansion * (change > 0) * change).tolist(),
                largest * max(0.0, most),
                tail=self.tail,
            )
            for change, most in ((-error, float(down.max())), (error, float(up.max())))
        )
        return (
            rest * math.hypot(less.high - less.value, more.value - more.low),
            rest * math.hypot(more.high - more.value, less.value - less.low),
        )

    def between(self, moved: "Array", queries: Sequence[Any] | None) -> tuple[float, int]:
        """The variance of a sum over queries drawn at random, and its degrees of freedom."""
        import numpy as np

        code, freedom = np.arange(len(moved)), len(moved) - 1
        if queries is not None:
            code = np.unique(np.asarray(queries), return_inverse=True)[1]
            moved = np.bincount(code, moved)
            # In a sample labelled in part, whole queries are missing.
            freedom = len(np.unique(code[self.labelled])) - 1
        return float(len(moved) * moved.var(ddof=1)) if freedom else 0.0, freedom

    def wilson(self, value: float) -> tuple[float, float]:
        """Put Wilson's intervals of the strata together, each for the items that it has."""
        import numpy as np

        shares, rates = self.sizes / self.sizes.sum(), self.means(self.values)
        finite = (self.sizes - self.numbers) / np.maximum(self.sizes - 1, 1)
        # One through the number of labels, as weights make it (Kish; Korn and Graubard 1998).
        weighted = self.sums(self.weights**2 * (self.values - rates[self.code]) ** 2)
        spread = np.where((rates > 0) & (rates < 1), rates * (1 - rates), math.inf)
        fewer = np.maximum(self.sums(self.weights**2), weighted / spread)
        square = _quantile(math.inf, self.tail) ** 2 * finite * fewer
        middle = (rates + square / 2) / (1 + square)
        half = np.sqrt(square * rates * (1 - rates) + square**2 / 4) / (1 + square)
        below, above = shares * (rates - middle + half), shares * (middle + half - rates)
        return value - math.sqrt(below @ below), value + math.sqrt(above @ above)


def _freedom(moved: "Array", most: int) -> float:
    """The degrees of freedom of a variance: fewer where few items make most of it (Satterthwaite).

    2 n / (κ - (n - 3) / (n - 1)) from the kurtosis κ of the n items, and no more than `most`.
    """
    number, largest = len(moved), float(abs(moved).max(initial=0))
    if number < 2 or largest == 0:
        return most
    squares = (moved / largest) ** 2
    kurtosis = number * float(squares @ squares) / float(squares.sum()) ** 2
    return min(most, 2 * number / (kurtosis - (number - 3) / (number - 1)))


def _quantile(freedom: float, tail: float) -> float:
    from scipy.special import ndtri, stdtrit

    return -float(ndtri(tail) if freedom == math.inf else stdtrit(max(freedom, 1), tail))
