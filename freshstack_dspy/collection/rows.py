"""Rows of other people's files: JSON Lines (also gzip), JSON, Parquet and Arrow, bounded in size."""

import gzip
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

from pydantic_core import from_json

from freshstack_dspy.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa

_LONGEST_LINE = 64 << 20
"""Bytes; a book has some million characters."""
_LARGEST_JSON = 256 << 20
_RATIO, _ALWAYS = 200, 64 << 20
"""Text shrinks to a tenth; a file that unpacks to 200 times its size was made to fill memory."""
_ENDINGS = (".parquet", ".arrow", ".jsonl", ".jsonl.gz", ".json")
"""Of files with rows, in the order in which a folder is looked through for them."""


class Row(NamedTuple):
    """One object of a file. Its methods raise a `SourceError` with file and line."""

    place: str
    """File and line; of an array, Parquet or Arrow the number of the row."""
    values: dict[str, Any]

    @classmethod
    def of(cls, value: Any, place: str) -> "Row":
        """Make a row of a JSON value, which must be an object."""
        if not isinstance(value, dict):
            raise SourceError(f"{place}: not a JSON object")
        return cls(place, value)

    def fault(self, name: str, allowed: str) -> SourceError:
        """Make the error for a value that is not what it should be."""
        found = repr(self.values.get(name))
        what = f"{name} is {found[:80]}" if name in self.values else f"has no {name!r}"
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


def read_rows(path: Path, columns: Sequence[str] | None = None) -> Iterator[Row]:
    """Give the rows of a file, or of a folder as `Dataset.save_to_disk` writes it, one at a time.

    Files are JSON Lines (also gzip), JSON (an array or one object), Parquet or Arrow, of which
    only the `columns` that are there are read (None: all).
    """
    for file in row_files(path):
        if file.suffix in (".parquet", ".arrow"):
            yield from _read_arrow(file, columns)
        else:
            yield from _read_json(file)


def row_files(path: Path) -> list[Path]:
    """List the files with rows in a folder, all of one kind; or the file itself."""
    if path.is_file():
        return [path]
    for ending in _ENDINGS:
        found = sorted(each for each in path.rglob(f"*{ending}") if each.is_file())
        if found:
            return found
    raise SourceError(f"{path}: has none of *{', *'.join(_ENDINGS)}")


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Give each line of a text file (also gzip) with its number from 1, without its end."""
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        most = _most(path)
        done = 0
        with cast("IO[bytes]", gzip.open(path)) if packed else path.open("rb") as file:
            number = 0
            while line := file.readline(_LONGEST_LINE + 1):
                number += 1
                done += len(line)
                if len(line) > _LONGEST_LINE:
                    raise SourceError(f"{path}:{number}: longer than {_LONGEST_LINE >> 20} MiB")
                if packed and done > most:
                    raise SourceError(f"{path}: unpacks to more than {_RATIO} times its size")
                yield number, line.removeprefix(b"\xef\xbb\xbf" if number == 1 else b"").rstrip()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise SourceError(f"{path}: damaged gzip: {error}") from None
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None


def read_json(path: Path) -> Any:
    """Read a file that is one JSON value."""
    try:
        if path.stat().st_size > _LARGEST_JSON:
            raise SourceError(f"{path}: more than {_LARGEST_JSON >> 20} MiB; write JSON Lines")
        return _value(path.read_bytes(), str(path))
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None


def _value(data: bytes, place: str) -> Any:
    try:
        return from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise SourceError(f"{place}: not JSON: {error}") from None


def _read_json(path: Path) -> Iterator[Row]:
    """Read lines of objects, or a document that is an array or a single object."""
    first = next((line for _, line in read_lines(path) if line), b"")
    lines = path.name.endswith((".jsonl", ".jsonl.gz"))
    if lines or (first.startswith(b"{") and first.endswith(b"}")):
        for number, line in read_lines(path):
            if line:
                yield Row.of(_value(line, f"{path}:{number}"), f"{path}:{number}")
    elif first:
        value = read_json(path)
        for number, each in enumerate(value if isinstance(value, list) else [value], start=1):
            yield Row.of(each, f"{path}:{number}")


def _read_arrow(path: Path, columns: Sequence[str] | None) -> Iterator[Row]:
    import pyarrow as pa

    try:
        number = 0
        for batch in _batches(path):
            batch.validate(full=True)
            chosen = [name for name in batch.schema.names if columns is None or name in columns]
            for values in batch.select(chosen).to_pylist():
                number += 1
                yield Row(f"{path}:{number}", values)
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise SourceError(f"{path}: cannot be read as {path.suffix[1:]}: {reason}") from None


def _batches(path: Path) -> "Iterator[pa.RecordBatch]":
    from pyarrow import ipc, parquet

    with path.open("rb") as opened:
        if path.suffix == ".arrow":
            yield from ipc.open_stream(opened)
            return
        file = parquet.ParquetFile(opened)
        groups = (file.metadata.row_group(number) for number in range(file.num_row_groups))
        if sum(group.total_byte_size for group in groups) > _most(path):
            raise SourceError(f"{path}: unpacks to more than {_RATIO} times its size")
        yield from file.iter_batches(1024)


def _most(path: Path) -> int:
    """How many bytes a compressed file may unpack to."""
    return _ALWAYS + _RATIO * path.stat().st_size
