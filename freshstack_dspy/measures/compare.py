"""The comparison of runs: which differ, by how much, and how sure that is."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, Unpack

from pydantic import Field

from freshstack_dspy.errors import ConfigError
from freshstack_dspy.measures.decision import (
    Blocked,
    Decision,
    check_matters,
    decide,
)
from freshstack_dspy.measures.evaluation import (
    FRESHSTACK_MEASURES,
    Evaluation,
    Rules,
    Values,
    evaluate,
    read_run_of,
)
from freshstack_dspy.measures.measure import MeasureSource, cutoff_of
from freshstack_dspy.measures.ppi import Corrected
from freshstack_dspy.measures.qrels import NuggetQrels, QrelsSource, to_qrels
from freshstack_dspy.measures.run import PassageRun, Run, RunSource
from freshstack_dspy.measures.statistics import (
    FEWEST,
    LEVEL,
    NO_WEIGHTS,
    SAME,
    Estimate,
    Interval,
    Significance,
    Weighted,
    adjust,
    detectable_difference,
    deviation,
    in_order,
    kendall_tau,
    mean_intervals,
    permutation_tests,
    spearman_rho,
    weighted,
    weighted_mean,
)
from freshstack_dspy.pages.page import counted, p_value
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.records import DEPENDS, DRY_RUN, MATTERS, Record
from freshstack_dspy.rows import load_pandas

if TYPE_CHECKING:
    import pandas as pd


ALPHA = round(1 - LEVEL, 12)
"""A difference is found where its adjusted p is at most this."""
V = TypeVar("V", bound=Values)
Verdict = Literal[
    "higher", "lower", "not found", "untested", "dry run", "depends on what is unjudged"
]


class RunDifference(Record):
    """A run compared with another in one measure, query by query."""

    measure: str
    run: str
    against: str
    """The run that it is compared with."""
    queries: int
    """How many queries have a value in both runs."""
    left_out: int
    """How many queries have a value in only one of the two."""
    interval: Interval
    """The mean of the run's values minus the other's, with its bootstrap interval."""
    deviation: float
    """The standard deviation of the differences; 0 where they differ only by rounding."""
    effect_size: float | None
    """The mean difference divided by `deviation` (Cohen, Statistical Power Analysis, 1988, section
    2.3.5: d of paired values); None if all differences are the same."""
    wins: int
    """Queries on which the run's value is higher."""
    ties: int
    """Queries on which the two are equal up to rounding (1e-12)."""
    losses: int
    significance: Significance
    adjusted_p: float | None
    """The p-value adjusted for all tests of the comparison."""
    judged_only: Interval
    """The mean difference after chunks without a label are removed from both rankings."""
    judged_only_p: float | None
    """Its p-value, adjusted like `adjusted_p`."""
    detectable: float | None
    """The smallest true difference that this number of queries would show with power .8, at the level
    that the family's smallest p-value is compared with; None below 10 queries, if all differences
    are the same, or if the test cannot reach that level."""
    verdict: Verdict
    per_query: dict[str, float]
    """By query id, the run's value minus the other's."""

    @property
    def conclusion(self) -> str:
        """The verdict in words; "not found" never reads as "not there"."""
        if self.verdict == "dry run":
            return f"nothing is concluded ({DRY_RUN})"
        if self.verdict == "untested":
            return f"no test could be made: {self.significance.reason}"
        if self.verdict == DEPENDS:
            return (
                f"{DEPENDS}: it is {self._said(self.interval, self.adjusted_p)}, and "
                f"{self._said(self.judged_only, self.judged_only_p)} by judged chunks alone"
            )
        if self.verdict != "not found":
            return (
                f"a difference was found: {self.run} is {self.verdict} than {self.against} on "
                "average over queries like these"
            )
        if self.ties == self.queries:
            why = f": the two have the same value on all {self.queries} queries"
        elif self.detectable is not None:
            why = (
                f", which does not mean that there is none: one below {self.detectable:.3g} would "
                f"often be missed with {self.queries} queries"
            )
        elif self.queries < FEWEST:
            return f"{counted(self.queries, 'query is', 'queries are')} too few to tell"
        else:
            why = (
                f": of {self.queries} queries the two differ on {self.wins + self.losses}, so p "
                f"cannot be below {self.significance.smallest:.3g}, which is too high for the tests"
            )
        return f"no difference was found{why}"

    @staticmethod
    def _said(mean: Interval, p: float | None) -> str:
        return f"{mean.value or 0:+.4f} (p {p_value(p)})"


