"""Rows of CSV, Parquet and Arrow files and of datasets on disk; and how a row becomes a query."""

import csv
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from pydantic import ValidationError

from freshstack_dspy.config import QueryColumn
from freshstack_dspy.errors import SourceError
from freshstack_dspy.faults import in_one_line
from freshstack_dspy.files import LONGEST_LINE, ReadProgress, decoded, json_file, read_lines
from freshstack_dspy.questions.selection import Intake
from freshstack_dspy.records import Attribution, Query

if TYPE_CHECKING:
    from pyarrow import RecordBatch

Values = Mapping[str, object]
"""One row: value by column; None where there is none."""
Chooser = Callable[[list[str], str], list[str]]
"""Chooses columns from those of a file; see `Columns.choose`."""

_SIDES = ("question", "answer")
_OF_SYNTHETIC = ("origin", "seed_chunk_ids", "call_id")
_LARGEST_EXACT = 2**53
_BATCH = 256
_DELIMITERS = (",", ";", "\t", "|")
_SPLITS, _STATE = "dataset_dict.json", "state.json"


class PlacedRow(NamedTuple):
    """One row of a table and where it is."""

    file: str
    number: int
    """From 1; in CSV the line of names is row 1, as spreadsheets count."""
    values: Values


# From rows to queries


class Columns:
    """Which column holds each part of a query: the one that is named, else the one of its name."""

    def __init__(self, named: Mapping[QueryColumn, str]) -> None:
        self._named = named
        self._column_of: dict[QueryColumn, str] = {
            part: named.get(part, part) for part in get_args(QueryColumn)
        }

    def choose(self, present: Collection[str], file: str) -> list[str]:
        """Choose the columns to read; each that is named or needed must be there."""
        needed = [*self._named.values(), self._column_of["query_id"], self._column_of["answer"]]
        missing = [column for column in needed if column not in present]
        texts = [self._column_of["title"], self._column_of["body"]]
        if not missing and not any(column in present for column in texts):
            missing = texts
        if missing:
            part = next(part for part, name in self._column_of.items() if name == missing[0])
            raise SourceError(
                f"{file}: has no column {' or '.join(map(repr, missing))}; it has "
                f"{', '.join(map(repr, sorted(present)))}; name them, as "
                f'[queries.columns] {part} = "…"'
            )
        return [column for column in present if column in self.wanted()]

    def wanted(self) -> set[str]:
        """Name every column that is read where it is there."""
        sources = (f"{side}_source" for side in _SIDES)
        return {*self._column_of.values(), *sources, *_OF_SYNTHETIC}

    def query(self, row: Values, place: str, intake: Intake) -> Query | None:
        """Make a query of a row; None where it has no answer, which is counted."""
        cells = _Cells(row, self._column_of, place)
        query_id = cells.identifier("query_id")
        title, body = cells.text("title"), cells.text("body")
        if query_id is None:
            raise cells.missing("query_id")
        if title is None and body is None:
            raise cells.missing("title", "body")
        answer = cells.text("answer")
        if not answer:
            intake.reject("no accepted answer" if answer is None else "empty answer")
            return None
        synthetic: dict[str, Any] = {key: row[key] for key in _OF_SYNTHETIC if row.get(key)}
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
                **synthetic,
            )
        except ValidationError as error:
            raise SourceError(f"{place}: {in_one_line(error, Query)}") from None


