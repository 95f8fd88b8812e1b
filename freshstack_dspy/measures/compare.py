"""The comparison of runs: who differs from whom, by how much, and how sure that is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Literal, get_args

from freshstack_dspy.measures.statistics import (
    FEWEST,
    CorrectionName,
    Estimate,
    Interval,
    Pairs,
    Significance,
    TestName,
    adjust,
    check,
    detectable_difference,
    deviation,
    intervals,
    kendall_tau,
    pair,
    permutation_test,
    queries_needed,
    spearman_rho,
    strictest_level,
    t_test,
    tau_ap,
)
from freshstack_dspy.records import Record

if TYPE_CHECKING:
    from freshstack_dspy.measures.evaluation import Evaluation


@dataclass(frozen=True, kw_only=True)
class ComparisonRules:
    """How runs are tested against each other.

    Attributes:
        test: `permutation` (the default: it takes nothing for granted about the values) or `t`.
        correction: For several comparisons, see `adjust`.
        level: Of the intervals; a difference is found where p is at most 1 - level.
        resamples: How many for an interval.
        permutations: How many for a p-value, where not all are looked at.
        seed: Of the random numbers.

    Raises:
        ValueError: One is out of range.
    """

    test: TestName = "permutation"
    correction: CorrectionName = "holm"
    level: float = 0.95
    resamples: int = 10_000
    permutations: int = 100_000
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("test", self.test, get_args(TestName)),
            ("correction", self.correction, get_args(CorrectionName)),
        ):
            if value not in allowed:
                raise ValueError(f"{name} is one of {', '.join(allowed)}, not {value!r}")
        check(self.level, self.resamples)
        if self.permutations < 1:
            raise ValueError(f"permutations is at least 1, not {self.permutations!r}")
        if self.seed < 0:
            raise ValueError(f"seed is at least 0, not {self.seed!r}")

    @property
    def alpha(self) -> float:
        """The level that adjusted p-values are held against."""
        return round(1 - self.level, 12)


Verdict = Literal["higher", "lower", "not found", "untested"]


class RunDifference(Record):
    """A run held against another in one measure, query by query.

    Attributes:
        measure: The name of the measure.
        run: The run.
        against: The run that it is held against.
        queries: How many queries have a value in both.
        left_out: How many have one in only one of the two.
        interval: The mean of the run's values minus the other's, with its bootstrap interval.
        effect_size: That mean over the standard deviation of the differences (Cohen, Statistical
            Power Analysis, 1988, section 2.3.5: d of paired values); None where all differences
            are the same.
        wins: Queries on which the run's value is higher.
        ties: Queries on which they are equal, but for rounding (1e-12).
        losses: Queries on which it is lower.
        significance: What the test found.
        adjusted_p: The p-value adjusted for all tests of the comparison.
        detectable: The smallest true difference that so many queries would mostly (at power .8)
            show at the level that the family's smallest p-value is held against; None below 10
            queries, where all differences are the same, or where the test cannot come to that
            level: its smallest p-value, `significance.smallest`, is above it.
        queries_needed: How many queries would mostly show a true difference as large as the mean
            observed one; None below 10 queries, where all differences are the same, or where
            that mean is 0.
        verdict: Whether the run was found to be higher or lower.
        conclusion: The same in words.
        per_query: By query id, the run's value minus the other's.
    """

    measure: str
    run: str
    against: str
    queries: int
    left_out: int
    interval: Interval
    effect_size: float | None
    wins: int
    ties: int
    losses: int
    significance: Significance
    adjusted_p: float | None
    detectable: float | None
    queries_needed: int | None
    verdict: Verdict
    conclusion: str
    per_query: dict[str, float]


class MultipleTests:
    """The tests of one family; those without a p-value do not count in it.

    Attributes:
        tests: How many there are.
        alpha: The level that adjusted p-values are held against.
        strictest: The level that the smallest p-value itself is held against.
    """

    def __init__(self, found: Sequence[Significance], rules: ComparisonRules) -> None:
        """Adjust the p-values.

        Args:
            found: What the tests found, in an order that places below refer to.
            rules: How they are adjusted.
        """
        self._found = found
        self._correction: CorrectionName = rules.correction
        self._p_values = {
            place: each.p_value for place, each in enumerate(found) if each.p_value is not None
        }
        adjusted = adjust(list(self._p_values.values()), rules.correction)
        self._adjusted = dict(zip(self._p_values, adjusted, strict=True))
        self.tests = len(self._p_values)
        self.alpha = rules.alpha
        self.strictest = strictest_level(rules.alpha, self.tests, rules.correction)

    def adjusted(self, place: int) -> float | None:
        """Give the adjusted p-value of a test; None where it has none."""
        return self._adjusted.get(place)

    def passes_strictest(self, place: int) -> bool:
        """Whether a test can be found whatever the others show."""
        smallest = self._found[place].smallest
        return smallest is None or smallest <= self.strictest

    def could_be_found(self, place: int) -> bool:
        """Whether the smallest p-value that a test can have would be found, the others given."""
        if self.passes_strictest(place):
            return True
        smallest = {**self._p_values, place: self._found[place].smallest or 0.0}
        adjusted = adjust(list(smallest.values()), self._correction)
        return dict(zip(smallest, adjusted, strict=True))[place] <= self.alpha


Table = Mapping[str, Mapping[str, float]]
"""Run -> query id -> value."""


class RankingAgreement(Record):
    """How alike two measures, judges or collections order the same runs.

    Attributes:
        kendall: Kendall's tau-b of the runs' means.
        spearman: Spearman's rho of the runs' means.
        top: tau-ap of the runs' means, the first order taken as the actual one.
        within_queries: The mean, over queries, of tau-b of the runs' values for the query: lower
            than `kendall`, as a mean over queries evens out what differs from one to the next.
        queries: How many queries that mean is over.
        undefined: How many queries it leaves out: all runs are tied, or one has no value.
        all_pairs: tau-b of the values of all pairs of a run and a query.
    """

    kendall: Estimate
    spearman: Estimate
    top: Estimate
    within_queries: Estimate
    queries: int
    undefined: int
    all_pairs: Estimate


class MeasureAgreement(RankingAgreement):
    """How alike two measures order the same runs."""

    first: str
    second: str


def ranking_agreement(first: Table, second: Table) -> RankingAgreement:
    """Compare two ways to measure the same runs by the order they put the runs in.

    As two measures on one collection, or one measure by the labels of two judges or on two
    collections (which share no query: then only the means are compared).

    Source: of means and within topics, Upadhyay et al., A Large-Scale Study of Relevance
    Assessments with Large Language Models, 2024; of measures, Figure 5 of CRUX.

    Args:
        first: The values by run and query.
        second: Of the same runs.

    Raises:
        ValueError: They are not of the same runs, a run has no value, or one is not a finite
            number.
    """
    for table in (first, second):
        for run, values in table.items():
            if not values:
                raise ValueError(f"run {run!r} has no value for any query")
    means = [
        {run: fmean(values.values()) for run, values in table.items()} for table in (first, second)
    ]
    queries = {query for table in (first, second) for values in table.values() for query in values}
    within, pairs = [], [dict[str, float](), dict[str, float]()]
    for query in sorted(queries):
        if not all(query in values for table in (first, second) for values in table.values()):
            continue
        of_query = [
            {run: values[query] for run, values in table.items()} for table in (first, second)
        ]
        tau = kendall_tau(*of_query).value
        within += [] if tau is None else [tau]
        for row, of in zip(pairs, of_query, strict=True):
            row.update({f"{len(run)} {run} {query}": value for run, value in of.items()})
    return RankingAgreement(
        kendall=kendall_tau(*means),
        spearman=spearman_rho(*means),
        top=tau_ap(*means),
        within_queries=_mean(within),
        queries=len(within),
        undefined=len(queries) - len(within),
        all_pairs=kendall_tau(*pairs),
    )


def measure_agreements(evaluations: Mapping[str, "Evaluation"]) -> tuple[MeasureAgreement, ...]:
    """Compare every two measures of the same evaluations by the order they put the runs in.

    Source: CRUX, Figure 5.

    Args:
        evaluations: By run, all with the same measures.

    Returns:
        One for each pair of measures, in their order; none where a run has no value for one.
    """
    measures: Sequence[str] = next(iter(evaluations.values())).measures if evaluations else ()
    tables = {
        measure: {run: evaluation.values(measure) for run, evaluation in evaluations.items()}
        for measure in measures
    }
    whole = [measure for measure in measures if all(tables[measure].values())]
    return tuple(
        MeasureAgreement(
            first=first,
            second=second,
            **dict(ranking_agreement(tables[first], tables[second])),
        )
        for place, first in enumerate(whole)
        for second in whole[place + 1 :]
    )


def _mean(values: list[float]) -> Estimate:
    if not values:
        return Estimate(reason="no query has two runs that are not tied")
    return Estimate(value=fmean(values))


class Comparison(Record):
    """What `compare` found.

    Attributes:
        runs: Their names, in the order given.
        measures: The names of the measures.
        baseline: The run that all others are held against; None: every two were compared.
        test: The test.
        correction: What the p-values were adjusted by, all those of `differences` together.
        level: Of the intervals; each holds for itself, not for all of them together.
        seed: Of the random numbers.
        tests: How many p-values were adjusted.
        means: By run and measure, each over all queries of the run that have a value: where a
            difference left queries out, it is not the difference of these.
        differences: By measure, then in the order of the runs.
        agreements: For every two measures, how alike they order the runs; none below 3 runs.
    """

    runs: tuple[str, ...]
    measures: tuple[str, ...]
    baseline: str | None
    test: TestName
    correction: CorrectionName
    level: float
    seed: int
    tests: int
    means: dict[str, dict[str, float]]
    differences: tuple[RunDifference, ...]
    agreements: tuple[MeasureAgreement, ...]


@dataclass(frozen=True)
class _Held:
    """A run held against another in one measure."""

    measure: str
    run: str
    against: str
    pairs: Pairs


def compare(
    evaluations: Mapping[str, "Evaluation"],
    *,
    baseline: str | None = None,
    rules: ComparisonRules | None = None,
) -> Comparison:
    """Compare runs, every two on the queries that have a value in both.

    Every run is held against those before it, or all others against the baseline, in every
    measure. What a query counts that has no value in one of them, or was skipped, is the choice
    of the evaluation; left-out queries are counted, pair by pair. All these tests are one family: the p-values of all runs and measures are adjusted
    together, for whoever looks at all of them and picks one is likely to pick chance.

    Args:
        evaluations: By the name of the run, all by the same rules and with the same measures.
        baseline: The name of a run.
        rules: How they are tested; None: as by default.

    Raises:
        ValueError: There are fewer than two runs, no run has the baseline's name, or the runs
            were not evaluated alike.
    """
    rules = rules or ComparisonRules()
    _check(evaluations, baseline)
    held = _held(evaluations, baseline)
    every = [each.pairs.differences for each in held]
    means = intervals(every, rules.level, rules.resamples, rules.seed)
    found = [_tested(differences, rules) for differences in every]
    family = MultipleTests(found, rules)
    return Comparison(
        runs=tuple(evaluations),
        measures=next(iter(evaluations.values())).measures,
        baseline=baseline,
        test=rules.test,
        correction=rules.correction,
        level=rules.level,
        seed=rules.seed,
        tests=family.tests,
        means={run: dict(evaluation.means) for run, evaluation in evaluations.items()},
        differences=tuple(
            _difference(each, mean, significance, family, place)
            for place, (each, mean, significance) in enumerate(zip(held, means, found, strict=True))
        ),
        agreements=measure_agreements(evaluations) if len(evaluations) > 2 else (),
    )


def _check(evaluations: Mapping[str, "Evaluation"], baseline: str | None) -> None:
    if len(evaluations) < 2:
        raise ValueError(f"a comparison needs two runs, not {len(evaluations)}")
    if baseline is not None and baseline not in evaluations:
        raise ValueError(f"no run is named {baseline!r}; there are {', '.join(evaluations)}")
    first, *others = evaluations
    for other in others:
        for rule in ("measures", "undefined", "conventions"):
            one, two = (getattr(evaluations[name], rule) for name in (first, other))
            if one != two:
                raise ValueError(
                    f"runs {first!r} and {other!r} were not evaluated alike: {rule} {one!r} and "
                    f"{two!r}; evaluate both by the same rules"
                )


def _held(evaluations: Mapping[str, "Evaluation"], baseline: str | None) -> list[_Held]:
    runs = list(evaluations)
    if baseline is None:
        two = [(run, other) for place, run in enumerate(runs) for other in runs[:place]]
    else:
        two = [(run, baseline) for run in runs if run != baseline]
    return [
        _Held(measure, run, other, pair(values[run], values[other]))
        for measure in evaluations[runs[0]].measures
        for values in [{name: of.values(measure) for name, of in evaluations.items()}]
        for run, other in two
    ]


def _tested(differences: tuple[float, ...], rules: ComparisonRules) -> Significance:
    if rules.test == "t":
        return t_test(differences)
    return permutation_test(differences, permutations=rules.permutations, seed=rules.seed)


def _difference(
    held: _Held, mean: "Interval", significance: Significance, family: MultipleTests, place: int
) -> RunDifference:
    """Put together what is known of two runs, whose test has this place in the family."""
    differences = held.pairs.differences
    adjusted_p = family.adjusted(place)
    spread = deviation(differences) if len(differences) > 1 else 0.0
    detectable = needed = None
    if spread and len(differences) >= FEWEST:
        needed = queries_needed(spread, fmean(differences), alpha=family.strictest)
        if family.passes_strictest(place):
            detectable = detectable_difference(spread, len(differences), alpha=family.strictest)
    verdict = _verdict(mean.value, adjusted_p, family.alpha)
    return RunDifference(
        measure=held.measure,
        run=held.run,
        against=held.against,
        queries=len(differences),
        left_out=held.pairs.left_out,
        interval=mean,
        effect_size=fmean(differences) / spread if spread else None,
        wins=sum(difference > 0 for difference in differences),
        ties=sum(difference == 0 for difference in differences),
        losses=sum(difference < 0 for difference in differences),
        significance=significance,
        adjusted_p=adjusted_p,
        detectable=detectable,
        queries_needed=needed,
        verdict=verdict,
        conclusion=(
            _not_found(held, significance, family, place, detectable)
            if verdict == "not found"
            else _conclusion(held, verdict, significance)
        ),
        per_query=dict(zip(held.pairs.queries, differences, strict=True)),
    )


def _verdict(mean: float | None, adjusted_p: float | None, alpha: float) -> Verdict:
    if mean is None or adjusted_p is None:
        return "untested"
    if adjusted_p > alpha:
        return "not found"
    return "higher" if mean > 0 else "lower"


def _conclusion(held: _Held, verdict: Verdict, significance: Significance) -> str:
    if verdict == "untested":
        return f"no test could be made: {significance.reason}"
    return (
        f"a difference was found: {held.run} is {verdict} than {held.against} on average "
        "over queries like these"
    )


def _not_found(
    held: _Held,
    significance: Significance,
    family: MultipleTests,
    place: int,
    detectable: float | None,
) -> str:
    """Say of a difference that was not found why, and never that it is not there."""
    number = len(held.pairs.queries)
    if not any(held.pairs.differences):
        return f"no difference was found: the two have the same value on all {number} queries"
    if not family.passes_strictest(place):
        by_queries = significance.by == "enumeration"
        few = "the values differ on so few queries" if by_queries else "so few signs are sampled"
        at_least = f"{few} that p is at least {significance.smallest:.3g}"
        if family.could_be_found(place):
            return f"no difference was found, which says little: {at_least}"
        enough = f", too much for {family.tests} tests" if family.tests > 1 else ""
        return f"no difference was found, and none could be: {at_least}{enough}"
    if detectable is None:
        return f"no difference was found, which says little with {number} queries"
    return (
        "no difference was found, which is not to say that there is none: one below "
        f"{detectable:.3g} would often be missed with {number} queries"
    )
