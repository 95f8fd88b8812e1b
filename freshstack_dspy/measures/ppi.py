"""Values corrected for the judge's errors, from the labels that people gave a sample (PPI++)."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from freshstack_dspy.measures.statistics import LEVEL
from freshstack_dspy.records import Record

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

FEWEST_ITEMS = 10
"""Labelled items below which there is no estimate, and `FEWEST_OF_STRATUM` those of a stratum."""
FEWEST_OF_STRATUM = 5
FEWEST_CHANGED = 8
"""Items on which people differ from the judge, below which an interval from the changes covers too
little."""
FEWEST_OTHER = 10
"""Labelled queries on which the judge's value may be expected not to be its commonest (of RR, 1),
below which a mean has no interval: it would be given where many happen to change, and cover too
little there."""
FEWEST_TUNED = 300
"""Labelled items from which λ is tuned. With fewer, λ and the labels' mean depend on each other, and
intervals cover too little; it is 1."""


class Corrected(Record):
    """A value by the judge, and its estimate by people's labels, with two 95% intervals."""

    judge: float
    value: float | None = None
    low: float | None = None
    high: float | None = None
    """The interval of what these same items would give, were all of them labelled by people."""
    wide_low: float | None = None
    wide_high: float | None = None
    """The interval of what other queries like these would give."""
    labelled: int
    items: int
    power: float | None = None
    """λ, how much the judge's values count: 0 not at all, as with labels alone, to 1."""
    reason: str | None = None
    """Why there is no value or no interval."""

    def because(self, reason: str) -> Self:
        """Give the same with a reason."""
        return self.model_copy(update={"reason": reason})


def corrected_mean(
    judge: Sequence[float],
    people: Sequence[float | None],
    *,
    strata: Sequence[Any] | None = None,
    queries: Sequence[Any] | None = None,
    judge_counts: Sequence[float] | None = None,
    people_counts: Sequence[float] | None = None,
    weights: Sequence[float] | None = None,
    power: float | None = None,
) -> Corrected:
    """Estimate what a mean would be by people's labels: PPI++, stratified, clustered by query.

    With y of people, f of the judge, and W_h the share of stratum h among all items, of whose N_h
    items n_h were drawn at random and labelled:

        θ = mean of λ f over all items + Σ_h W_h (mean of y - λ f over the labelled of h)
        V = Σ_h W_h² (1/n_h - 1/N_h) s_h²,  s_h² the variance of y - λ f in h

    V is for these same items; for other queries the variance between the queries' sums of what θ
    consists of is added. λ makes V least. Quantiles are Student's, of fewer degrees of freedom where
    few items make most of V (`_freedom`). Where people's values are 0 and 1
    and the judge's are alike in each stratum, Wilson's intervals of the strata are put together
    (MOVER): V is 0 where few labels agree. With counts it is the ratio Σ y / Σ count, linearised: a
    measure's mean over the queries that count, which are others by people than by the judge.

    Source: Angelopoulos, Bates and Zrnic, PPI++, arXiv 2311.01453, section 2 and example 6.1 (where
    the mean of f is over the unlabelled, λ is ours times their share); Fisch et al., stratified PPI,
    arXiv 2406.04291; Särndal, Swensson and Wretman, Model Assisted Survey Sampling, 1992, sections
    4.6 and 6.3; Zou and Donner, Statistics in Medicine 2008; Wilson, JASA 1927.

    Args:
        judge: Of all items, which are pairs, or queries.
        people: Of the same; None where it is not labelled.
        strata: From which part each item was drawn; by default they are one.
        queries: The query of each item; by default each is of its own.
        judge_counts: What each counts by the judge; 1 by default.
        people_counts: The same by people; read where it is labelled.
        weights: 1 / probability of each labelled item, where it differs within a stratum.
        power: λ; by default 1, and tuned from `FEWEST_TUNED` labelled items on.
    """
    import numpy as np

    of = _Sample(people, strata, weights)
    f, y = np.asarray(judge, float), of.values
    one: Array = np.ones(len(f))
    g = one if judge_counts is None else np.asarray(judge_counts, float)
    z = one if people_counts is None else np.where(of.labelled, people_counts, 0).astype(float)
    what = "queries" if judge_counts is not None else "pairs"
    found = of.found(float(f.sum() / max(g.sum(), 1e-300)), what)
    if found.reason:
        return found
    tuned = power is None and found.labelled >= FEWEST_TUNED
    lam = float(not tuned) if power is None else power
    ratio, count, predicted = 0.0, 0.0, f
    for _ in range(4 if tuned else 1):  # λ depends on the ratio, and the ratio on λ
        count = of.total(z - lam * g) + lam * float(g.sum())
        if count <= 0:
            return found.because("by people's labels no labelled query counts")
        ratio = (of.total(y - lam * f) + lam * float(f.sum())) / count
        predicted = f - ratio * g
        if tuned:
            lam = of.least_variance(y - ratio * z, predicted)
    error = y - ratio * z - lam * predicted
    here = of.variance(error, error) / count**2
    found = found.model_copy(update={"value": ratio, "power": lam})
    binary = people_counts is None and bool(np.isin(y, (0, 1)).all()) and not of.within(f).any()
    changed = int(((np.abs(y - f) + np.abs(z - g))[of.labelled] > 1e-12).sum())
    if binary:
        low, high = of.wilson(ratio)
    elif reason := _too_few(found, what, changed, f, g):
        return found.because(reason)
    else:
        freedom = _freedom(of.moved(error), found.labelled - len(of.sizes) - tuned)
        half = _quantile(freedom) * math.sqrt(here)
        low, high = ratio - half, ratio + half
    found = found.model_copy(update={"low": low, "high": high})
    variance, number = of.between(lam * predicted + of.expanded(error), queries)
    if not number:
        return found
    more = _quantile(number) * math.sqrt(max(0.0, variance / count**2 - here))
    low, high = ratio - math.hypot(ratio - low, more), ratio + math.hypot(high - ratio, more)
    if binary:
        low, high = max(0.0, low), min(1.0, high)
    return found.model_copy(update={"wide_low": low, "wide_high": high})


