"""The rows of Parquet and Arrow files, a batch at a time, with the wanted columns alone."""

import csv
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from reprlib import repr as shortened
from typing import IO, TYPE_CHECKING, Any, NamedTuple, get_args

from pydantic import ValidationError

from freshstack_dspy.config import QueryColumn
from freshstack_dspy.errors import SourceError
from freshstack_dspy.faults import in_one_line
from freshstack_dspy.files import LONGEST_LINE, ReadProgress, decoded, json_file, read_lines
from freshstack_dspy.questions.selection import Intake
from freshstack_dspy.records import Attribution, Query

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyarrow.parquet import ParquetFile

_SLOT = 8
"""Bytes that any value takes, a missing one too."""


def in_bounded_parts(batch: "RecordBatch", place: str, first: int) -> Iterator["RecordBatch"]:
    """Cut a batch into parts none of which unpacks to more than a line may have.

    Args:
        batch: Some rows.
        place: Of the file, for messages.
        first: The number of the first row.

    Raises:
        SourceError: A single row is longer, or a column is of a type that is not read.
    """
    size = sum(_size(column, f"{place}: column {name!r}") for name, column in _named(batch))
    if size <= LONGEST_LINE:
        yield batch
    elif batch.num_rows == 1:
        raise SourceError(f"{place}:{first}: longer than {LONGEST_LINE >> 20} MiB; no question is")
    else:
        half = batch.num_rows // 2
        yield from in_bounded_parts(batch.slice(0, half), place, first)
        yield from in_bounded_parts(batch.slice(half), place, first + half)


def longest_shared(batch: "RecordBatch") -> int:
    """Give the bytes of the longest value in the dictionaries of a batch."""
    return max((_longest(column) for column in batch.columns), default=0)


def _longest(array: Any) -> int:
    pc = _compute()
    from pyarrow import types

    if types.is_dictionary(array.type) and _is_text(array.dictionary.type):
        return pc.max(pc.binary_length(array.dictionary)).as_py() or 0
    if types.is_struct(array.type):
        return max(map(_longest, array.flatten()), default=0)
    return 0


def _named(batch: "RecordBatch") -> Iterator[tuple[str, Any]]:
    return zip(batch.schema.names, batch.columns, strict=True)


def _size(array: Any, place: str) -> int:
    """Give the bytes of all values in an array, without unpacking one."""
    pc = _compute()
    from pyarrow import types

    kind, own = array.type, len(array) * _SLOT
    if types.is_dictionary(kind) and _is_text(kind.value_type):
        return own + _total_of_shared(array)
    if _is_text(kind):
        return own + _total(pc.binary_length(array))
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return own + _total_of_views(array)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return own + _size(array.flatten(), place)
    if types.is_struct(kind):
        return own + sum(_size(child, place) for child in array.flatten())
    if not (types.is_primitive(kind) or types.is_decimal(kind) or types.is_null(kind)):
        raise SourceError(f"{place} is of type {str(kind)[:100]!r}; save it as text")
    return own


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
    )


def _total(lengths: Any) -> int:
    pc = _compute()

    return int(pc.sum(lengths.cast("int64")).as_py() or 0)


def _total_of_shared(array: Any) -> int:
    pc = _compute()

    used = array.indices.drop_null().value_counts()
    lengths = pc.binary_length(array.dictionary.take(used.field("values")))
    return _total(pc.multiply(lengths.cast("int64"), used.field("counts")))


def _total_of_views(array: Any) -> int:
    """Add up the lengths that begin each view of 16 bytes, for which Arrow has no function."""
    import numpy as np

    if not len(array):
        return 0
    views = np.frombuffer(array.buffers()[1], "<i4").reshape(-1, 4)
    lengths = views[array.offset : array.offset + len(array), 0]
    return int(lengths.clip(0).sum(dtype=np.int64))


def _compute() -> Any:
    """The functions that pyarrow makes when it is imported, which no type checker sees."""
    import pyarrow.compute as pc

    return pc


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


_BATCH = 256
_LONGEST_COPIED = 1 << 20
"""Bytes of a value of a dictionary that is copied for each row of a batch."""


