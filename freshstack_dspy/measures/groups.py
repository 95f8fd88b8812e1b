"""Groups of queries: the means of an evaluation within each, and their macro-average."""

from collections.abc import Iterable
from pathlib import Path
from statistics import fmean

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.evaluation import Evaluation
from freshstack_dspy.measures.measure import Cutoff
from freshstack_dspy.measures.statistics import Interval, macro_interval, mean_intervals
from freshstack_dspy.records import Record
from freshstack_dspy.rows import read_csv


class QueryGroups(Record):
    """Queries by group."""

    by: str
    """What they are grouped by, as `tag`."""
    rule: str
    """How a query gets into a group, in one sentence."""
    members: dict[str, tuple[str, ...]]
    """The ids of the queries of each group, ascending; the groups in the order in which they are
    shown. A query may be in several groups, or in none."""

    def by_query(self) -> dict[str, tuple[str, ...]]:
        """Give the groups that each query is in, by query id; queries in none are left out."""
        found: dict[str, list[str]] = {}
        for group, ids in self.members.items():
            for query_id in ids:
                found.setdefault(query_id, []).append(group)
        return {query_id: tuple(found[query_id]) for query_id in sorted(found)}


class GroupMeans(Record):
    """The means of a run on the queries of one group."""

    group: str
    queries: int
    """How many evaluated queries are in it."""
    means: dict[str, Interval]
    """By measure, over those that have a value."""
    unjudged: dict[Cutoff, float | None]
    """By cut-off, the mean share of the top that has no label; None where no query of the group has
    results."""
    absent: int
    """How many of its queries are not in the run."""
    empty: int
    """How many have an empty ranking."""


class GroupedEvaluation(Record):
    """An evaluation by groups of queries."""

    run: str
    by: str
    rule: str
    groups: tuple[GroupMeans, ...]
    """The largest groups, in their order."""
    unlisted: int
    """How many groups with evaluated queries are not among them."""
    macro: dict[str, Interval]
    """By measure, the mean of the means of all groups that have one, listed or not."""
    ungrouped: tuple[str, ...]
    """The evaluated queries that are in no group, and so not in the macro-average."""


def grouped(
    evaluation: Evaluation,
    groups: QueryGroups,
    *,
    limit: int | None = None,
    resamples: int | None = None,
) -> GroupedEvaluation:
    """Give the means of an evaluation by group, and their macro-average, all with intervals.

    The macro-average is the mean of the groups' means (macro-averaging: Sebastiani, Machine
    Learning in Automated Text Categorization, 2002, section 7.1). For its interval whole queries
    are drawn, see `macro_interval`.

    Args:
        evaluation: Of one run.
        groups: Queries that were not evaluated are passed over.
        limit: How many groups are listed, the largest ones; None: all.
        resamples: How many to draw for an interval; by default as `statistics.resamples_of` says.
    """
    members = {
        name: tuple(query for query in ids if query in evaluation.per_query)
        for name, ids in groups.members.items()
    }
    there = {name: ids for name, ids in members.items() if ids}
    listed = set(sorted(there, key=lambda name: (-len(there[name]), name))[:limit])
    topics = QueryGroups(by=groups.by, rule=groups.rule, members=there).by_query()

    def macro(measure: str) -> Interval:
        values = evaluation.values(measure)
        within = {query: value for query, value in values.items() if query in topics}
        return macro_interval(within, topics, resamples)

    return GroupedEvaluation(
        run=evaluation.run,
        by=groups.by,
        rule=groups.rule,
        groups=tuple(
            _means(evaluation, name, ids, resamples)
            for name, ids in there.items()
            if name in listed
        ),
        unlisted=len(there) - len(listed),
        macro={name: macro(name) for name in evaluation.measures},
        ungrouped=tuple(query for query in evaluation.per_query if query not in topics),
    )


def _means(
    evaluation: Evaluation, group: str, ids: tuple[str, ...], resamples: int | None
) -> GroupMeans:
    own = set(ids)
    unjudged = {}
    for of in evaluation.unjudged:
        shares = [of.shares[query] for query in ids if query in of.shares]
        unjudged[of.k] = fmean(shares) if shares else None
    columns = {}
    for name in evaluation.measures:
        values = evaluation.values(name)
        columns[name] = {query: values[query] for query in ids if query in values}
    return GroupMeans(
        group=group,
        queries=len(ids),
        means=mean_intervals(columns, resamples),
        unjudged=unjudged,
        absent=len(own.intersection(evaluation.absent)),
        empty=len(own.intersection(evaluation.empty)),
    )


_TABLE = "a table has the header query_id,group, or query_id and what it groups by, as topic"


def read_groups(path: Path | str, query_ids: Iterable[str]) -> QueryGroups:
    """Read which group each query is in.

    The table has the header `query_id` and `group`. Where there are only two columns the second
    may have another name, which is then that of the grouping; else it is called as the file is. A
    query on several lines is in several groups; one on no line is in none.

    Args:
        path: A CSV file in UTF-8, with commas or tabs between the cells.
        query_ids: All queries of the collection.
    """
    path = Path(path)
    known = frozenset(query_ids)
    members: dict[str, set[str]] = {}
    by = path.stem
    for row in read_csv(path, ("query_id", "group")):
        others = [name for name in row.values if name != "query_id"]
        column = "group" if "group" in row.values else others[0] if len(others) == 1 else ""
        query_id, group = row.values.get("query_id"), (row.values.get(column) or "").strip()
        if not query_id or not group:
            raise CollectionError(f"{row.place}: {_TABLE}")
        if query_id not in known:
            raise CollectionError(
                f"{row.place}: there is no query {query_id!r:.200} in the collection; is the file "
                "of another one?"
            )
        by = path.stem if column == "group" else column
        members.setdefault(group, set()).add(query_id)
    if not members:
        raise CollectionError(f"{path}: the file names no query; {_TABLE}")
    return QueryGroups(
        by=by,
        rule="as the file says",
        members={group: tuple(sorted(members[group])) for group in sorted(members)},
    )