class _Cells:
    """The values of one row, by part of a query."""

    def __init__(self, row: Values, column_of: Mapping[QueryColumn, str], place: str) -> None:
        self._row = row
        self._column_of = column_of
        self._place = place

    def text(self, part: QueryColumn) -> str | None:
        value = self._value(part)
        if value is None or isinstance(value, str):
            return value
        raise self._fault(part, value, "text")

    def identifier(self, part: QueryColumn) -> str | None:
        """Read an id: a text, or a whole number."""
        value = self._value(part)
        if value is None or isinstance(value, str):
            return value or None
        number = _whole(value)
        if number is None:
            raise self._fault(part, value, "text or a whole number")
        return str(number)

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
            mark = r"[<>]" if "<" in value else r"\|" if "|" in value else ","
            return tuple(part.strip() for part in re.split(mark, value) if part.strip())
        raise self._fault("tags", value, "a list of texts, or a text as <a><b>, a|b or a,b")

    def attribution(self, side: str) -> Attribution | None:
        """Read who wrote the question or the answer: from a nested column, or from flat ones."""
        nested = self._row.get(f"{side}_source")
        if nested is not None:
            try:
                return Attribution.model_validate(nested)
            except ValidationError as error:
                fault = in_one_line(error, Attribution)
                raise SourceError(f"{self._place}: {side}_source: {fault}") from None
        parts = {key: self.text(f"{side}_{key}") or "" for key in Attribution.model_fields}  # type: ignore[arg-type]
        return Attribution(**parts) if any(parts.values()) else None

    def missing(self, *parts: QueryColumn) -> SourceError:
        names = " and ".join(map(self._name, parts))
        return SourceError(
            f"{self._place}: {names} {'is' if len(parts) == 1 else 'are both'} missing; it has "
            f"{', '.join(map(repr, self._row)) or 'nothing'}; if yours has another name, say so, "
            f'as [queries.columns] {parts[0]} = "…"'
        )

    def _name(self, part: QueryColumn) -> str:
        column = self._column_of[part]
        return part if column == part else f"{part} (column {column!r})"

    def _value(self, part: QueryColumn) -> object:
        value = self._row.get(self._column_of[part])
        return None if isinstance(value, float) and math.isnan(value) else value

    def _fault(self, part: QueryColumn, value: object, allowed: str) -> SourceError:
        return SourceError(
            f"{self._place}: {self._name(part)} is {shortened(value)}; allowed: {allowed}"
        )


def _whole(value: object) -> int | None:
    """Take a whole number; of floats those that are exact, as data frames keep ids with gaps."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST_EXACT:
        return int(value)
    return None


# Parquet and Arrow


def parquet_files(path: Path) -> list[Path]:
    """Name the Parquet files of a folder, in order, or the one file that it is."""
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*.parquet") if file.is_file())
    if not files:
        raise SourceError(f"{path}: holds no file *.parquet; name the file, or its folder")
    return files


def read_parquet(
    files: list[Path], choose: Chooser, progress: ReadProgress | None = None
) -> Iterator[PlacedRow]:
    """Give the rows of Parquet files, with the columns that `choose` takes."""
    from pyarrow.parquet import ParquetFile

    for path in _in_turn(files, progress):
        with _faults_of(path, "Parquet"), ParquetFile(path) as file:
            names = _once(choose(file.schema_arrow.names, str(path)), path)
            yield from _rows_of(file.iter_batches(_BATCH, columns=names), path)


def read_arrow(
    files: list[Path], choose: Chooser, progress: ReadProgress | None = None
) -> Iterator[PlacedRow]:
    """Give the rows of files in Arrow's stream format, as `datasets` writes them; see `read_parquet`."""
    from pyarrow import ipc

    for path in _in_turn(files, progress):
        with _faults_of(path, "Arrow"), path.open("rb") as opened:
            stream = ipc.open_stream(opened)
            names = _once(choose(stream.schema.names, str(path)), path)
            yield from _rows_of((batch.select(names) for batch in stream), path)


def _in_turn(files: list[Path], progress: ReadProgress | None) -> Iterator[Path]:
    sizes = [path.stat().st_size if path.is_file() else 0 for path in files]
    for number, path in enumerate(files, start=1):
        yield path
        if progress is not None:
            progress(sum(sizes[:number]), sum(sizes))