class Headroom(Record):
    """How much better the best oracle is than a run in one measure, on the same queries."""

    run: str
    measure: str
    oracle: str
    """The oracle with the highest mean of this measure."""
    queries: int
    """How many queries have a value in both; those without a text for the oracle do not count."""
    interval: Interval
    """The mean of the oracle's values minus the run's, with its bootstrap interval."""


class RankingAgreement(Record):
    """How similarly two measures, judges or collections order the same runs."""

    first: str
    second: str
    kendall: Estimate
    """Kendall's tau-b of the runs' means."""
    spearman: Estimate
    """Spearman's rho of the runs' means."""
    within_queries: Estimate
    """The mean over queries of tau-b of the runs' values for the query. It is lower than `kendall`,
    because means over queries even out the differences between queries."""
    queries: int
    """How many queries that mean covers; queries on which all runs are tied, or one has no value, are
    left out."""


class Comparison(Record, Shown):
    """The result of `compare`."""

    runs: tuple[str, ...]
    """Those that are compared: all but the oracles."""
    measures: tuple[str, ...]
    baseline: str | None
    """The run that all others are compared with; None if every pair was compared."""
    tests: int
    """How many p-values were adjusted, all those of `differences` together."""
    means: dict[str, dict[str, float]]
    """By run and measure, over all queries of the run that have a value."""
    decisions: tuple[Decision, ...]
    """For each pair, by the first measure."""
    differences: tuple[RunDifference, ...]
    """By measure, then in the order of the runs."""
    agreements: tuple[RankingAgreement, ...]
    """For every two measures, how similarly they order the runs; empty below 3 runs."""
    oracles: tuple[str, ...] = ()
    """The runs that were searched with the answer or its nuggets; they are compared with none."""
    headroom: tuple[Headroom, ...] = ()
    """By run, then measure; empty without oracles."""
    dry_run: bool = False
    """Whether a word counter made any labels; then there is no verdict."""
    evaluations: dict[str, Values] = Field(exclude=True, repr=False)
    """The values of the runs, by name; they are not written."""

    def by_pair(self) -> dict[str, Values]:
        """Give the differences of each pair as values, for `grouped`."""
        pairs: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
        for each in self.differences:
            pairs.setdefault((each.run, each.against), {})[each.measure] = each.per_query
        return {
            (name := f"{run} − {against}"): Values.of(
                name,
                columns,
                dry_run=self.dry_run,
                about=self.evaluations[run].about,
                weights=self.evaluations[run].weights,
            )
            for (run, against), columns in pairs.items()
        }

    def __repr__(self) -> str:
        if self.dry_run:
            return f"Comparison({', '.join(self.runs)}; {DRY_RUN})"
        differing = sum(each.verdict in ("higher", "lower") for each in self.differences)
        return (
            f"Comparison({', '.join(self.runs)}; {differing} of {len(self.differences)} differences "
            "found)"
        )

    __str__ = __repr__

    def to_rows(self) -> list[dict[str, Any]]:
        """Give a row for each difference."""
        fields = (
            *("measure", "run", "against", "queries", "left_out", "difference", "low", "high"),
            *("effect_size", "wins", "ties", "losses", "p", "adjusted_p"),
            *("judged_only", "judged_only_p", "detectable", "verdict"),
        )
        concluded = ("p", "adjusted_p", "judged_only_p", "detectable")
        rows = []
        for each in self.differences:
            mean = each.interval
            values = dict(each) | {"difference": mean.value, "low": mean.low, "high": mean.high}
            values |= {"p": each.significance.p_value, "judged_only": each.judged_only.value}
            values |= dict.fromkeys(concluded) if self.dry_run else {}
            rows.append({name: values[name] for name in fields})
        return rows

    def to_pandas(self) -> "pd.DataFrame":
        """Give a table with a row for each difference."""
        pd = load_pandas()
        return pd.DataFrame(self.to_rows())


def compare(
    qrels: QrelsSource,
    runs: Sequence[RunSource] | Mapping[str, RunSource],
    measures: MeasureSource | Sequence[MeasureSource] = FRESHSTACK_MEASURES,
    *,
    baseline: str | None = None,
    matters: float = MATTERS,
    **rules: Unpack[Rules],
) -> Comparison:
    """Evaluate runs and compare them; arguments and errors are those of `freshstack_dspy.compare`."""
    judgments = to_qrels(qrels)
    if isinstance(measures, Mapping | PassageRun) or is_one_run(runs):
        raise ConfigError(
            "compare takes two runs or more as one argument: compare(qrels, [run, other]), or by "
            "name: compare(qrels, {'mine': run, 'theirs': other})"
        )
    evaluations = {
        name: evaluate(judgments, run, measures, judged_only=True, **rules)
        for name, run in named_runs(judgments, runs).items()
    }
    return compare_evaluations(evaluations, baseline=baseline, matters=matters)