def corrected_share(
    judge: Sequence[float], people: Sequence[float | None], sizes: Sequence[float]
) -> Corrected:
    """Estimate a share of all pairs from queries that are labelled in full, of unequal size.

    Of a query's m pairs f are in the share by the judge, and y by people:

        θ = Σ f / Σ m over all queries + D,  D = Σ (y - f) / Σ m over the n labelled of N
        V = (1 - n/N) Σ (e / (1 - m / Σ m))² / (Σ m)²,  e = y - f - D m, over the labelled

    V is about the jackknife's: a large query draws D to itself. Intervals are as in
    `corrected_mean`.

    Source: Cochran, Sampling Techniques, 1977, sections 6.3 and 6.17; the leverage: MacKinnon and
    White, Journal of Econometrics 1985 (HC3).
    """
    import numpy as np

    of = _Sample(people, None)
    f, m = np.asarray(judge, float), np.asarray(sizes, float)
    share = float(f.sum() / m.sum())
    found = of.found(share, "queries")
    if found.reason:
        return found
    here, drawn = of.labelled, float(m[of.labelled].sum())
    changes = np.where(here, of.values - f, 0)
    change = float(changes.sum()) / drawn
    error = np.where(here, changes - change * m, 0)
    value = share + change
    found = found.model_copy(update={"value": value, "power": 1.0})
    changed = int((np.abs(changes) > 1e-12).sum())
    if reason := _too_few(found, "queries", changed, f):
        return found.because(reason)
    moved = error[here] / np.maximum(1 - m[here] / drawn, 1e-9)
    rest = 1 - found.labelled / found.items
    half = math.sqrt(rest * float(moved @ moved)) / drawn
    half *= _quantile(_freedom(moved, found.labelled - 1))
    variance, number = of.between(f - share * m + of.expanded(error), None)
    between = (variance - of.variance(error, error)) / float(m.sum()) ** 2
    wide = math.hypot(half, _quantile(number) * math.sqrt(max(0.0, between)))
    ends = {"low": -half, "high": half, "wide_low": -wide, "wide_high": wide}
    return found.model_copy(
        update={name: min(1.0, max(0.0, value + end)) for name, end in ends.items()}
    )


