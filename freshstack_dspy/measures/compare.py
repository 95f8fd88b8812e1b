"""The comparison of runs: which differ, by how much, and how sure that is."""

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from freshstack_dspy.measures.conventions import Conventions
from freshstack_dspy.measures.evaluation import (
    FRESHSTACK_MEASURES,
    Evaluation,
    UnknownIds,
    evaluate,
)
from freshstack_dspy.measures.qrels import QrelsSource, to_qrels
from freshstack_dspy.measures.run import RunSource, to_run
from freshstack_dspy.measures.statistics import (
    FEWEST,
    SAME,
    CorrectionName,
    Estimate,
    Interval,
    Significance,
    TestName,
    adjust,
    detectable_difference,
    deviation,
    intervals,
    kendall_tau,
    permutation_tests,
    spearman_rho,
    t_test,
    tau_ap,
)
from freshstack_dspy.records import Record

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class ComparisonRules:
    """How runs are tested.

    Attributes:
        test: `permutation` (the default: it assumes nothing about the values) or `t`.
        correction: For several comparisons, see `adjust`.
        level: Of the intervals; a difference is found where p is at most 1 - level.
        resamples: How many for an interval.
        permutations: How many for a p-value, where not all are looked at.
        seed: Of the random numbers.
    """

    test: TestName = "permutation"
    correction: CorrectionName = "holm"
    level: float = 0.95
    resamples: int = 10_000
    permutations: int = 100_000
    seed: int = 0

    @property
    def alpha(self) -> float:
        """The level that adjusted p-values are compared with."""
        return round(1 - self.level, 12)


Verdict = Literal["higher", "lower", "not found", "untested"]


class RunDifference(Record):
    """A run compared with another in one measure, query by query.

    Attributes:
        measure: The name of the measure.
        run: The run.
        against: The run that it is compared with.
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
            show at the level that the family's smallest p-value is compared with; None below 10
            queries, where all differences are the same, or where the test cannot come to that
            level: its smallest p-value, `significance.smallest`, is above it.
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
    verdict: Verdict
    conclusion: str
    per_query: dict[str, float]


class RankingAgreement(Record):
    """How alike two measures, judges or collections order the same runs.

    Attributes:
        first: The name of the first.
        second: The name of the second.
        kendall: Kendall's tau-b of the runs' means.
        spearman: Spearman's rho of the runs' means.
        top: tau-ap of the runs' means, the first order taken as the actual one.
        within_queries: The mean, over queries, of tau-b of the runs' values for the query: lower
            than `kendall`, as a mean over queries evens out what differs from one to the next.
        queries: How many queries that mean is over; left out are those for which all runs are tied
            or one has no value.
    """

    first: str
    second: str
    kendall: Estimate
    spearman: Estimate
    top: Estimate
    within_queries: Estimate
    queries: int


class Comparison(Record):
    """What `compare` found.

    Attributes:
        runs: Their names, in the order given.
        measures: The names of the measures.
        baseline: The run that all others are compared with; None: every two were compared.
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
    agreements: tuple[RankingAgreement, ...]

    def __repr__(self) -> str:
        found = sum(each.verdict in ("higher", "lower") for each in self.differences)
        return (
            f"Comparison({', '.join(self.runs)}; {found} of {len(self.differences)} differences "
            "found)"
        )

    __str__ = __repr__

    def to_rows(self) -> list[dict[str, Any]]:
        """Give a row for each difference."""
        return [
            {
                "measure": each.measure,
                "run": each.run,
                "against": each.against,
                "queries": each.queries,
                "left_out": each.left_out,
                "difference": each.interval.value,
                "low": each.interval.low,
                "high": each.interval.high,
                "effect_size": each.effect_size,
                "wins": each.wins,
                "ties": each.ties,
                "losses": each.losses,
                "p": each.significance.p_value,
                "adjusted_p": each.adjusted_p,
                "detectable": each.detectable,
                "verdict": each.verdict,
            }
            for each in self.differences
        ]

    def to_pandas(self) -> "pd.DataFrame":
        """Give a table with a row for each difference."""
        import pandas as pd

        return pd.DataFrame(self.to_rows())