def _once(names: list[str], path: Path) -> list[str]:
    """Check that no name is there twice."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise SourceError(f"{path}: has two columns {twice[0]!r}; rename one")
    return names


def _rows_of(batches: Iterable["RecordBatch"], path: Path) -> Iterator[PlacedRow]:
    number = 0
    for batch in batches:
        for start in range(0, batch.num_rows, _BATCH):
            for values in _plain(batch.slice(start, _BATCH)):
                number += 1
                yield PlacedRow(str(path), number, values)


def _plain(batch: "RecordBatch") -> list[dict[str, Any]]:
    """Give rows of Python's own values; Python knows no nanoseconds, so these are cut off."""
    import pyarrow as pa

    for place, field in enumerate(batch.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
            column = batch.column(place).cast(pa.timestamp("us", field.type.tz), safe=False)
            batch = batch.set_column(place, field.name, column)
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


@contextmanager
def _faults_of(path: Path, kind: str) -> Iterator[None]:
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
        raise SourceError(f"{path}: cannot be read as {kind}: {reason}") from None


# CSV


def read_csv(
    path: Path, columns: Columns, progress: ReadProgress | None = None
) -> Iterator[PlacedRow]:
    """Give the rows of a CSV file, as texts by column; an empty cell is None.

    The delimiter is the comma, semicolon, tab or bar that yields the most names that are known.

    It is in UTF-8 with or without a byte order mark; its first line names the columns.
    """
    csv.field_size_limit(LONGEST_LINE)  # Python's own limit is 128 KiB
    lines = (decoded(line, f"{path}:{number}") for number, line in read_lines(path, progress))
    first = next(lines, "")
    if not first.strip():
        raise SourceError(f"{path}: the first line is empty; allowed: names of columns")
    headers = {mark: next(csv.reader([first], delimiter=mark)) for mark in _DELIMITERS}
    delimiter = max(_DELIMITERS, key=lambda mark: len(columns.wanted() & set(headers[mark])))
    header = _once(headers[delimiter], path)
    wanted = set(columns.choose(header, str(path)))
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    number = 1
    while True:
        number += 1
        try:
            cells = next(rows, None)
        except csv.Error as error:
            raise SourceError(f"{path}:{number}: not CSV: {error}") from None
        if cells is None:
            return
        if cells and len(cells) != len(header):
            raise SourceError(
                f"{path}:{number}: has {len(cells)} cells under {len(header)} names; "
                "quote cells that hold the delimiter or line breaks"
            )
        if cells:
            pairs = zip(header, cells, strict=True)
            values = {name: cell or None for name, cell in pairs if name in wanted}
            yield PlacedRow(str(path), number, values)


# Datasets that `datasets.Dataset.save_to_disk` wrote


def dataset_files(folder: Path, split: str | None) -> tuple[list[Path], list[Path]]:
    """Find the files of a dataset, or of one split of it, which is needed where there are several.

    Returns:
        The Arrow files with the rows, in order; and the JSON files that name them.
    """
    described: list[Path] = []
    place = folder
    if (folder / _SPLITS).is_file():
        described.append(folder / _SPLITS)
        place = folder / _chosen_split(folder / _SPLITS, split)
    if not (place / _STATE).is_file():
        raise SourceError(
            f"{place}: holds no {_STATE}; allowed: a folder that "
            'datasets.Dataset.save_to_disk wrote, or source = "parquet" for files *.parquet'
        )
    described.append(place / _STATE)
    state = _object(place / _STATE)
    saved = state.get("_split")
    if place == folder and split is not None and split != saved:
        raise SourceError(f"{folder}: is the split {saved!r} alone, and not {split!r}")
    if state.get("_indices_data_files"):
        raise SourceError(f"{place}: rows are chosen by an index; save it again with datasets 2 up")
    files = state.get("_data_files") or []
    if not files:
        raise SourceError(f"{place / _STATE}: names no _data_files")
    return [place / _plain_name(one["filename"], place / _STATE) for one in files], described


def _chosen_split(file: Path, split: str | None) -> str:
    names = [_plain_name(name, file) for name in _object(file).get("splits") or []]
    if split is None and len(names) == 1:
        return names[0]
    if split not in names:
        what = "has several splits" if split is None else f"has no split {split!r}"
        raise SourceError(
            f"{file.parent}: {what}; allowed: [queries] split = {' or '.join(map(repr, names))}"
        )
    return split


def _object(file: Path) -> dict[str, Any]:
    value = json_file(file)
    if not isinstance(value, dict):
        raise SourceError(f"{file}: not a JSON object")
    return value


def _plain_name(name: Any, file: Path) -> str:
    """Check that a name does not lead out of its folder."""
    if not isinstance(name, str) or name in ("", ".", "..") or set(name) & set("/\\:\0"):
        raise SourceError(f"{file}: names {name!r}; allowed: plain names of files next to it")
    return name
