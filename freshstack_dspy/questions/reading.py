"""The queries of a build: read, filtered, put in order, and every rejection counted.

A row of JSON Lines, CSV, Parquet, of an installed package's source or in memory becomes a query by
`Columns`; the questions of a dump are read by `stackexchange`.
"""

import difflib
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, get_args

from pydantic import ValidationError

from freshstack_dspy.config import OTHER_SOURCES, SOURCES, QueriesConfig, QueryColumn
from freshstack_dspy.errors import ConfigError, SourceError
from freshstack_dspy.faults import in_one_line
from freshstack_dspy.files import ReadProgress
from freshstack_dspy.questions.filters import SelectedQuestions, id_order, is_in_image
from freshstack_dspy.questions.logs import log_files, read_log
from freshstack_dspy.questions.stackexchange import Dump, dump_tables, read_stackexchange
from freshstack_dspy.records import Attribution, Query
from freshstack_dspy.rows import Row, given_rows, read_csv, read_rows, row_files

_WITHOUT_ANSWER = {"no accepted answer", "empty answer"}
_OF_SYNTHETIC = ("origin", "seed_chunk_ids", "call_id")
_IF_NAMED = ("language", "weight")
"""A column of this name may mean something else, so it is read where it is named, or was written."""
_SOURCES = ("question_source", "answer_source")
_LONGEST_FIELD = 200
"""In characters: a longer value is no name of a group, and is not kept."""
_TEXTS: tuple[QueryColumn, ...] = ("title", "body")
"""One of these is needed."""
_MISSPELT = 0.75
"""From which likeness on an unknown key is taken for a known one that is misspelt."""
_LARGEST_EXACT = 2**53


class QueryReading(NamedTuple):
    """What was read, and what was left out."""

    queries: tuple[Query, ...]
    """In the order of `id_order`."""
    rejected: dict[str, int]
    """How many questions were left out, by reason; each question counts once, under the first
    reason that holds."""
    masked: Mapping[str, int] = MappingProxyType({})
    """Of a log: how many places each rule masked."""


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
    if config.source == "log":
        return _read_log(config, progress, answered=answered)
    rejected: Counter[str] = Counter()
    selection = SelectedQuestions(config)
    read = read_stackexchange if config.source == "stackexchange" else _read_table
    queries = read(config, selection, rejected, progress, answered=answered)
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


def _read_log(
    config: QueriesConfig, progress: ReadProgress | None, *, answered: bool
) -> QueryReading:
    if answered:
        raise SourceError(
            f"{config.place}: a log has no accepted answers, and what a good answer holds is taken "
            'from there; take it from what retrieval finds, with recipe = "nuggets"'
        )
    log = read_log(config, progress)
    queries = sorted(log.queries, key=lambda query: id_order(query.query_id))
    masked = {rule: each.places for rule, each in log.masked.items()}
    return QueryReading(tuple(queries), log.rejected, masked)


def query_files(config: QueriesConfig) -> list[Path]:
    """Name every file that the queries depend on, each once; of synthetic ones that of their style."""
    if config.source == "synthetic":
        return [config.style] if config.style else []
    if config.source == "stackexchange":
        return Dump(config.file).files(dump_tables(config))
    if config.source == "log" and config.path is not None:
        return log_files(config)
    return _table_files(config)


def _table_files(config: QueriesConfig) -> list[Path]:
    if config.path is None:
        return []
    if config.source not in SOURCES and config.path.is_dir():
        return sorted(each for each in config.path.rglob("*") if each.is_file())
    return row_files(config.path, ".parquet") if config.source == "parquet" else [config.path]


def _read_table(
    config: QueriesConfig,
    selection: SelectedQuestions,
    rejected: Counter[str],
    progress: ReadProgress | None,
    *,
    answered: bool,
) -> list[Query]:
    columns = Columns(config, answered=answered)
    queries: list[Query] = []
    place_of: dict[str, str] = {}
    for row in _rows(config, columns, progress):
        query = columns.query(row)
        if isinstance(query, str):
            rejected[query] += 1
            continue
        first = place_of.setdefault(query.query_id, row.place)
        if first != row.place:
            raise SourceError(
                f"{row.place}: query_id {query.query_id!r} is already at {first}; "
                "each question needs an id of its own"
            )
        if reason := selection.reason_against_query(query, row.place, answered=answered):
            rejected[reason] += 1
        else:
            queries.append(query)
    kept = {name for query in queries for name in query.fields}
    if queries and (absent := [name for name in config.fields or () if name not in kept]):
        raise SourceError(
            f"{config.place}: no question has a value of {', '.join(map(repr, absent))}, which "
            "[queries] fields names; allowed: columns of the table that are no part of a query"
        )
    return queries