def rogan_gladen(
    judge: Sequence[int], people: Sequence[int | None], *, strata: Sequence[Any] | None = None
) -> Corrected:
    """Estimate a rate by people's labels from the judge's sensitivity and specificity.

        θ = (rate by the judge + specificity - 1) / (sensitivity + specificity - 1)

    Both are of the labelled items, weighted by N_h / n_h. The interval is for these same items, by
    the delta method. Where the judge's labels are alike in each stratum, value and interval are
    those of `corrected_mean`, whose arguments it takes.

    Source: Rogan and Gladen, American Journal of Epidemiology 1978; Lee et al., arXiv 2511.21140.
    """
    import numpy as np

    of = _Sample(people, strata)
    f, y = np.asarray(judge, float), of.values
    found, number = of.found(float(f.mean())), len(f)
    if found.reason:
        return found
    rate = of.total(y) / number
    if not 0 < rate < 1:
        return found.because("people gave all labelled items one label")
    sensitivity = of.total(f * y) / number / rate
    specificity = of.total((1 - f) * (1 - y)) / number / (1 - rate)
    if (informed := sensitivity + specificity - 1) <= 0:
        return found.because(
            f"sensitivity {sensitivity:.2f} and specificity {specificity:.2f}: the judge is no "
            "better than chance"
        )
    value = (found.judge + specificity - 1) / informed
    slope = (1 - value) * (1 - f - specificity) * (1 - y) / (1 - rate)
    slope -= value * (f - sensitivity) * y / rate
    error = math.sqrt(of.variance(slope, slope)) / number / informed
    half = _quantile(found.labelled - len(of.sizes)) * error
    low, high = (value - half, value + half) if of.within(f).any() else of.wilson(value)
    ends = {"value": value, "low": low, "high": high}
    return found.model_copy(update={name: min(1.0, max(0.0, end)) for name, end in ends.items()})


