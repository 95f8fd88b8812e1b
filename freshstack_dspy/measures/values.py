"""The one result: values by query and measure, of which means and groups are functions.

Rankings, answers, contexts and the differences of two runs all have them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, computed_field

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.measure import Cutoff
from freshstack_dspy.measures.qrels import About
from freshstack_dspy.measures.statistics import Interval, macro_interval, mean_intervals
from freshstack_dspy.records import Record
from freshstack_dspy.rows import load_pandas, read_csv

if TYPE_CHECKING:
    import pandas as pd


class Values(Record):
    """The values of one run."""

    run: str
    measures: tuple[str, ...]
    """In the order asked for."""
    per_query: dict[str, dict[str, float]]
    """By query and measure; nothing where a query does not count."""
    without_value: dict[str, dict[str, str]] = Field(default_factory=dict)
    """By measure, the queries for which it has no value, and why; measures with one for all are
    left out."""
    dry_run: bool = False
    """Whether a word counter made labels, so that nothing is concluded of the values."""
    judged_only: dict[str, dict[str, float]] = Field(default_factory=dict, exclude=True, repr=False)
    """As `per_query`, with chunks without a label taken out of the rankings; where it was asked for.
    Written nowhere."""
    questions: dict[str, str] = Field(default_factory=dict, exclude=True, repr=False)
    """The texts of the queries, where they are known; written nowhere."""
    about: About = Field(default_factory=About, exclude=True, repr=False)
    """The judgments; written nowhere."""

    @classmethod
    def of(cls, run: str, columns: Mapping[str, Mapping[str, float]], **more: Any) -> Self:
        """Make them of columns: by measure, the values by query."""
        per_query: dict[str, dict[str, float]] = {}
        for measure, column in columns.items():
            for query, value in column.items():
                per_query.setdefault(query, {})[measure] = value
        return cls(run=run, measures=tuple(columns), per_query=per_query, **more)

    @property
    def unjudged_shares(self) -> dict[Cutoff, float | None]:
        """By cut-off, the mean share of the top that has no label; nothing where there is no ranking."""
        return {}

    @computed_field  # type: ignore[prop-decorator]
    @cached_property
    def means(self) -> dict[str, float]:
        """By measure, the mean over all queries with a value; 0 where none has one."""
        columns = {name: self.values(name).values() for name in self.measures}
        return {name: fmean(values) if values else 0.0 for name, values in columns.items()}

    @computed_field  # type: ignore[prop-decorator]
    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """The means with their 95% bootstrap intervals over queries, by measure."""
        return mean_intervals({name: self.values(name) for name in self.measures})

    def values(
        self, measure: str, *, only_defined: bool = False, judged_only: bool = False
    ) -> dict[str, float]:
        """Give the values of one measure by query.

        Args:
            measure: Its name.
            only_defined: Leave out the queries that count 0 because the measure has no value.
            judged_only: Those of the judged chunks alone.
        """
        without = self.without_value.get(measure, {}) if only_defined else {}
        by_query = self.judged_only if judged_only else self.per_query
        return {
            query: values[measure]
            for query, values in by_query.items()
            if measure in values and query not in without
        }

    def only(self, queries: Iterable[str]) -> "Values":
        """Give the values of some queries, in their order."""
        per_query = {query: self.per_query[query] for query in queries if query in self.per_query}
        more = {"dry_run": self.dry_run, "about": self.about}
        return Values(run=self.run, measures=self.measures, per_query=per_query, **more)

    def to_pandas(self) -> "pd.DataFrame":
        """Give a table with a row for each query and a column for each measure.

        For a collection, the first column is the question's text.
        """
        pd = load_pandas()
        table = pd.DataFrame.from_dict(self.per_query, orient="index", columns=[*self.measures])
        if self.questions:
            table.insert(0, "question", [self.questions.get(query) for query in self.per_query])
        return table.rename_axis("query_id")


# Groups of queries


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
        groups: dict[str, list[str]] = {}
        for group, ids in self.members.items():
            for query_id in ids:
                groups.setdefault(query_id, []).append(group)
        return {query_id: tuple(groups[query_id]) for query_id in sorted(groups)}


@dataclass(frozen=True)
class Grouped:
    """The values of a run by groups of queries."""

    by: str
    rule: str
    groups: dict[str, Values]
    """The values of the queries of each of the largest groups, in the order of the groups."""
    unlisted: int
    """How many groups with measured queries are not among them."""
    macro: dict[str, Interval]
    """By measure, the mean of the means of all groups that have one, listed or not."""
    ungrouped: tuple[str, ...]
    """The measured queries that are in no group, and so not in the macro-average."""


def grouped(values: Values, groups: QueryGroups, *, limit: int | None = None) -> Grouped:
    """Give the values of a run by group, and the macro-average, the mean of the groups' means.

    For its interval whole queries are drawn, see `macro_interval`.

    Source: macro-averaging: Sebastiani, Machine Learning in Automated Text Categorization, 2002,
    section 7.1.

    Args:
        values: Of one run.
        groups: Queries that were not measured are passed over.
        limit: How many groups are listed, the largest ones; None: all.
    """
    members = {
        name: [query for query in ids if query in values.per_query]
        for name, ids in groups.members.items()
    }
    members = {name: ids for name, ids in members.items() if ids}
    listed = set(sorted(members, key=lambda name: (-len(members[name]), name))[:limit])
    topics = {
        query: names for query, names in groups.by_query().items() if query in values.per_query
    }
    within = values.only(topics)
    return Grouped(
        by=groups.by,
        rule=groups.rule,
        groups={name: values.only(ids) for name, ids in members.items() if name in listed},
        unlisted=len(members) - len(listed),
        macro={name: macro_interval(within.values(name), topics) for name in values.measures},
        ungrouped=tuple(query for query in values.per_query if query not in topics),
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
    path, existing = Path(path), frozenset(query_ids)
    members: dict[str, set[str]] = {}
    by = path.stem
    for row in read_csv(path, ("query_id", "group")):
        others = [name for name in row.values if name != "query_id"]
        column = "group" if "group" in row.values else others[0] if len(others) == 1 else ""
        query_id, group = row.values.get("query_id"), (row.values.get(column) or "").strip()
        if not query_id or not group:
            raise CollectionError(f"{row.place}: {_TABLE}")
        if query_id not in existing:
            raise CollectionError(
                f"{row.place}: there is no query {query_id!r:.200} in the collection; is the file "
                "of another one?"
            )
        by = path.stem if column == "group" else column
        members.setdefault(group, set()).add(query_id)
    if not members:
        raise CollectionError(f"{path}: the file names no query; {_TABLE}")
    ordered = {group: tuple(sorted(members[group])) for group in sorted(members)}
    return QueryGroups(by=by, rule="as the file says", members=ordered)