def parquet_batches(
    file: "ParquetFile", opened: IO[bytes], names: list[str]
) -> Iterator["RecordBatch"]:
    """Give the rows in batches; values that are long or in lists are shared by their rows.

    Args:
        file: To read.
        opened: The same, to read it in other ways.
        names: The columns to read.
    """
    from pyarrow.parquet import ParquetFile

    leaves = [file.schema.column(number) for number in range(len(file.schema))]
    texts = [leaf for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
    in_lists = [leaf.path for leaf in texts if leaf.max_repetition_level]
    usual = ParquetFile(opened, metadata=file.metadata, read_dictionary=in_lists)
    careful = ParquetFile(
        opened, metadata=file.metadata, read_dictionary=[leaf.path for leaf in texts]
    )
    for group in range(file.num_row_groups):
        row = next(careful.iter_batches(batch_size=1, row_groups=[group], columns=names), None)
        shares = row is not None and longest_shared(row) > _LONGEST_COPIED
        reader = careful if shares else usual
        yield from reader.iter_batches(batch_size=_BATCH, row_groups=[group], columns=names)


Chooser = Callable[[list[str], str], list[str]]
"""Chooses columns from those of a file; see `Columns.choose`."""
_BATCH_arrow_rows = 256


def parquet_files(path: Path) -> list[Path]:
    """Name the Parquet files of a folder, in order, or the one file that it is.

    Raises:
        SourceError: The folder holds none.
    """
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*.parquet") if file.is_file())
    if not files:
        raise SourceError(f"{path}: holds no file *.parquet; name the file, or its folder")
    return files


def read_parquet(
    files: list[Path], choose: Chooser, progress: ReadProgress | None = None
) -> Iterator[PlacedRow]:
    """Give the rows of Parquet files.

    Args:
        files: The files, in order.
        choose: Chooses the columns of each.
        progress: Is told how many bytes of files were read, of how many.

    Raises:
        SourceError: A file is missing, damaged or no Parquet, lacks a column or has it twice, or
            holds a row that is too long.
    """
    from pyarrow.parquet import ParquetFile

    for path in _in_turn(files, progress):
        with _faults_of(path, "Parquet"), path.open("rb") as opened:
            file = ParquetFile(opened)
            names = _chosen(choose, file.schema_arrow.names, path)
            yield from _rows_of(parquet_batches(file, opened, names), path)


def read_arrow(
    files: list[Path], choose: Chooser, progress: ReadProgress | None = None
) -> Iterator[PlacedRow]:
    """Give the rows of files in Arrow's stream format, as `datasets` writes them.

    Args:
        files: The files, in order.
        choose: Chooses the columns of each.
        progress: Is told how many bytes of files were read, of how many.

    Raises:
        SourceError: A file is missing, damaged or no Arrow stream, lacks a column or has it twice,
            or holds a row that is too long.
    """
    from pyarrow import ipc

    for path in _in_turn(files, progress):
        with _faults_of(path, "Arrow"), path.open("rb") as opened:
            stream = ipc.open_stream(opened)
            names = _chosen(choose, stream.schema.names, path)
            yield from _rows_of((batch.select(names) for batch in stream), path)


def _in_turn(files: list[Path], progress: ReadProgress | None) -> Iterator[Path]:
    sizes = [path.stat().st_size if path.exists() else 0 for path in files]
    for number, path in enumerate(files, start=1):
        yield path
        if progress is not None:
            progress(sum(sizes[:number]), sum(sizes))


def _chosen(choose: Chooser, present: list[str], path: Path) -> list[str]:
    names = choose(present, str(path))
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise SourceError(f"{path}: has two columns {twice[0]!r}; rename one")
    return names


def _rows_of(batches: Iterator["RecordBatch"], path: Path) -> Iterator[PlacedRow]:
    number = 0
    for batch in batches:
        batch.validate(full=True)
        for start in range(0, batch.num_rows, _BATCH_arrow_rows):
            piece = batch.slice(start, _BATCH_arrow_rows)
            for part in in_bounded_parts(piece, str(path), number + 1):
                for values in _plain(part, path):
                    number += 1
                    yield PlacedRow(str(path), number, values)


def _plain(batch: "RecordBatch", path: Path) -> list[dict[str, Any]]:
    """Give rows of Python's own values; Python knows no nanoseconds, so these are cut off."""
    import pyarrow as pa

    columns = [
        column.cast(pa.timestamp("us", column.type.tz), safe=False)
        if pa.types.is_timestamp(column.type) and column.type.unit == "ns"
        else column
        for column in batch.columns
    ]
    try:
        values = [column.to_pylist() for column in columns]
    except (KeyError, pa.ArrowException) as error:  # of pytz, zoneinfo and Arrow itself
        zones = {column.type.tz for column in columns if pa.types.is_timestamp(column.type)}
        raise SourceError(
            f"{path}: dates are in a time zone that nobody knows ({error}): "
            f"{', '.join(map(repr, filter(None, zones)))}"
        ) from None
    names = batch.schema.names
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


@contextmanager
def _faults_of(path: Path, kind: str) -> Iterator[None]:
    from pyarrow import ArrowException

    try:
        yield
    except SourceError:
        raise
    except MemoryError:
        raise SourceError(
            f"{path}: cannot be read as {kind}: it needs more memory than there is"
        ) from None
    except (ArrowException, OSError, ValueError, OverflowError) as error:
        said = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise SourceError(
            f"{path}: cannot be read as {kind}: {' '.join(str(said).split())[:200]}"
        ) from None


_DELIMITERS = (",", ";", "\t", "|")


def read_csv(
    path: Path, columns: Columns, progress: ReadProgress | None = None
) -> Iterator[PlacedRow]:
    """Give the rows of a CSV file, as texts by column; an empty cell is None.

    The delimiter is the comma, semicolon, tab or bar that yields the most names that are known.

    Args:
        path: The file, in UTF-8 with or without a byte order mark; its first line names columns.
        columns: Which columns are wanted.
        progress: Is told how many bytes were read, of how many.

    Raises:
        SourceError: The file cannot be read, is not UTF-8, lacks a column, or `file:row: …` for a
            row that is too long, is not closed, or has more or fewer cells than there are columns.
    """
    with _wide_cells():
        records = _Records(path, progress)
        header = records.header(columns)
        wanted = set(columns.choose(header, str(path)))
        for number, cells in enumerate(records, start=2):
            if not cells:
                continue
            if len(cells) != len(header):
                raise SourceError(
                    f"{path}:{number}: has {len(cells)} cells under {len(header)} names; "
                    "quote cells that hold the delimiter or line breaks"
                )
            values = {
                name: cell or None
                for name, cell in zip(header, cells, strict=True)
                if name in wanted
            }
            yield PlacedRow(str(path), number, values)


class _Records:
    """The records of a file, none longer than a line may be."""

    def __init__(self, path: Path, progress: ReadProgress | None) -> None:
        self._path = path
        self._number = 0
        self._size = 0
        self._lines = self._texts(progress)
        self._reader = csv.reader(self._lines, strict=True)

    def header(self, columns: Columns) -> list[str]:
        """Read the names of the columns, and find the delimiter by them."""
        first = next(self._lines, None)
        if first is None or not first.strip():
            raise SourceError(f"{self._path}: the first line is empty; allowed: names of columns")
        try:
            headers = {
                delimiter: next(csv.reader([first], delimiter=delimiter, strict=True))
                for delimiter in _DELIMITERS
            }
        except csv.Error as error:
            raise SourceError(f"{self._path}:1: not a line of names: {error}") from None
        # The earlier delimiter wins where two yield as many.
        delimiter = max(_DELIMITERS, key=lambda mark: columns.known(headers[mark]))
        names = headers[delimiter]
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        if twice:
            raise SourceError(f"{self._path}: has two columns {twice[0]!r}; rename one")
        self._reader = csv.reader(self._lines, delimiter=delimiter, strict=True)
        self._number = 1
        return names

    def __iter__(self) -> Iterator[list[str]]:
        while True:
            self._number += 1
            self._size = 0
            try:
                cells = next(self._reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise SourceError(f"{self._path}:{self._number}: not CSV: {error}") from None
            yield cells

    def _texts(self, progress: ReadProgress | None) -> Iterator[str]:
        for number, line in read_lines(self._path, progress):
            self._size += len(line)
            if self._size > LONGEST_LINE:
                raise SourceError(
                    f"{self._path}:{self._number}: a row longer than {LONGEST_LINE >> 20} MiB; "
                    "is a quotation mark left open?"
                )
            yield decoded(line, f"{self._path}:{number}")


@contextmanager
def _wide_cells() -> Iterator[None]:
    """Let a cell be as long as a row may be; Python's limit for all readers is 128 KiB."""
    before = csv.field_size_limit(LONGEST_LINE)
    try:
        yield
    finally:
        csv.field_size_limit(before)


_SPLITS, _STATE = "dataset_dict.json", "state.json"


def dataset_files(folder: Path, split: str | None) -> tuple[list[Path], list[Path]]:
    """Find the files of a dataset, or of one split of it.

    Args:
        folder: What `save_to_disk` was given.
        split: Which split; needed where there are several.

    Returns:
        The Arrow files with the rows, in order; and the JSON files that name them.

    Raises:
        SourceError: It is no such folder, has no such split, or names files outside of itself.
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
    state = _table(place / _STATE)
    saved = state.get("_split")
    if place == folder and split is not None and split != saved:
        raise SourceError(f"{folder}: is the split {saved!r} alone, and not {split!r}")
    if state.get("_indices_data_files"):
        raise SourceError(f"{place}: rows are chosen by an index; save it again with datasets 2 up")
    files = state.get("_data_files")
    names = (
        [one.get("filename") for one in files if isinstance(one, dict)]
        if isinstance(files, list)
        else []
    )
    if not names:
        raise SourceError(f"{place / _STATE}: names no _data_files")
    return [place / _plain_huggingface(name, place / _STATE) for name in names], described


def _chosen_split(file: Path, split: str | None) -> str:
    splits = _table(file).get("splits")
    if not isinstance(splits, list) or not splits:
        raise SourceError(f"{file}: names no splits")
    names = [_plain_huggingface(name, file) for name in splits]
    if split is None and len(names) == 1:
        return names[0]
    if split not in names:
        said = "has several splits" if split is None else f"has no split {split!r}"
        raise SourceError(
            f"{file.parent}: {said}; allowed: [queries] split = {' or '.join(map(repr, names))}"
        )
    return split


def _table(file: Path) -> dict[str, Any]:
    value = json_file(file)
    if not isinstance(value, dict):
        raise SourceError(f"{file}: not a JSON object")
    return value


def _plain_huggingface(name: object, file: Path) -> str:
    """Refuse a name that would lead out of its folder."""
    if not isinstance(name, str) or name in ("", ".", "..") or set(name) & set("/\\:\0"):
        raise SourceError(f"{file}: names {name!r}; allowed: plain names of files beside it")
    return name