def compare(
    qrels: QrelsSource,
    runs: Sequence[RunSource] | Mapping[str, RunSource],
    measures: str | Sequence[str] = FRESHSTACK_MEASURES,
    *,
    baseline: str | None = None,
    rules: ComparisonRules | None = None,
    conventions: str | Conventions = "ours",
    condensed: bool = False,
    unknown_ids: UnknownIds = "error",
) -> Comparison:
    """Evaluate runs and compare them, every two or all with a baseline.

    Args:
        qrels: As for `evaluate`.
        runs: Two or more, each as for `evaluate`; or by name.
        measures: As for `evaluate`.
        baseline: The name of a run.
        rules: How they are tested; None: as by default.
        conventions: As for `evaluate`.
        condensed: As for `evaluate`.
        unknown_ids: As for `evaluate`.

    Raises:
        ConfigError: As `evaluate`.
        CollectionError: As `evaluate`.
        ValueError: There are fewer than two runs, or no run has the baseline's name.
    """
    judgments = to_qrels(qrels)
    evaluations = {
        name: evaluate(
            judgments,
            run,
            measures,
            conventions=conventions,
            condensed=condensed,
            unknown_ids=unknown_ids,
        )
        for name, run in _named(runs).items()
    }
    return compare_evaluations(evaluations, baseline=baseline, rules=rules)


def _named(runs: Sequence[RunSource] | Mapping[str, RunSource]) -> dict[str, RunSource]:
    if isinstance(runs, Mapping):
        return dict(runs)
    named: dict[str, RunSource] = {}
    for number, source in enumerate(runs, start=1):
        run = to_run(source, name=f"run {number}")
        named[run.name if run.name not in named else f"{run.name} ({number})"] = run
    return named


def compare_evaluations(
    evaluations: Mapping[str, Evaluation],
    *,
    baseline: str | None = None,
    rules: ComparisonRules | None = None,
) -> Comparison:
    """Compare evaluated runs, every two on the queries that have a value in both.

    Every run is compared with those before it, or all others with the baseline, in every measure.
    All these tests are one family: the p-values of all runs and measures are adjusted together, for
    whoever looks at all of them and picks one is likely to pick chance.

    Args:
        evaluations: By the name of the run, all by the same conventions and measures.
        baseline: The name of a run.
        rules: How they are tested; None: as by default.

    Raises:
        ValueError: There are fewer than two runs, no run has the baseline's name, or the runs
            were not evaluated alike.
    """
    rules = rules or ComparisonRules()
    _check(evaluations, baseline)
    runs = list(evaluations)
    measures = evaluations[runs[0]].measures
    if baseline is None:
        pairs = [(run, other) for place, run in enumerate(runs) for other in runs[:place]]
    else:
        pairs = [(run, baseline) for run in runs if run != baseline]
    compared = [(measure, run, other) for measure in measures for run, other in pairs]
    per_query = [_differences(evaluations, *each) for each in compared]
    columns = [list(differences.values()) for differences in per_query]
    means = intervals(columns, rules.level, rules.resamples, rules.seed)
    if rules.test == "t":
        tested = list(map(t_test, columns))
    else:
        tested = permutation_tests(columns, permutations=rules.permutations, seed=rules.seed)
    p_values = {place: of.p_value for place, of in enumerate(tested) if of.p_value is not None}
    adjusted = dict(zip(p_values, adjust(list(p_values.values()), rules.correction), strict=True))
    strictest = rules.alpha / (1 if rules.correction == "none" else max(1, len(p_values)))
    differences = [
        _difference(
            names,
            per_query[place],
            [evaluations[run].values(names[0]).keys() for run in names[1:]],
            (means[place], tested[place], adjusted.get(place)),
            rules.alpha,
            strictest,
        )
        for place, names in enumerate(compared)
    ]
    return Comparison(
        runs=tuple(runs),
        measures=measures,
        baseline=baseline,
        test=rules.test,
        correction=rules.correction,
        level=rules.level,
        seed=rules.seed,
        tests=len(p_values),
        means={run: dict(evaluation.means) for run, evaluation in evaluations.items()},
        differences=tuple(differences),
        agreements=_measure_agreements(evaluations) if len(runs) > 2 else (),
    )


def _check(evaluations: Mapping[str, Evaluation], baseline: str | None) -> None:
    if len(evaluations) < 2:
        raise ValueError(f"a comparison needs two runs, not {len(evaluations)}")
    if baseline is not None and baseline not in evaluations:
        raise ValueError(f"no run is named {baseline!r}; there are {', '.join(evaluations)}")
    alike = {(of.measures, of.conventions, of.condensed) for of in evaluations.values()}
    if len(alike) > 1:
        raise ValueError("the runs were not evaluated by the same measures and conventions")


def _differences(
    evaluations: Mapping[str, Evaluation], measure: str, run: str, against: str
) -> dict[str, float]:
    """Give the run's value minus the other's, by query id; 0 where only rounding differs."""
    values, others = evaluations[run].values(measure), evaluations[against].values(measure)
    return {
        query: 0.0
        if math.isclose(values[query], others[query], rel_tol=SAME, abs_tol=0)
        else values[query] - others[query]
        for query in sorted(values.keys() & others.keys())
    }