class _Sample:
    """Which items are labelled, and of which stratum each is."""

    def __init__(
        self,
        people: Sequence[float | None],
        strata: Sequence[Any] | None,
        weights: Sequence[float] | None = None,
    ) -> None:
        import numpy as np

        self.labelled = np.array([value is not None for value in people])
        self.values = np.array([float(value or 0) for value in people])
        self.names, self.code = np.unique(
            np.asarray(strata if strata is not None else [""] * len(people)), return_inverse=True
        )
        self.sizes = np.bincount(self.code)
        self.numbers = np.bincount(self.code[self.labelled], minlength=len(self.sizes))
        given = np.where(self.labelled, 1.0 if weights is None else weights, 0)
        sums = np.bincount(self.code, given, len(self.sizes))
        self.weights = given / np.where(sums, sums, 1)[self.code]  # 1 in each stratum

    def found(self, judge: float, what: str = "pairs") -> Corrected:
        """Begin an estimate, with the reason where the labels are too few."""
        number, items = int(self.numbers.sum()), len(self.values)
        reason = None
        if number < min(FEWEST_ITEMS, items):
            reason = f"{number} of {items} {what} are labelled, and {FEWEST_ITEMS} are needed"
        for name, size, labelled in zip(self.names, self.sizes, self.numbers, strict=True):
            if reason is None and labelled < min(FEWEST_OF_STRATUM, size):
                reason = (
                    f"of {name!s}, {labelled} of {size} {what} are labelled, and "
                    f"{FEWEST_OF_STRATUM} are needed"
                )
        return Corrected(judge=judge, labelled=number, items=items, reason=reason)

    def means(self, values: "Array") -> "Array":
        """The mean of the labelled items of each stratum."""
        return self._sums(self.weights * values)

    def _sums(self, values: "Array") -> "Array":
        import numpy as np

        return np.asarray(np.bincount(self.code, values, len(self.sizes)))

    def total(self, values: "Array") -> float:
        """The sum over all items, estimated from the labelled ones."""
        return float(self.sizes @ self.means(values))

    def variance(self, one: "Array", other: "Array") -> float:
        """The variance of an estimated sum, or the covariance of two."""
        import numpy as np

        centred = (one - self.means(one)[self.code]) * (other - self.means(other)[self.code])
        spread = self._sums(self.weights**2 * centred)
        spread *= self.numbers / np.maximum(self.numbers - 1, 1)
        return float((self.sizes * (self.sizes - self.numbers)) @ spread)

    def within(self, values: "Array") -> "Array":
        """Values of all items minus the mean of their stratum; 0 where they differ by rounding."""
        import numpy as np

        less = values - (self._sums(values) / self.sizes)[self.code]
        return np.where(np.abs(less) > 1e-12, less, 0)

    def least_variance(self, people: "Array", judge: "Array") -> float:
        """The λ from 0 to 1 that makes the variance of people - λ judge least."""
        import numpy as np

        spread = self._sums(self.within(judge) ** 2) / np.maximum(self.sizes - 1, 1)
        spread *= self._sums(self.weights**2)
        variance = float((self.sizes * (self.sizes - self.numbers)) @ spread)
        return min(1.0, max(0.0, self.variance(people, judge) / max(variance, 1e-300)))

    def moved(self, error: "Array") -> "Array":
        """By how much each labelled item moves an estimated sum."""
        import numpy as np

        moved = self.sizes[self.code] * self.weights * (error - self.means(error)[self.code])
        return np.asarray(moved[self.labelled])

    def expanded(self, error: "Array") -> "Array":
        """What each item adds to an estimated sum: its stratum's mean, a labelled one its own too."""
        import numpy as np

        means = self.means(error)[self.code]
        return np.asarray(means + self.sizes[self.code] * self.weights * (error - means))

    def between(self, moved: "Array", queries: Sequence[Any] | None) -> tuple[float, int]:
        """The variance of a sum over queries drawn at random, and its degrees of freedom."""
        import numpy as np

        code = np.arange(len(moved))
        if queries is not None:
            code = np.unique(np.asarray(queries), return_inverse=True)[1]
            moved = np.bincount(code, moved)
        # Of a sample labelled in part, whole queries are missing.
        freedom = len(np.unique(code[self.labelled])) - 1 if queries is not None else len(code) - 1
        return float(len(moved) * moved.var(ddof=1)) if freedom else 0.0, freedom

    def wilson(self, value: float) -> tuple[float, float]:
        """Put Wilson's intervals of the strata together, each for the items that it has."""
        import numpy as np

        shares, rates = self.sizes / self.sizes.sum(), self.means(self.values)
        finite = (self.sizes - self.numbers) / np.maximum(self.sizes - 1, 1)
        # One through the number of labels, as weights make it (Kish; Korn and Graubard 1998).
        weighted = self._sums(self.weights**2 * (self.values - rates[self.code]) ** 2)
        spread = np.where((rates > 0) & (rates < 1), rates * (1 - rates), math.inf)
        fewer = np.maximum(self._sums(self.weights**2), weighted / spread)
        square = _quantile(math.inf) ** 2 * finite * fewer
        middle = (rates + square / 2) / (1 + square)
        half = np.sqrt(square * rates * (1 - rates) + square**2 / 4) / (1 + square)
        below, above = shares * (rates - middle + half), shares * (middle + half - rates)
        return value - math.sqrt(below @ below), value + math.sqrt(above @ above)


def _too_few(
    found: Corrected, what: str, changed: int, judge: "Array", counts: "Array | None" = None
) -> str | None:
    """Give the reason why the labels are too few for an interval from what people change."""
    import numpy as np

    if found.labelled == found.items:
        return None
    if counts is not None and what == "queries":
        _, times = np.unique(np.stack([judge.round(9), counts]), axis=1, return_counts=True)
        common = int(times.max())
        if found.labelled * (1 - common / found.items) < FEWEST_OTHER:
            return (
                f"the judge gives {common} of the {found.items} queries one value, so that "
                f"{found.labelled} labelled ones tell too little"
            )
    if changed < FEWEST_CHANGED:
        return (
            f"people change {changed} of the {found.labelled} labelled {what}, and "
            f"{FEWEST_CHANGED} are needed"
        )
    return None


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


def _quantile(freedom: float) -> float:
    from scipy.special import ndtri, stdtrit

    tail = (1 + LEVEL) / 2
    return float(ndtri(tail) if freedom == math.inf else stdtrit(max(freedom, 1), tail))
