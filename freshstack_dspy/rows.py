"""Rows of the files of others: JSON Lines (also gzip), JSON, CSV, Parquet; bounded in size.

And rows in memory: dictionaries, records and data frames.
"""

import ast
import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Collection as Ids
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from pydantic import BaseModel
from pydantic_core import from_json

from freshstack_dspy.errors import ConfigError, SourceError
from freshstack_dspy.files import (
    LONGEST_LINE,
    ReadProgress,
    decoded,
    json_file,
    json_value,
    parquet_batches,
    read_lines,
)
from freshstack_dspy.records import Importance

if TYPE_CHECKING:
    import pyarrow as pa

Columns = Sequence[str] | Callable[[list[str], str], list[str]] | None
"""Those to read, where they are there; or what chooses them from those of a file. None: all."""
_CSV = re.compile(r"\.[ct]sv(?:\.gz)?$", re.IGNORECASE)
_DELIMITERS = (",", ";", "\t", "|")
_INDEX = "__index_level_"
"""How Arrow calls the index of a data frame that has no name; it is no column."""
_ENDINGS = (".parquet", ".jsonl", ".jsonl.gz", ".json")
"""The endings of files with rows, in the order in which a folder is looked through for them."""


class Row(NamedTuple):
    """One object of a file. Its methods raise a `SourceError` with file and line."""

    place: str
    """File and line; of an array or Parquet the number of the row."""
    values: dict[str, Any]

    @classmethod
    def of(cls, value: Any, place: str) -> "Row":
        """Make a row of a JSON value, which must be an object."""
        if not isinstance(value, dict):
            raise SourceError(f"{place}: not a JSON object")
        return cls(place, value)

    def fault(self, name: str, allowed: str) -> SourceError:
        """Make the error for a value that is not what it should be."""
        value = repr(self.values.get(name))
        what = f"{name} is {value[:80]}" if name in self.values else f"has no {name!r}"
        return SourceError(f"{self.place}: {what}; allowed: {allowed}")

    def name(self, *names: str) -> str:
        """Give the first of these names that the row has; the first of all where it has none."""
        return next((name for name in names if self.values.get(name) is not None), names[0])

    def has(self, *names: str) -> bool:
        """Whether the row has all of these."""
        return all(name in self.values for name in names)

    def id(self, *names: str) -> str:
        """Give an id: text that is not empty, as it is, or a whole number."""
        value = self._get(names, str | int, "text that is not empty, or a whole number")
        if value == "":
            raise self.fault(self.name(*names), "text that is not empty, or a whole number")
        return str(value)

    def text(self, *names: str, default: str | None = None) -> str:
        """Give a text, or the default, if there is one, where it is missing or null."""
        text: str = self._get(names, str, "text", default)
        return text

    def optional(self, *names: str) -> str | None:
        """Give a text, or None where it is missing, null or empty."""
        return self.text(*names, default="") or None

    def list(self, *names: str) -> list[Any]:
        """Give a list."""
        values: list[Any] = self._get(names, list, "a list")
        return values

    def texts(self, name: str) -> tuple[str, ...]:
        """Give a list of texts; none where it is missing or null."""
        texts = self._get((name,), list, "a list of texts", [])
        if not all(isinstance(each, str) for each in texts):
            raise self.fault(name, "a list of texts")
        return tuple(texts)

    def number(self, name: str, default: int) -> int:
        """Give a whole number from 0, or the default where it is missing or null."""
        number: int = self._get((name,), int, "a whole number from 0", default)
        if number < 0 and name in self.values:
            raise self.fault(name, "a whole number from 0")
        return number

    def inner(self, name: str) -> "Row":
        """Give an object within the row; an empty one where it is missing or null."""
        return Row(self.place, self._get((name,), dict, "an object", {}))

    def inners(self, name: str) -> Iterator["Row"]:
        """Give the objects of a list within the row."""
        for each in self.list(name):
            if not isinstance(each, dict):
                raise self.fault(name, "a list of objects")
            yield Row(self.place, each)

    def _get(self, names: Sequence[str], kind: Any, allowed: str, default: Any = None) -> Any:
        name = self.name(*names)
        value = self.values.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.fault(name, allowed)
        return value