def _difference(
    names: tuple[str, str, str],
    per_query: dict[str, float],
    sides: Sequence[Set[str]],
    found: tuple[Interval, Significance, float | None],
    alpha: float,
    strictest: float,
) -> RunDifference:
    """Put together what is known of two runs in one measure.

    `sides` are the queries with a value in each; `found` is the mean, the test, and its adjusted p;
    `strictest` is what the smallest p-value of the family is compared with before adjusting.
    """
    measure, run, against = names
    mean, significance, adjusted_p = found
    differences = list(per_query.values())
    spread = deviation(differences) if len(differences) > 1 else 0.0
    could_be_found = significance.smallest is None or significance.smallest <= strictest
    detectable = None
    if spread and len(differences) >= FEWEST and could_be_found:
        detectable = detectable_difference(spread, len(differences), alpha=strictest)
    verdict: Verdict = "not found"
    if mean.value is None or adjusted_p is None:
        verdict = "untested"
        conclusion = f"no test could be made: {significance.reason}"
    elif adjusted_p <= alpha:
        verdict = "higher" if mean.value > 0 else "lower"
        conclusion = (
            f"a difference was found: {run} is {verdict} than {against} on average over queries "
            "like these"
        )
    else:
        why = _not_found(differences, significance, detectable, could_be_found=could_be_found)
        conclusion = f"no difference was found{why}"
    return RunDifference(
        measure=measure,
        run=run,
        against=against,
        queries=len(differences),
        left_out=len(sides[0] ^ sides[1]),
        interval=mean,
        effect_size=fmean(differences) / spread if spread else None,
        wins=sum(difference > 0 for difference in differences),
        ties=differences.count(0),
        losses=sum(difference < 0 for difference in differences),
        significance=significance,
        adjusted_p=adjusted_p,
        detectable=detectable,
        verdict=verdict,
        conclusion=conclusion,
        per_query=per_query,
    )


def _not_found(
    differences: Sequence[float],
    significance: Significance,
    detectable: float | None,
    *,
    could_be_found: bool,
) -> str:
    """Explain that nothing was found, which never reads as "not there"."""
    if not any(differences):
        return f": the two have the same value on all {len(differences)} queries"
    if not could_be_found:
        few = "queries that differ" if significance.by == "enumeration" else "permutations"
        return (
            f": with so few {few} p is at least {significance.smallest:.3g}, too much for so many "
            "tests"
        )
    if detectable is None:
        return f", which means little with {len(differences)} queries"
    return (
        f", which does not mean that there is none: one below {detectable:.3g} would often be "
        f"missed with {len(differences)} queries"
    )


Table = Mapping[str, Mapping[str, float]]
"""Run -> query id -> value."""


def ranking_agreement(
    first: Table, second: Table, *, names: tuple[str, str] = ("first", "second")
) -> RankingAgreement:
    """Compare two ways to measure the same runs by the order they put the runs in.

    As two measures on one collection, or one measure by the labels of two judges or on two
    collections (which share no query: then only the means are compared).

    Source: of means and within topics, Upadhyay et al., A Large-Scale Study of Relevance
    Assessments with Large Language Models, 2024; of measures, Figure 5 of CRUX.

    Args:
        first: The values by run and query; a run has one at least.
        second: Of the same runs.
        names: What the two are called.
    """
    tables = (first, second)
    means = [{run: fmean(values.values()) for run, values in table.items()} for table in tables]
    rows = [values for table in tables for values in table.values()]
    within = []
    for query in sorted(set(rows[0]).intersection(*rows)):
        of_query = [{run: values[query] for run, values in table.items()} for table in tables]
        if (tau := kendall_tau(*of_query).value) is not None:
            within.append(tau)
    return RankingAgreement(
        first=names[0],
        second=names[1],
        kendall=kendall_tau(*means),
        spearman=spearman_rho(*means),
        top=tau_ap(*means),
        within_queries=Estimate(value=fmean(within))
        if within
        else Estimate(reason="no query has two runs that are not tied"),
        queries=len(within),
    )


def _measure_agreements(evaluations: Mapping[str, Evaluation]) -> tuple[RankingAgreement, ...]:
    """Compare every two measures for which every run has a value (CRUX, Figure 5)."""
    tables = {
        measure: {run: of.values(measure) for run, of in evaluations.items()}
        for measure in next(iter(evaluations.values())).measures
    }
    whole = [measure for measure, table in tables.items() if all(table.values())]
    return tuple(
        ranking_agreement(tables[first], tables[second], names=(first, second))
        for first, second in combinations(whole, 2)
    )
