"""How a row of JSON Lines, CSV or Parquet becomes a query."""

import difflib
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import date
from typing import Any, get_args

from pydantic import ValidationError

from freshstack_dspy.config import QueryColumn
from freshstack_dspy.errors import SourceError
from freshstack_dspy.faults import in_one_line
from freshstack_dspy.records import Attribution, Query
from freshstack_dspy.rows import Row

Values = Mapping[str, object]
"""One row: value by column; None where there is none."""

_OF_SYNTHETIC = ("origin", "seed_chunk_ids", "call_id")
_LONGEST_FIELD = 200
"""In characters: a longer value is no name of a group, and is not kept."""
_TEXTS: tuple[QueryColumn, ...] = ("title", "body")
"""One of these is needed."""
_MISSPELT = 0.75
"""From which likeness on an unknown key is taken for a known one that is misspelt."""
_LARGEST_EXACT = 2**53


# From rows to queries


class Columns:
    """Which column holds each part of a query: the one that is named, else the one of its name.

    The other columns that `fields` names, or all others, are kept with the query.
    """

    def __init__(
        self,
        named: Mapping[QueryColumn, str],
        *,
        answered: bool = True,
        fields: Collection[str] | None = None,
    ) -> None:
        self._named = named
        self._answered = answered
        self._fields = fields
        self._column_of: dict[QueryColumn, str] = {
            part: named.get(part, part)
            for part in get_args(QueryColumn)
            if part != "language" or part in named  # else it may be that of a program
        }

    def choose(self, present: Collection[str], file: str) -> list[str]:
        """Choose the columns to read; each that is named or needed must be there."""
        needed: set[QueryColumn] = {*self._named, "query_id"}
        if self._answered:
            needed.add("answer")
        missing: list[tuple[QueryColumn, ...]] = [
            (part,) for part in needed if self._column_of[part] not in present
        ]
        if not any(part in self._named or part in present for part in _TEXTS):
            missing.append(_TEXTS)
        if missing:
            raise SourceError(f"{file}: has no column {self._named_in(missing, present)}")
        return [column for column in present if column in self.wanted() or self._is_kept(column)]

    def _named_in(
        self, missing: Iterable[tuple[QueryColumn, ...]], present: Collection[str]
    ) -> str:
        """Name all columns that are missing, those that are there, and how to say which is which."""
        missing = sorted(missing, key=lambda parts: [*self._column_of].index(parts[0]))
        names = [" or ".join(repr(self._column_of[part]) for part in parts) for parts in missing]
        said = {part for parts in missing for part in parts}
        said |= {part for part in _TEXTS if self._column_of[part] not in present}
        entries = ", ".join(f'{part} = "…"' for part in self._column_of if part in said)
        answers = ("answer",) in missing and "answer" not in self._named
        return (
            f"{', '.join(names)}; it has {', '.join(map(repr, sorted(present))) or 'nothing'}; if "
            f"yours has other names, say so under [queries.columns]: {entries}"
            + ('; for questions without answers: recipe = "nuggets"' if answers else "")
        )

    def _is_kept(self, column: str) -> bool:
        """Whether a column is none of a query's own, and is kept with it."""
        return column not in self.wanted() and (self._fields is None or column in self._fields)

    def wanted(self) -> set[str]:
        """Name every column that is read where it is there."""
        sources = ("question_source", "answer_source")
        return {*self._column_of.values(), *sources, *_OF_SYNTHETIC, "fields"}

    def query(self, row: Values, place: str) -> Query | str:
        """Make a query of a row, or say why it is left out."""
        cells: dict[str, Any] = {
            part: _cell(part, row.get(column)) for part, column in self._column_of.items()
        }
        missing: list[tuple[QueryColumn, ...]] = []
        if cells["query_id"] is None:
            missing.append(("query_id",))
        has_text = any(cells[part] and str(cells[part]).strip() for part in _TEXTS)
        if not has_text and not any(self._column_of[part] in row for part in _TEXTS):
            missing.append(_TEXTS)
        if missing:
            if self._answered and cells["answer"] is None:
                missing.append(("answer",))
            raise SourceError(f"{place}: has no value of {self._named_in(missing, row.keys())}")
        if not cells["answer"] and self._answered:
            return "no accepted answer" if cells["answer"] is None else "empty answer"
        values = {part: cells[part] for part in cells if part in Query.model_fields}
        values |= {part: cells[part] or "" for part in ("title", "body", "answer")}
        values |= {key: row[key] for key in _OF_SYNTHETIC if row.get(key)}
        if _is_record(row):
            values.setdefault("language", row.get("language"))
        values["fields"] = self._kept(row)
        for side in ("question", "answer"):
            flat = {key: cells[f"{side}_{key}"] or "" for key in Attribution.model_fields}
            source = row.get(f"{side}_source")
            values[f"{side}_source"] = source or (flat if any(flat.values()) else None)
        try:
            query = Query.model_validate(values)
        except ValidationError as error:
            raise SourceError(f"{place}: {in_one_line(error, Query)}") from None
        if any(letter.isspace() or not letter.isprintable() for letter in query.query_id):
            raise SourceError(
                f"{place}: query_id is {query.query_id!r}: white space and control characters "
                "are not allowed"
            )
        return query if has_text else "empty question"

    def _kept(self, row: Values) -> Any:
        """The fields of a row: those of a query that was written, and its other columns."""
        written = row.get("fields") or {}
        if not isinstance(written, Mapping):
            return written  # for `Query` to find
        own = ("language",) if _is_record(row) else ()
        names = (name for name in sorted(row) if self._is_kept(name) and name not in own)
        texts = {name: _field(row[name]) for name in names}
        return dict(written) | {name: text for name, text in texts.items() if text}


def _is_record(row: Values) -> bool:
    """Whether a row is a `Query` that was written, which always says its origin."""
    return "origin" in row


def _field(value: Any) -> str | None:
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
    if part in ("query_id", "answer_id", "asked_at", "score", "language") and value == "":
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


# JSON Lines


def known_rows(rows: Iterable[Row], columns: Columns) -> Iterator[Row]:
    """Give rows of which no name was configured; a key like one that is missing is misspelt."""
    known = sorted(columns.wanted())
    for row in rows:
        missing = [key for key in known if key not in row.values]
        for key in row.values:
            like = [name for name in missing if not name.startswith(f"{key}_")]
            near = difflib.get_close_matches(key, like, 1, _MISSPELT)
            if near and key not in known:
                raise SourceError(
                    f"{row.place}: unknown key {key!r} (did you mean {near[0]!r}?); if it is "
                    "right, say where the parts of a query are, under [queries.columns], as "
                    'title = "title"'
                )
        yield row
