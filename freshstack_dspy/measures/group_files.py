"""Groups of one's own, read from a table: CSV, TSV or JSON Lines of query_id and group.

The column of groups is called `group`, or, as the only other one, by what it groups, as `topic`.
"""

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.groups import QueryGroups

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