def best_of(evaluations: Mapping[str, Values], measure: str | None = None) -> str | None:
    """Name the run with the highest mean of a measure, by default the first.

    Ties go to the first by name.
    """
    means = {
        name: values.means[measure or values.measures[0]] for name, values in evaluations.items()
    }
    return min(means, key=lambda name: (-means[name], name), default=None)


def apart(evaluations: Mapping[str, V]) -> tuple[dict[str, V], dict[str, V]]:
    """Give the runs that search without the answer, and the oracles."""
    runs = {name: values for name, values in evaluations.items() if not values.is_oracle}
    return runs, {name: values for name, values in evaluations.items() if name not in runs}


def headroom(runs: Mapping[str, Values], oracles: Mapping[str, Values]) -> tuple[Headroom, ...]:
    """Subtract each run from the best oracle of each measure; empty without oracles (FreshStack §6)."""
    columns: dict[tuple[str, str, str], dict[str, float]] = {}
    for run, values in runs.items():
        for measure in values.measures:
            if (best := best_of(oracles, measure)) is None:
                return ()
            oracle = oracles[best]
            absent = oracle.absent if isinstance(oracle, Evaluation) else ()
            reachable = {q: n for q, n in oracle.values(measure).items() if q not in absent}
            columns[run, measure, best] = _differences(reachable, values.values(measure))
    means = mean_intervals(columns, weights=weights_of(runs))
    return tuple(
        Headroom(
            run=run,
            measure=measure,
            oracle=oracle,
            queries=len(column),
            interval=means[run, measure, oracle],
        )
        for (run, measure, oracle), column in columns.items()
    )


def is_one_run(runs: Any) -> bool:
    """Whether `runs` is a single run: an object, a file, or the scores of one."""
    if isinstance(runs, Run | PassageRun | str | Path) or not isinstance(runs, Iterable):
        return True
    inner = [*runs.values()] if isinstance(runs, Mapping) else []
    scores = [score for by_id in inner if isinstance(by_id, Mapping) for score in by_id.values()]
    return bool(scores) and all(isinstance(score, int | float) for score in scores)


def named_runs(
    qrels: NuggetQrels, runs: Sequence[RunSource] | Mapping[str, RunSource]
) -> dict[str, RunSource]:
    """Give runs by name: their key in a mapping, or else their own name."""
    if isinstance(runs, Mapping):
        return dict(runs)
    named: dict[str, RunSource] = {}
    for number, source in enumerate(runs, start=1):
        run = read_run_of(qrels, source, name=f"run {number}")
        named[run.name if run.name not in named else f"{run.name} ({number})"] = run
    return named


