"""How alike two ways to measure order the same runs."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from freshstack_dspy.measures.estimate import Estimate
from freshstack_dspy.measures.statistics.rank_correlation import kendall_tau, spearman_rho, tau_ap
from freshstack_dspy.records import Record

if TYPE_CHECKING:
    from freshstack_dspy.measures.evaluation import Evaluation

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
        for pair, of in zip(pairs, of_query, strict=True):
            pair.update({f"{len(run)} {run} {query}": value for run, value in of.items()})
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
