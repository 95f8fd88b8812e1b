"""The queries of a build: read, filtered, put in order, and every rejection counted."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from freshstack_dspy.config import OTHER_SOURCES, SOURCES, QueriesConfig
from freshstack_dspy.errors import ConfigError, SourceError
from freshstack_dspy.files import ReadProgress
from freshstack_dspy.questions.selection import SelectedQuestions, id_order, is_in_image
from freshstack_dspy.questions.stackexchange import Dump, dump_tables, read_stackexchange
from freshstack_dspy.questions.tables import Columns, known_rows
from freshstack_dspy.records import Query
from freshstack_dspy.rows import Row, given_rows, read_csv, read_rows, row_files

_WITHOUT_ANSWER = {"no accepted answer", "empty answer"}


class QueryReading(NamedTuple):
    """What was read, and what was left out."""

    queries: tuple[Query, ...]
    """In the order of `id_order`."""
    rejected: dict[str, int]
    """How many questions were left out, by reason; each question counts once, under the first
    reason that holds."""


def read_queries(
    config: QueriesConfig,
    progress: ReadProgress | None = None,
    *,
    answered: bool = True,
) -> QueryReading:
    """Read the questions that have an accepted answer (if `answered`) and pass the filters.

    Numeric ids come first, by number; other ids follow in code point order. `limit` keeps the
    first in that order and counts the others as rejected. `progress` is called with the bytes read
    so far, and with all there are.
    """
    if config.source == "synthetic":
        raise ConfigError(
            "[queries] source is synthetic: its questions are made by a build, and there is no "
            "file to read; name a source with a path"
        )
    rejected: Counter[str] = Counter()
    selection = SelectedQuestions(config)
    if config.source == "stackexchange":
        queries = read_stackexchange(config, selection, rejected, progress, answered=answered)
    else:
        queries = _read_table(config, selection, rejected, progress, answered=answered)
    selection.check_tags()
    if rejected and not queries and set(rejected) <= _WITHOUT_ANSWER:
        raise SourceError(
            f"{config.place}: none of its {rejected.total():,} questions has an answer, and "
            "what a good answer holds is taken from there; add an answer to each, take it from "
            'what retrieval finds, with recipe = "nuggets", or let the questions be made from the '
            'documents, with [queries] source = "synthetic"'
        )
    if config.images == "drop":
        rejected["content in an image"] = sum(is_in_image(query.body) for query in queries)
        queries = [query for query in queries if not is_in_image(query.body)]
    queries.sort(key=lambda query: id_order(query.query_id))
    kept = queries[: config.limit]
    rejected["beyond limit"] += len(queries) - len(kept)
    return QueryReading(tuple(kept), {key: rejected[key] for key in sorted(+rejected)})


def _read_table(
    config: QueriesConfig,
    selection: SelectedQuestions,
    rejected: Counter[str],
    progress: ReadProgress | None,
    *,
    answered: bool,
) -> list[Query]:
    columns = Columns(config.columns, answered=answered, fields=config.fields)
    queries: list[Query] = []
    place_of: dict[str, str] = {}
    for place, values in _rows(config, columns, progress):
        found = columns.query(values, place)
        if isinstance(found, str):
            rejected[found] += 1
            continue
        first = place_of.setdefault(found.query_id, place)
        if first != place:
            raise SourceError(
                f"{place}: query_id {found.query_id!r} is already at {first}; "
                "each question needs an id of its own"
            )
        reason = selection.reason_against_query(found, place, answered=answered)
        if reason:
            rejected[reason] += 1
        else:
            queries.append(found)
    kept = {name for query in queries for name in query.fields}
    if queries and (absent := [name for name in config.fields or () if name not in kept]):
        raise SourceError(
            f"{config.place}: no question has a value of {', '.join(map(repr, absent))}, which "
            "[queries] fields names; allowed: columns of the table that are no part of a query"
        )
    return queries


def query_files(config: QueriesConfig) -> list[Path]:
    """Name every file that the queries depend on, each once; of synthetic ones that of their style."""
    if config.source == "synthetic":
        return [config.style] if config.style else []
    if config.source == "stackexchange":
        return Dump(config.file).files(dump_tables(config))
    return _table_files(config)


def _table_files(config: QueriesConfig) -> list[Path]:
    """Name the files with the rows."""
    if config.path is None:
        return []
    if config.source not in SOURCES and config.path.is_dir():
        return sorted(each for each in config.path.rglob("*") if each.is_file())
    return row_files(config.path, ".parquet") if config.source == "parquet" else [config.path]


def _rows_of_others(config: QueriesConfig) -> Iterator[Row]:
    what = f"source {config.source}"
    given = OTHER_SOURCES.get(config.source)(config.file)
    if not isinstance(given, Iterable):
        raise ConfigError(
            f"{what} gave {given!r:.80}; it has to give a dictionary for each question"
        )
    for row in given_rows(given, f"{config.place}, by {what}"):
        if not isinstance(row.values, Mapping):
            raise ConfigError(f"{row.place}: is {row.values!r:.80}; it has to be a dictionary")
        yield row


def _rows(config: QueriesConfig, columns: Columns, progress: ReadProgress | None) -> Iterator[Row]:
    """Read the table that the source is."""
    if config.source == "csv":
        return read_csv(config.file, columns.wanted(), columns.choose, progress)
    if config.source not in SOURCES:
        return _rows_of_others(config)
    if config.rows is not None:
        rows = given_rows(config.rows, config.place)
    else:
        rows = read_rows(_table_files(config), columns.choose, progress)
    if config.source == "jsonl" and not config.columns:
        return known_rows(rows, columns)
    return rows