def compare_evaluations(
    evaluations: Mapping[str, Values],
    *,
    baseline: str | None = None,
    matters: float = MATTERS,
    family: int | None = None,
) -> Comparison:
    """Compare the values of runs, every two on the queries that have a value in both.

    Every run is compared with those before it, or all others with the baseline, in every measure,
    but oracles with none, by the paired permutation test. All these tests are one family, whose
    p-values are adjusted together (Holm): uncorrected, the best of many tests is often a false
    positive. Intervals are not adjusted.

    Values of the judged chunks alone, if there are any, are tested in the same way, as a second
    family. Where its verdict is another, the verdict is `depends on what is unjudged`.

    The first measure decides between the runs of each pair; see `decide`. Where these values chose
    the baseline, `family` is the number of all pairs that it was chosen from.
    """
    check_matters(matters)
    compared_runs, oracles = apart(evaluations)
    runs = list(compared_runs)
    if len(runs) < 2:
        without = (
            f" without {', '.join(oracles)}: oracles are compared with none" if oracles else ""
        )
        raise ConfigError(f"a comparison needs two runs, not {len(runs)}{without}")
    if baseline is not None and baseline not in runs:
        raise ConfigError(f"no run is named {baseline!r} among those compared: {', '.join(runs)}")
    measures, *others = dict.fromkeys(values.measures for values in evaluations.values())
    if others:
        raise ConfigError("the runs were not evaluated by the same measures")
    pairs = [(run, other) for place, run in enumerate(runs) for other in runs[:place]]
    if baseline is not None:
        pairs = [(run, baseline) for run in runs if run != baseline]
    compared = [(measure, *pair) for measure in measures for pair in pairs]
    condensed = all(values.judged_only for values in compared_runs.values())
    tested, *more = _tested(evaluations, compared, (False, True) if condensed else (False,))
    (alone,) = more or (tested,)
    dry_run = any(values.dry_run for values in evaluations.values())
    tests = sum(each.adjusted_p is not None for each in tested)
    differences = []
    for (measure, run, against), each, judged in zip(compared, tested, alone, strict=True):
        column = list(each.per_query.values())
        spread = deviation(each.prepared.linearized) if len(column) > 1 else 0.0
        shared = each.verdict == judged.verdict
        differences.append(
            RunDifference(
                measure=measure,
                run=run,
                against=against,
                queries=len(column),
                left_out=each.left_out,
                interval=each.mean,
                deviation=spread,
                effect_size=fmean(each.prepared.terms) / spread if spread else None,
                wins=sum(difference > 0 for difference in column),
                ties=column.count(0),
                losses=sum(difference < 0 for difference in column),
                significance=each.test,
                adjusted_p=each.adjusted_p,
                judged_only=judged.mean,
                judged_only_p=judged.adjusted_p,
                detectable=_detectable(len(column), spread, each.test, tests),
                verdict="dry run" if dry_run else each.verdict if shared else DEPENDS,
                per_query=each.per_query,
            )
        )
    return Comparison(
        runs=tuple(runs),
        measures=measures,
        baseline=baseline,
        tests=tests,
        means={run: dict(values.means) for run, values in evaluations.items()},
        decisions=tuple(
            _decision(evaluations, each, matters, family or len(pairs))
            for each in differences
            if each.measure == measures[0]
        ),
        differences=tuple(differences),
        agreements=_measure_agreements(compared_runs) if len(runs) > 2 else (),
        oracles=tuple(oracles),
        headroom=headroom(compared_runs, oracles),
        dry_run=dry_run,
        evaluations=dict(evaluations),
    )


def decide_by_people(
    comparison: Comparison, corrected: Mapping[tuple[str, str], Corrected]
) -> Comparison:
    """Decide again by the differences that people's labels correct, of the pairs that have one.

    Args:
        comparison: By the judge's labels.
        corrected: By run and the run that it is compared with: the difference in the first measure,
            with an interval for as many pairs as the comparison decides between.
    """
    decisions = tuple(
        _decision(
            comparison.evaluations,
            difference,
            decision.matters,
            decision.pairs,
            corrected.get((decision.run, decision.against)),
        )
        for decision, difference in zip(comparison.decisions, comparison.differences, strict=False)
    )
    return comparison.model_copy(update={"decisions": decisions})


def _decision(
    evaluations: Mapping[str, Values],
    difference: RunDifference,
    matters: float,
    pairs: int,
    corrected: Corrected | None = None,
) -> Decision:
    by_people = corrected is not None and corrected.wide_low is not None
    return decide(
        difference.measure,
        (difference.run, difference.against),
        [*difference.per_query.values()],
        weights=in_order(weights_of(evaluations), difference.per_query),
        matters=matters,
        pairs=pairs,
        blocked=_blocked(evaluations, difference, by_people=by_people),
        judged_only=difference.judged_only.value,
        corrected=corrected,
        about=evaluations[difference.run].about,
    )


def _blocked(
    evaluations: Mapping[str, Values], difference: RunDifference, *, by_people: bool
) -> Blocked | None:
    """Say why these values decide nothing, if so; the strongest reason."""
    runs = [evaluations[difference.run], evaluations[difference.against]]
    if any(run.dry_run for run in runs):
        return "dry run"
    if any(run.about.uncalibrated for run in runs) and not by_people:
        return "not calibrated"
    mostly = {k for run in runs if isinstance(run, Evaluation) for k in run.mostly_unjudged}
    return "unjudged" if cutoff_of(difference.measure) in mostly else None


class _Tested(NamedTuple):
    """One difference of a family of tests."""

    per_query: dict[str, float]
    prepared: Weighted
    left_out: int
    mean: Interval
    test: Significance
    adjusted_p: float | None

    @property
    def verdict(self) -> Verdict:
        if self.mean.value is None or self.adjusted_p is None:
            return "untested"
        if self.adjusted_p > ALPHA:
            return "not found"
        return "higher" if self.mean.value > 0 else "lower"


