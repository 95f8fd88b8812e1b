"""Groups of queries: the means of an evaluation within each, and their macro-average."""

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from freshstack_dspy.errors import CollectionError
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


_QUERY_ID, _GROUP = "query_id", "group"
_TABLE = "a table has the header query_id,group, or query_id and what it groups by, as topic"
_LINE = '{"query_id": "12", "group": "parsing"}'
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_LINES = (".jsonl", ".ndjson")
_BYTE_ORDER_MARK = "\ufeff"


class _Row(NamedTuple):
    line: int
    column: str
    query_id: object
    group: object


def read_groups(path: Path | str, query_ids: Iterable[str]) -> QueryGroups:
    """Read which group each query is in.

    `.csv` and `.tsv` have the header `query_id` and `group`; a line of `.jsonl` is an object with
    these two. Where there are only two columns the second may have another name, which is then
    that of the grouping; else it is called as the file is. A query on several lines is in several groups; one on no line is in none.

    Args:
        path: A UTF-8 text file.
        query_ids: All queries of the collection.

    Returns:
        The groups by name.

    Raises:
        CollectionError: With file and line, where a line cannot be understood, stands twice, or
            names a query that the collection does not have; or the file has no line.
    """
    path = Path(path)
    known = frozenset(query_ids)
    members: dict[str, set[str]] = {}
    column = _GROUP
    for row in _rows(path):
        if members and row.column != column:
            raise CollectionError(
                f"{path}:{row.line}: the group is called {row.column!r:.200}, and {column!r:.200} "
                "above; give it one name"
            )
        column = row.column
        query_id, group = _checked(path, row)
        if query_id not in known:
            raise CollectionError(
                f"{path}:{row.line}: there is no query {query_id!r:.200} in the collection; is the "
                "file of another one?"
            )
        if query_id in members.setdefault(group, set()):
            raise CollectionError(
                f"{path}:{row.line}: query {query_id!r:.200} stands twice in group "
                f"{group!r:.200}; remove one"
            )
        members[group].add(query_id)
    if not members:
        raise CollectionError(f"{path}: the file names no query; {_TABLE}, or lines as {_LINE}")
    return QueryGroups(
        by=path.stem if column == _GROUP else column,
        rule="as the file says",
        members={group: tuple(sorted(members[group])) for group in sorted(members)},
    )


def _rows(path: Path) -> Iterator[_Row]:
    suffix = path.suffix.lower()
    if suffix not in (*_DELIMITERS, *_LINES):
        raise CollectionError(
            f"{path}: a file of groups ends with .csv, .tsv or .jsonl, not {path.suffix!r}"
        )
    try:
        with path.open(encoding="utf-8", newline="") as file:
            if suffix in _LINES:
                yield from _json_rows(path, file)
            else:
                yield from _table_rows(path, file, _DELIMITERS[suffix])
    except OSError as error:
        raise CollectionError(f"{path}: the groups cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CollectionError(f"{path}: the groups are not UTF-8") from None


def _table_rows(path: Path, lines: Iterable[str], delimiter: str) -> Iterator[_Row]:
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        header = [name.strip().removeprefix(_BYTE_ORDER_MARK) for name in next(reader, [])]
        column = _column_of(header)
        if column is None:
            raise CollectionError(f"{path}:1: {_TABLE}, not {','.join(header)[:200]!r}")
        places = (header.index(_QUERY_ID), header.index(column))
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                raise CollectionError(
                    f"{path}:{reader.line_num}: {len(cells)} cells, where the header has "
                    f"{len(header)}"
                )
            yield _Row(reader.line_num, column, cells[places[0]], cells[places[1]])
    except csv.Error as error:
        raise CollectionError(f"{path}:{reader.line_num}: {error}") from None


def _json_rows(path: Path, lines: Iterable[str]) -> Iterator[_Row]:
    for number, line in enumerate(lines, start=1):
        text = line.removeprefix(_BYTE_ORDER_MARK).strip()
        if not text:
            continue
        try:
            found = json.loads(text, object_pairs_hook=_once)
        except _TwiceError as error:
            raise CollectionError(f"{path}:{number}: {error}") from None
        except (ValueError, RecursionError):
            raise CollectionError(f"{path}:{number}: not a line of JSON as {_LINE}") from None
        column = _column_of([*found]) if isinstance(found, dict) else None
        if column is None:
            raise CollectionError(f"{path}:{number}: a line is an object as {_LINE}")
        yield _Row(number, column, found[_QUERY_ID], found[column])


class _TwiceError(Exception):
    """An object has a name twice: of two values one parser keeps the first, another the last."""


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise _TwiceError(f"the object has the name {name!r:.200} twice; keep one")
        found[name] = value
    return found


def _column_of(names: Sequence[str]) -> str | None:
    """Give the name of the column that holds the groups; None where there is none, or two."""
    if names.count(_QUERY_ID) != 1:
        return None
    if _GROUP in names:
        return _GROUP if names.count(_GROUP) == 1 else None
    others = [name for name in names if name != _QUERY_ID]
    return others[0] if len(others) == 1 and others[0].strip() else None


def _checked(path: Path, row: _Row) -> tuple[str, str]:
    for name, value in ((_QUERY_ID, row.query_id), (row.column, row.group)):
        if not isinstance(value, str) or not value.strip():
            raise CollectionError(
                f"{path}:{row.line}: {name[:200]} is a text, and not an empty one, not "
                f"{value!r:.200}"
            )
    return str(row.query_id).strip(), str(row.group).strip()
