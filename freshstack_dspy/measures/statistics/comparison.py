"""The comparison of runs: who differs from whom, by how much, and how sure that is."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from freshstack_dspy.measures.statistics.comparison_rules import ComparisonRules
from freshstack_dspy.measures.statistics.correction import CorrectionName
from freshstack_dspy.measures.statistics.difference import RunDifference, Verdict
from freshstack_dspy.measures.statistics.means import intervals
from freshstack_dspy.measures.statistics.multiple_tests import MultipleTests
from freshstack_dspy.measures.statistics.pairs import Pairs, pair
from freshstack_dspy.measures.statistics.permutation import permutation_test
from freshstack_dspy.measures.statistics.power import (
    FEWEST,
    detectable_difference,
    queries_needed,
)
from freshstack_dspy.measures.statistics.ranking_agreement import (
    MeasureAgreement,
    measure_agreements,
)
from freshstack_dspy.measures.statistics.significance import Significance, TestName
from freshstack_dspy.measures.statistics.t_test import deviation, t_test
from freshstack_dspy.records import Record

if TYPE_CHECKING:
    from freshstack_dspy.measures.evaluation import Evaluation
    from freshstack_dspy.measures.statistics.bootstrap import Interval


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
