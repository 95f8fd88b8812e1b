"""Rows of a table → queries: which column holds what, and what may stand in it."""

import math
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import date
from reprlib import repr as shortened
from typing import NamedTuple, get_args

from pydantic import ValidationError

from freshstack_dspy.config.inputs import QueryColumn
from freshstack_dspy.errors import SourceError
from freshstack_dspy.faults import in_one_line
from freshstack_dspy.records import Attribution, Query
from freshstack_dspy.sources.questions.intake import Intake

Values = Mapping[str, object]
"""One row: value by column; None where there is none."""
_NEEDED: tuple[QueryColumn, ...] = ("query_id", "answer")
_TEXTS: tuple[QueryColumn, ...] = ("title", "body")
_SIDES = ("question", "answer")
_LARGEST_EXACT = 2**53


class PlacedRow(NamedTuple):
    """One row of a table and where it stands."""

    file: str
    number: int
    """From 1; in CSV the line of names is row 1, as spreadsheets count."""
    values: Values


class Columns:
    """Which column holds each part of a query: the one that is named, else the one of its name."""

    def __init__(self, named: Mapping[QueryColumn, str]) -> None:
        self._named = named
        self._column_of: dict[QueryColumn, str] = {
            part: named.get(part, part) for part in get_args(QueryColumn)
        }

    def choose(self, present: Collection[str], file: str) -> list[str]:
        """Choose the columns to read.

        Raises:
            SourceError: One that is named or needed is not there.
        """
        missing = [column for column in self._named.values() if column not in present]
        missing += [self._column_of[part] for part in _NEEDED if part not in self._named]
        missing = [column for column in missing if column not in present]
        texts = [self._column_of[part] for part in _TEXTS]
        if not missing and not any(column in present for column in texts):
            missing = texts
        if missing:
            raise SourceError(
                f"{file}: has no column {' or '.join(map(repr, missing))}; it has "
                f"{', '.join(map(repr, sorted(present)))}; name them, as "
                f'[queries.columns] {self._part_of(missing[0])} = "…"'
            )
        wanted = {*self._column_of.values(), *(f"{side}_source" for side in _SIDES)}
        return [column for column in present if column in wanted]

    def known(self, names: Iterable[str]) -> int:
        """Count the names that are columns of ours."""
        return len(set(names) & set(self._column_of.values()))

    def query(self, row: Values, place: str, intake: Intake) -> Query | None:
        """Make a query of a row; None where it has no answer, which is counted.

        Raises:
            SourceError: `place: …` for a value that cannot be understood.
        """
        cells = _Cells(row, self._column_of, place)
        query_id = cells.identifier("query_id")
        if query_id is None:
            raise SourceError(f"{place}: {cells.name('query_id')} is missing")
        title, body = cells.text("title"), cells.text("body")
        if title is None and body is None:
            raise SourceError(
                f"{place}: {cells.name('title')} and {cells.name('body')} are both missing"
            )
        answer = cells.text("answer")
        if not answer:
            intake.reject("no accepted answer" if answer is None else "empty answer")
            return None
        try:
            return Query(
                query_id=query_id,
                title=title or "",
                body=body or "",
                answer_id=cells.identifier("answer_id"),
                answer=answer,
                tags=cells.tags(),
                asked_at=cells.moment("asked_at"),
                score=cells.whole("score"),
                question_source=cells.attribution("question"),
                answer_source=cells.attribution("answer"),
            )
        except ValidationError as error:
            raise SourceError(f"{place}: {in_one_line(error, Query)}") from None

    def _part_of(self, column: str) -> str:
        return next(part for part, name in self._column_of.items() if name == column)


class _Cells:
    """The values of one row, by part of a query."""

    def __init__(self, row: Values, column_of: Mapping[QueryColumn, str], place: str) -> None:
        self._row = row
        self._column_of = column_of
        self._place = place

    def name(self, part: QueryColumn) -> str:
        """Name a part, and its column where that is another."""
        column = self._column_of[part]
        return part if column == part else f"{part} (column {column!r})"

    def text(self, part: QueryColumn) -> str | None:
        """Read a text."""
        value = self._value(part)
        if value is None or isinstance(value, str):
            return value
        raise self._fault(part, value, "text")

    def identifier(self, part: QueryColumn) -> str | None:
        """Read an id: a text, or a whole number."""
        value = self._value(part)
        if isinstance(value, str):
            return value or None
        number = _whole(value)
        if value is not None and number is None:
            raise self._fault(part, value, "text or a whole number")
        return None if number is None else str(number)

    def whole(self, part: QueryColumn) -> int | None:
        """Read a whole number, which may be written as text."""
        value = self._value(part)
        if value is None or value == "":
            return None
        if isinstance(value, str) and re.fullmatch(r"[+-]?\d{1,18}(\.0+)?", value, re.ASCII):
            return int(value.partition(".")[0])
        number = _whole(value)
        if number is None:
            raise self._fault(part, value, "a whole number")
        return number

    def moment(self, part: QueryColumn) -> str | None:
        """Read a date, with or without a time, as text; whether it is ISO 8601 is seen later."""
        value = self._value(part)
        if isinstance(value, date):  # a datetime is one too
            return value.isoformat()
        if value is None or isinstance(value, str):
            return value or None
        raise self._fault(part, value, "a date or a text in ISO 8601")

    def tags(self) -> tuple[str, ...]:
        """Read tags: a list, or a text as `<a><b>`, `a|b` or `a,b`."""
        value = self._value("tags")
        if value is None:
            return ()
        if isinstance(value, list) and all(isinstance(tag, str) for tag in value):
            return tuple(value)
        if isinstance(value, str) and not value.lstrip().startswith(("[", "{", "(")):
            return _split_tags(value)
        raise self._fault("tags", value, "a list of texts, or a text as <a><b>, a|b or a,b")

    def attribution(self, side: str) -> Attribution | None:
        """Read who wrote the question or the answer: from a nested column, or from flat ones."""
        nested = self._row.get(f"{side}_source")
        if isinstance(nested, dict):
            try:
                return Attribution.model_validate(nested, strict=True)
            except ValidationError as error:
                said = in_one_line(error, Attribution)
                raise SourceError(f"{self._place}: {side}_source: {said}") from None
        parts = {key: self.text(f"{side}_{key}") or "" for key in Attribution.model_fields}  # type: ignore[arg-type]
        return Attribution(**parts) if any(parts.values()) else None

    def _value(self, part: QueryColumn) -> object:
        value = self._row.get(self._column_of[part])
        return None if isinstance(value, float) and math.isnan(value) else value

    def _fault(self, part: QueryColumn, value: object, allowed: str) -> SourceError:
        return SourceError(
            f"{self._place}: {self.name(part)} is {shortened(value)}; allowed: {allowed}"
        )


def _whole(value: object) -> int | None:
    """Take a whole number; of floats those that are exact, as data frames keep ids with gaps."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST_EXACT:
        return int(value)
    return None


def _split_tags(text: str) -> tuple[str, ...]:
    mark = r"[<>]" if "<" in text else r"\|" if "|" in text else ","
    return tuple(part.strip() for part in re.split(mark, text) if part.strip())