def importance_of(row: Row) -> Importance | None:
    """Give how important a nugget is; None where it was not rated, or rating it failed."""
    value = row.optional("importance") if row.values.get("rated", True) else None
    if value is None or value == "failed":
        return None
    allowed: tuple[Importance, ...] = get_args(Importance)
    if value not in allowed:
        raise row.fault("importance", f"{', '.join(allowed)} or failed")
    return value


def read_rows(
    files: Path | Sequence[Path],
    columns: Columns = None,
    progress: ReadProgress | None = None,
    *,
    csv_names: Ids[str] = (),
    short: Sequence[str] = (),
) -> Iterator[Row]:
    """Give the rows of files, or of those of a folder, one at a time.

    Files are JSON Lines (also gzip), JSON (an array or one object), or Parquet, of which only the
    `columns` are read; with `csv_names` and `short`, which are those of `read_csv`, CSV too.

    Raises:
        SourceError: A file cannot be read, or has no such rows.
    """
    files = row_files(files) if isinstance(files, Path) else files
    sizes = [file.stat().st_size if file.is_file() else 0 for file in files]
    for number, file in enumerate(files, start=1):
        if file.suffix == ".parquet":
            yield from _read_parquet(file, columns)
        elif csv_names and _CSV.search(file.name):
            choose = columns if callable(columns) else None
            yield from read_csv(file, csv_names, choose, progress, short)
        else:
            yield from _read_json(file, progress)
        if progress is not None:
            progress(sum(sizes[:number]), sum(sizes))


def load_pandas() -> Any:
    """Import pandas, which only tables for Python need."""
    try:
        import pandas as pd
    except ImportError:
        raise ConfigError("to_pandas needs pandas; install it with: pip install pandas") from None
    return pd


def row_files(path: Path, *endings: str) -> list[Path]:
    """List the files with rows in a folder, all of one kind; or the file itself."""
    if not path.is_dir():
        return [path]
    for ending in endings or _ENDINGS:
        files = sorted(each for each in path.rglob(f"*{ending}") if each.is_file())
        if files:
            return files
    raise SourceError(f"{path}: has none of *{', *'.join(endings or _ENDINGS)}")


def _read_json(path: Path, progress: ReadProgress | None) -> Iterator[Row]:
    """Read lines of objects, or a document that is an array or a single object."""
    first = next((text for _, line in read_lines(path) if (text := line.strip())), b"")
    lines = path.name.endswith((".jsonl", ".jsonl.gz"))
    if lines or (first.startswith(b"{") and first.endswith(b"}")):
        for number, line in read_lines(path, progress):
            if line.strip():
                yield Row.of(json_value(line, f"{path}:{number}"), f"{path}:{number}")
    elif first:
        value = json_file(path)
        for number, each in enumerate(value if isinstance(value, list) else [value], start=1):
            yield Row.of(each, f"{path}:{number}")


def _read_parquet(path: Path, columns: Columns) -> Iterator[Row]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with path.open("rb") as opened:
            file, size = parquet.ParquetFile(opened, pre_buffer=False), path.stat().st_size
            names = file.schema_arrow.names
            if callable(columns):
                names = columns(names, str(path))
            elif columns is not None:
                names = [name for name in names if name in columns]
            batches = (_plain(batch) for batch in parquet_batches(file, size, 256, names))
            rows = (values for batch in batches for values in batch.to_pylist())
            for number, values in enumerate(rows, start=1):
                yield Row(f"{path}:{number}", values)
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
        raise SourceError(f"{path}: cannot be read as Parquet: {reason}") from None