def _tested(
    evaluations: Mapping[str, Values],
    compared: Sequence[tuple[str, str, str]],
    families: Sequence[bool],
) -> list[list[_Tested]]:
    """Test the differences of (measure, run, other run); a family is of judged chunks alone or not."""
    columns: list[dict[str, float]] = []
    left_out = []
    for judged_only, (measure, *pair) in product(families, compared):
        values, others = (evaluations[n].values(measure, judged_only=judged_only) for n in pair)
        left_out.append(len(values.keys() ^ others.keys()))
        columns.append(_differences(values, others))
    weights = weights_of(evaluations)
    prepared = [weighted([*column.values()], in_order(weights, column)) for column in columns]
    tests = permutation_tests([each.terms for each in prepared])
    tested = []
    for start in range(0, len(columns), len(compared)):
        family = slice(start, start + len(compared))
        left = iter(adjust([test.p_value for test in tests[family] if test.p_value is not None]))
        adjusted = [None if test.p_value is None else next(left) for test in tests[family]]
        means = mean_intervals(dict(enumerate(columns[family])), weights=weights).values()
        parts = (each[family] for each in (columns, prepared, left_out))
        tested.append([*map(_Tested, *parts, means, tests[family], adjusted)])
    return tested


def weights_of(evaluations: Mapping[str, Values]) -> dict[str, float]:
    """The weights of the queries, which are those of the judgments and the same for all runs."""
    return next((values.weights for values in evaluations.values()), {})


def _differences(values: Mapping[str, float], others: Mapping[str, float]) -> dict[str, float]:
    """Subtract the values of the queries that both have; what is equal up to rounding gives 0."""
    return {
        query: 0.0
        if math.isclose(values[query], others[query], rel_tol=SAME, abs_tol=0)
        else values[query] - others[query]
        for query in sorted(values.keys() & others.keys())
    }


def _detectable(queries: int, spread: float, test: Significance, tests: int) -> float | None:
    """The difference that these queries can show, at the strictest level of a family of tests."""
    strictest = ALPHA / max(1, tests)
    if spread and queries >= FEWEST and (test.smallest or 0) <= strictest:
        return detectable_difference(spread, queries, alpha=strictest)
    return None


ScoresByRun = Mapping[str, Mapping[str, float]]
"""Run -> query id -> value."""


def ranking_agreement(
    first: ScoresByRun,
    second: ScoresByRun,
    *,
    names: tuple[str, str] = ("first", "second"),
    weights: Mapping[str, float] = NO_WEIGHTS,
) -> RankingAgreement:
    """Compare two ways to measure the same runs by the order they put the runs in.

    For example two measures on one collection, or one measure with the labels of two judges or on
    two collections (which share no query, so that only the means are compared).

    Source: of means and within topics, Upadhyay et al., A Large-Scale Study of Relevance
    Assessments with Large Language Models, 2024; of measures, Figure 5 of CRUX.

    Args:
        first: The values by run and query; each run has at least one.
        second: The other values of the same runs.
        names: What the two are called.
        weights: Of the queries, in both.
    """
    tables = (first, second)
    means = [
        {run: weighted_mean(values, weights) for run, values in table.items()} for table in tables
    ]
    rows = [values for table in tables for values in table.values()]
    within = []
    for query in sorted(set(rows[0]).intersection(*rows)):
        of_query = [{run: values[query] for run, values in table.items()} for table in tables]
        if (tau := kendall_tau(*of_query).value) is not None:
            within.append(tau)
    no_query = Estimate(reason="no query has two runs that are not tied")
    return RankingAgreement(
        first=names[0],
        second=names[1],
        kendall=kendall_tau(*means),
        spearman=spearman_rho(*means),
        within_queries=Estimate(value=fmean(within)) if within else no_query,
        queries=len(within),
    )


def _measure_agreements(evaluations: Mapping[str, Values]) -> tuple[RankingAgreement, ...]:
    """Compare every two measures for which every run has a value (CRUX, Figure 5)."""
    tables = {
        measure: {run: values.values(measure) for run, values in evaluations.items()}
        for measure in next(iter(evaluations.values())).measures
    }
    whole = [measure for measure, table in tables.items() if all(table.values())]
    return tuple(
        ranking_agreement(
            tables[first],
            tables[second],
            names=(first, second),
            weights=weights_of(evaluations),
        )
        for first, second in combinations(whole, 2)
    )
