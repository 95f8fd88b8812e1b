"""Groups of queries: the means of an evaluation within each, and their macro-average."""

from collections.abc import Iterable
from statistics import fmean

from freshstack_dspy.measures.evaluation import Evaluation
from freshstack_dspy.measures.statistics import Interval, macro_interval, mean_interval
from freshstack_dspy.records import Record


class QueryGroups(Record):
    """Queries by group.

    Attributes:
        by: What they are grouped by, as `tag`.
        rule: How a query gets into a group, in one sentence.
        members: The ids of the queries of each group, ascending; the groups in the order in which
            they are shown. A query may be in several groups, or in none.
    """

    by: str
    rule: str
    members: dict[str, tuple[str, ...]]

    def by_query(self) -> dict[str, tuple[str, ...]]:
        """Give the groups that each query is in, by query id; queries in none are left out."""
        found: dict[str, list[str]] = {}
        for group, ids in self.members.items():
            for query_id in ids:
                found.setdefault(query_id, []).append(group)
        return {query_id: tuple(found[query_id]) for query_id in sorted(found)}


class GroupMeans(Record):
    """What a run is worth on the queries of one group.

    Attributes:
        group: Its name.
        queries: How many evaluated queries are in it.
        means: By measure, the mean over those that have a value, with its interval.
        unjudged: By cut-off, the mean share of the top that has no label; None where no query of
            the group has results.
        absent: How many of its queries are not in the run.
        empty: How many have an empty ranking.
        without_relevant: How many have no relevant chunk.
    """

    group: str
    queries: int
    means: dict[str, Interval]
    unjudged: dict[int, float | None]
    absent: int
    empty: int
    without_relevant: int


class GroupedEvaluation(Record):
    """An evaluation by groups of queries.

    Attributes:
        run: The name of the run.
        by: What the queries are grouped by.
        rule: How a query gets into a group.
        groups: The largest groups, in their order.
        unlisted: How many groups with evaluated queries are not among them.
        macro: By measure, the mean of the means of all groups that have one, listed or not: each
            group weighs the same.
        macro_groups: By measure, how many groups that are.
        several: How many queries are in several groups; they count in each of them.
        ungrouped: The evaluated queries that are in no group, and so not in the macro-average.
        without_queries: Groups none of whose queries is evaluated.
    """

    run: str
    by: str
    rule: str
    groups: tuple[GroupMeans, ...]
    unlisted: int
    macro: dict[str, Interval]
    macro_groups: dict[str, int]
    several: int
    ungrouped: tuple[str, ...]
    without_queries: tuple[str, ...]


def grouped(
    evaluation: Evaluation,
    groups: QueryGroups,
    *,
    top: int | None = None,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> GroupedEvaluation:
    """Give the means of an evaluation by group, and their macro-average, all with intervals.

    The macro-average is the mean of the groups' means (macro-averaging: Sebastiani, Machine
    Learning in Automated Text Categorization, 2002, section 7.1). For its interval whole queries
    are drawn, see `macro_interval`.

    Args:
        evaluation: Of one run.
        groups: Queries that were not evaluated are passed over.
        top: How many groups are listed, the largest ones; None: all.
        level: How much of the bootstrap distribution the intervals span.
        resamples: How many resamples are drawn for each interval.
        seed: Of the random numbers.

    Raises:
        ValueError: top is below 1, or level or resamples is out of range.
    """
    if top is not None and top < 1:
        raise ValueError(f"top is at least 1, not {top!r}")
    members = {
        name: tuple(query for query in ids if query in evaluation.per_query)
        for name, ids in groups.members.items()
    }
    there = {name: ids for name, ids in members.items() if ids}
    largest = sorted(there, key=lambda name: (-len(there[name]), name))[:top]
    topics = QueryGroups(by=groups.by, rule=groups.rule, members=there).by_query()
    settings = (level, resamples, seed)
    return GroupedEvaluation(
        run=evaluation.run,
        by=groups.by,
        rule=groups.rule,
        groups=tuple(
            _means(evaluation, name, ids, settings)
            for name, ids in there.items()
            if name in set(largest)
        ),
        unlisted=len(there) - len(largest),
        macro={name: _macro(evaluation, name, topics, settings) for name in evaluation.measures},
        macro_groups={
            name: sum(
                any(name in evaluation.per_query[query] for query in ids) for ids in there.values()
            )
            for name in evaluation.measures
        },
        several=sum(len(of) > 1 for of in topics.values()),
        ungrouped=tuple(query for query in evaluation.per_query if query not in topics),
        without_queries=tuple(name for name, ids in members.items() if not ids),
    )


def _means(
    evaluation: Evaluation, group: str, ids: tuple[str, ...], settings: tuple[float, int, int]
) -> GroupMeans:
    own = set(ids)

    def number(queries: Iterable[str]) -> int:
        return len(own.intersection(queries))

    unjudged = {}
    for holes in evaluation.holes:
        shares = [holes.unjudged[query] for query in ids if query in holes.unjudged]
        unjudged[holes.k] = fmean(shares) if shares else None
    values = {query: evaluation.per_query[query] for query in ids}
    return GroupMeans(
        group=group,
        queries=len(ids),
        means={
            name: mean_interval(
                {query: of[name] for query, of in values.items() if name in of}, *settings
            )
            for name in evaluation.measures
        },
        unjudged=unjudged,
        absent=number(evaluation.absent),
        empty=number(evaluation.empty),
        without_relevant=number(evaluation.without_relevant),
    )


def _macro(
    evaluation: Evaluation,
    measure: str,
    topics: dict[str, tuple[str, ...]],
    settings: tuple[float, int, int],
) -> Interval:
    values = evaluation.values(measure)
    within = {query: value for query, value in values.items() if query in topics}
    return macro_interval(within, topics, *settings)