def _plain(batch: "pa.RecordBatch") -> "pa.RecordBatch":
    """Cut nanoseconds off: Python's own times have none."""
    import pyarrow as pa

    for place, field in enumerate(batch.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
            column = batch.column(place).cast(pa.timestamp("us", field.type.tz), safe=False)
            batch = batch.set_column(place, field.name, column)
    return batch


# Rows in memory


def rows_of(records: Any) -> tuple[dict[str, Any], ...]:
    """Give the rows of a data frame (pandas, Polars, Arrow), or dictionaries or records as rows.

    Those of a data frame are what a Parquet file of it would hold.

    Raises:
        ValueError: They are none of these.
    """
    if hasattr(records, "__arrow_c_stream__"):
        return tuple(_frame_rows(records))
    if isinstance(records, str | bytes | Mapping) or not isinstance(records, Iterable):
        raise ValueError(  # noqa: TRY004 - what Pydantic takes
            f"is {type(records).__name__}; allowed: a list of dictionaries or of records, or a data "
            "frame"
        )
    return tuple(_as_row(each, number) for number, each in enumerate(records))


def _as_row(record: Any, number: int) -> dict[str, Any]:
    if isinstance(record, BaseModel):
        return record.model_dump(mode="json")
    if isinstance(record, Mapping):
        return dict(record)
    raise ValueError(f"row {number} is {type(record).__name__}, no dictionary and no record")


def _frame_rows(frame: Any) -> Iterator[dict[str, Any]]:
    import pyarrow as pa

    try:
        table = pa.table(frame)
        index = [name for name in table.column_names if name.startswith(_INDEX)]
        for batch in table.drop_columns(index).to_batches():
            yield from _plain(batch).to_pylist()
    except pa.ArrowException as error:
        raise ValueError(f"is no table of plain values: {' '.join(str(error).split())}") from None


def given_rows(rows: Iterable[dict[str, Any]], name: str) -> Iterator[Row]:
    """Give rows in memory their places, `name[0]` and so on."""
    return (Row(f"{name}[{number}]", values) for number, values in enumerate(rows))


# Cells and columns


def plain_name(name: str) -> str:
    """Give the name of a column in lower case, without spaces, underscores and hyphens."""
    return re.sub(r"[\s_-]+", "", name).casefold()


def decoded_cell(value: Any) -> Any:
    """Read a list or object that a table holds as text, as JSON or as Python writes it."""
    if isinstance(value, str) and value[:1] + value[-1:] in ("[]", "{}"):
        try:
            return from_json(value)  # bounded in depth
        except ValueError:
            try:
                return ast.literal_eval(value)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                return value
    return value


# CSV


def read_csv(
    path: Path,
    column_names: Ids[str],
    choose: Callable[[list[str], str], list[str]] | None = None,
    progress: ReadProgress | None = None,
    short: Sequence[str] = (),
) -> Iterator[Row]:
    """Give the rows of a CSV file in UTF-8, as texts by column; an empty cell is None.

    Its first line names the columns; the delimiter is the comma, semicolon, tab or bar that yields
    the most of `column_names`, or the most names.

    Args:
        path: The file.
        column_names: Names that columns may have.
        choose: Chooses the columns to read from those of the file; None: all.
        progress: Called as it is read.
        short: In a file with these columns, a row may end early.
    """
    csv.field_size_limit(LONGEST_LINE)  # Python's own limit is 128 KiB
    lines = (decoded(line, f"{path}:{number}") for number, line in read_lines(path, progress))
    first = next(lines, "")
    if not first.strip():
        raise SourceError(f"{path}: the first line is empty; allowed: names of columns")
    headers = {mark: next(csv.reader([first], delimiter=mark)) for mark in _DELIMITERS}
    names = set(column_names)
    delimiter = max(
        _DELIMITERS, key=lambda mark: (len(names & set(headers[mark])), len(headers[mark]))
    )
    header = headers[delimiter]
    wanted = set(choose(header, str(path)) if choose else header)
    twice = next((name for name in header if header.count(name) > 1 and name in wanted), None)
    if twice is not None:
        raise SourceError(f"{path}: has two columns {twice!r}; rename one")
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
        if cells and header == [*short]:
            cells += [""] * (len(header) - len(cells))
        if cells and len(cells) != len(header):
            raise SourceError(
                f"{path}:{number}: has {len(cells)} cells under {len(header)} names; "
                "quote cells that hold the delimiter or line breaks"
            )
        if cells:
            pairs = zip(header, cells, strict=True)
            values = {name: cell or None for name, cell in pairs if name in wanted}
            yield Row(f"{path}:{number}", values)