def _rows(
    config: QueriesConfig, columns: "Columns", progress: ReadProgress | None
) -> Iterator[Row]:
    """Read the table that the source is."""
    if config.source == "csv":
        return read_csv(config.file, columns.known, columns.choose, progress)
    if config.source not in SOURCES:
        return _rows_of_others(config)
    if config.rows is not None:
        rows = given_rows(config.rows, config.place)
    else:
        rows = read_rows(_table_files(config), columns.choose, progress)
    return columns.spelt(rows) if config.source == "jsonl" and not config.columns else rows


def _rows_of_others(config: QueriesConfig) -> Iterator[Row]:
    what = f"source {config.source}"
    rows = OTHER_SOURCES.get(config.source)(config.file)
    if not isinstance(rows, Iterable):
        raise ConfigError(
            f"{what} gave {rows!r:.80}; it has to give a dictionary for each question"
        )
    for row in given_rows(rows, f"{config.place}, by {what}"):
        if not isinstance(row.values, Mapping):
            raise ConfigError(f"{row.place}: is {row.values!r:.80}; it has to be a dictionary")
        yield row


# From rows to queries


class Columns:
    """Which column holds each part of a query: the one that is named, else the one of its name.

    The other columns that `fields` names, or all others, are kept with the query.
    """

    def __init__(self, config: QueriesConfig, *, answered: bool) -> None:
        self._named, self._fields, self._answered = config.columns, config.fields, answered
        self._column_of: dict[QueryColumn, str] = {
            part: self._named.get(part, part)
            for part in get_args(QueryColumn)
            if part not in _IF_NAMED or part in self._named
        }
        self.known = {*self._column_of.values(), *_SOURCES, *_OF_SYNTHETIC, "fields"}
        """Every column that is read where it is there."""

    def choose(self, present: Collection[str], file: str) -> list[str]:
        """Choose the columns to read; each that is named or needed must be there."""
        needed = {*self._named, "query_id", *(("answer",) if self._answered else ())}
        missing: list[tuple[QueryColumn, ...]] = [
            (part,)
            for part, column in self._column_of.items()
            if part in needed and column not in present
        ]
        if not any(part in self._named or part in present for part in _TEXTS):
            missing.append(_TEXTS)
        if missing:
            raise self._lacking(f"{file}: has no column", missing, present)
        return [column for column in present if column in self.known or self._is_kept(column)]

    def _is_kept(self, column: str) -> bool:
        """Whether a column is none of a query's own, and is kept with it."""
        return column not in self.known and (self._fields is None or column in self._fields)

    def _lacking(
        self, what: str, missing: list[tuple[QueryColumn, ...]], present: Iterable[str]
    ) -> SourceError:
        """Name all columns that are missing, those that are there, and how to say which is which."""
        order = [*self._column_of]
        missing = sorted(missing, key=lambda parts: order.index(parts[0]))
        names = [" or ".join(repr(self._column_of[part]) for part in parts) for parts in missing]
        absent = {part for parts in missing for part in parts}
        entries = ", ".join(f'{part} = "…"' for part in order if part in absent)
        has = ", ".join(map(repr, sorted(present))) or "nothing"
        hint = ""
        if ("answer",) in missing and "answer" not in self._named:
            hint = '; for questions without answers: recipe = "nuggets"'
        return SourceError(
            f"{what} {', '.join(names)}; it has {has}; if yours has other names, say so under "
            f"[queries.columns]: {entries}{hint}"
        )

    def spelt(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Give rows of which no name was configured; a key like one that is missing is misspelt."""
        for row in rows:
            missing = sorted(self.known - row.values.keys())
            for key in sorted(row.values.keys() - self.known):
                like = [name for name in missing if not name.startswith(f"{key}_")]
                if near := difflib.get_close_matches(key, like, 1, _MISSPELT):
                    raise SourceError(
                        f"{row.place}: unknown key {key!r} (did you mean {near[0]!r}?); if it is "
                        "right, say where the parts of a query are, under [queries.columns], as "
                        'title = "title"'
                    )
            yield row

    def query(self, row: Row) -> Query | str:
        """Make a query of a row, or say why it is left out."""
        cells: dict[str, Any] = {
            part: _cell(part, row.values.get(column)) for part, column in self._column_of.items()
        }
        missing: list[tuple[QueryColumn, ...]] = []
        if cells["query_id"] is None:
            missing.append(("query_id",))
        has_text = any(cells[part] and str(cells[part]).strip() for part in _TEXTS)
        if not has_text and not any(self._column_of[part] in row.values for part in _TEXTS):
            missing.append(_TEXTS)
        if missing:
            if self._answered and cells["answer"] is None:
                missing.append(("answer",))
            raise self._lacking(f"{row.place}: has no value of", missing, row.values)
        if not cells["answer"] and self._answered:
            return "no accepted answer" if cells["answer"] is None else "empty answer"
        values = {part: value for part, value in cells.items() if part in Query.model_fields}
        values |= {part: cells[part] or "" for part in ("title", "body", "answer")}
        values |= {key: row.values[key] for key in _OF_SYNTHETIC if row.values.get(key)}
        written = "origin" in row.values  # by us: a `Query` always says its origin
        if written:
            values = {part: row.values.get(part) for part in _IF_NAMED} | values
        values["fields"] = self._kept(row.values, _IF_NAMED if written else ())
        for side, name in zip(("question", "answer"), _SOURCES, strict=True):
            flat = {key: cells[f"{side}_{key}"] or "" for key in Attribution.model_fields}
            values[name] = row.values.get(name) or (flat if any(flat.values()) else None)
        try:
            query = Query.model_validate(values)
        except ValidationError as error:
            raise SourceError(f"{row.place}: {in_one_line(error, Query)}") from None
        if any(letter.isspace() or not letter.isprintable() for letter in query.query_id):
            raise SourceError(
                f"{row.place}: query_id is {query.query_id!r}: white space and control characters "
                "are not allowed"
            )
        return query if has_text else "empty question"

    def _kept(self, row: Mapping[str, object], own: Collection[str]) -> Any:
        """The fields of a row: those of a query that was written, and its other columns."""
        written = row.get("fields") or {}
        if not isinstance(written, Mapping):
            return written  # for `Query` to find
        names = (name for name in sorted(row) if self._is_kept(name) and name not in own)
        texts = {name: field_text(row[name]) for name in names}
        return dict(written) | {name: text for name, text in texts.items() if text}


def field_text(value: Any) -> str | None:
    """The text of a cell, or None where it has none that could name a group."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bool):
        return str(value).lower()
    value = _cell("body", value)
    if not isinstance(value, str | int | float):
        return None
    text = str(value).strip()
    return text if 0 < len(text) <= _LONGEST_FIELD else None


def _cell(part: QueryColumn, value: Any) -> Any:
    """Make a value one that a query takes; what cannot be is left for `Query` to find."""
    if isinstance(value, float):  # data frames keep whole numbers with gaps so
        exact = value.is_integer() and abs(value) < _LARGEST_EXACT
        value = None if math.isnan(value) else int(value) if exact else value
    if part in ("query_id", "answer_id") and type(value) is int:
        return str(value)
    if part in ("query_id", "answer_id", "asked_at", "score", *_IF_NAMED) and value == "":
        return None
    if part == "asked_at" and isinstance(value, date):  # a datetime is one too
        return value.isoformat()
    if part == "tags":
        return _split(value) if isinstance(value, str) else value or ()
    return value


def _split(tags: str) -> tuple[str, ...] | str:
    """Cut `<a><b>`, `a|b` or `a,b` into tags; a list written as text is left as it is."""
    if tags.lstrip().startswith(("[", "{", "(")):
        return tags
    mark = r"[<>]" if "<" in tags else r"\|" if "|" in tags else ","
    return tuple(part.strip() for part in re.split(mark, tags) if part.strip())
