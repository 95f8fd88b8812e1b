"""Reading JSON Lines of bounded size, and writing a file or a folder whole or not at all."""

import gzip
import json
import os
import secrets
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import from_json

from freshstack_dspy.errors import CollectionError, SourceError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.records import Record

R = TypeVar("R", bound=Record)
ReadProgress = Callable[[int, int], None]
"""Called with the number of bytes read, and of how many."""

LONGEST_LINE = 64 << 20
"""Bytes of a line of someone else's JSON Lines; a book has some million characters."""
_RATIO, _ALWAYS = 200, 64 << 20
"""Text shrinks to a tenth; a file that unpacks to 200 times its size was made to fill memory."""
_LARGEST_DOCUMENT = 256 << 20
_BOM = b"\xef\xbb\xbf"


# Records as JSON Lines


def canonical_json(fields: dict[str, Any]) -> str:
    """Give the one JSON text of a record's fields, in their order, characters unescaped."""
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def canonical_line(record: Record) -> str:
    """Give the one line of a record: the `canonical_json` of its fields."""
    return record.model_dump_json() + "\n"  # the same text, in a tenth of the time


def encode_records(records: Iterable[Record]) -> bytes:
    """Write records as JSON Lines in UTF-8, in the order given."""
    return "".join(map(canonical_line, records)).encode("utf-8")


def decode_records(
    data: bytes, record: type[R], path: Path, *, first_line: int = 1
) -> tuple[R, ...]:
    """Read JSON Lines of records; `path` is named in messages, with the number of the line.

    Raises:
        CollectionError: With file and line, where a line is no JSON or not this record.
    """
    if data and not data.endswith(b"\n"):
        raise CollectionError(f"{path}: the last line has no end; the file was cut short")
    records: list[R] = []
    try:
        # Only \n ends a line: U+2028 and its like may be unescaped inside JSON.
        for line in data.split(b"\n")[:-1]:
            records.append(record.model_validate_json(line))  # noqa: PERF401  their number is used
    except ValidationError as error:
        place = f"{path}:{len(records) + first_line}"
        raise CollectionError(f"{place}: not a {record.__name__}: {first_fault(error)}") from None
    return tuple(records)


# JSON of others


def read_lines(path: Path, progress: ReadProgress | None = None) -> Iterator[tuple[int, bytes]]:
    """Give each line of a file (also gzip) with its number, from 1, without a byte order mark.

    Raises:
        SourceError: The file cannot be read, or a line is longer than `LONGEST_LINE`.
    """
    try:
        total = path.stat().st_size
        with path.open("rb") as file:
            packed = file.peek(2)[:2] == b"\x1f\x8b"
            lines: Any = gzip.GzipFile(fileobj=file) if packed else file
            number = done = 0
            while line := lines.readline(LONGEST_LINE + 1):
                number += 1
                done += len(line)
                if len(line) > LONGEST_LINE:
                    raise SourceError(f"{path}:{number}: longer than {LONGEST_LINE >> 20} MiB")
                if packed and done > most_unpacked(path):
                    raise SourceError(f"{path}: unpacks to more than {_RATIO} times its size")
                yield number, line.removeprefix(_BOM) if number == 1 else line
                if progress is not None:
                    progress(file.tell(), total)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise SourceError(f"{path}: cannot be read: {reason}") from None


def most_unpacked(path: Path) -> int:
    """Give how many bytes a compressed file may unpack to."""
    return _ALWAYS + _RATIO * path.stat().st_size


def decoded(data: bytes, place: str) -> str:
    """Decode a line of UTF-8; a `SourceError` names the byte that is none."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise SourceError(
            f"{place}: not UTF-8: byte 0x{data[error.start]:02x} at byte {error.start + 1} of the "
            "line; save the file as UTF-8"
        ) from None


def json_file(path: Path) -> Any:
    """Read a file that is one JSON value.

    Raises:
        SourceError: It cannot be read, has more than 256 MiB, or is no JSON.
    """
    try:
        if path.stat().st_size > _LARGEST_DOCUMENT:
            raise SourceError(
                f"{path}: one JSON value of more than {_LARGEST_DOCUMENT >> 20} MiB; write JSON "
                "Lines, one object a line"
            )
        return json_value(path.read_bytes(), str(path))
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None


def json_value(text: str | bytes, place: str) -> Any:
    """Read a JSON value; a `SourceError` says where there is none."""
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise SourceError(f"{place}: not JSON: {error}") from None


# Writing


def write_file(path: Path | str, data: bytes | str) -> None:
    """Write a file whole or not at all, in UTF-8.

    Raises:
        OSError: It cannot be written; what was there before still is.
    """
    with replace_file(Path(path)) as partial:
        partial.write_bytes(data.encode("utf-8") if isinstance(data, str) else data)


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Give the name of a hidden file to write, which takes the place of `path` at the end."""
    path = Path(os.path.realpath(path))
    partial = _partial(path)
    try:
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def replace_folder(path: Path) -> Iterator[Path]:
    """Give an empty hidden folder that takes the place of `path` when the block ends well.

    Killed in between, it leaves the old folder or the new one, which `existing_folder` finds.

    Raises:
        CollectionError: The folder cannot be written; what was at `path` still is.
    """
    partial = _partial(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir()
        yield partial
        _swap(partial, path)
    except OSError as error:
        raise CollectionError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def existing_folder(path: Path) -> Path:
    """Give the folder for `path`: itself, or the older one if a replacement was cut short."""
    previous = _previous(path)
    return previous if previous.exists() and not path.exists() else path


def _swap(partial: Path, path: Path) -> None:
    previous = _previous(path)
    if previous.exists() and not path.exists():
        previous.replace(path)
    if path.exists():
        _discard(previous, partial)
        path.replace(previous)
    try:
        partial.replace(path)
    finally:
        if not path.exists():
            previous.replace(path)
    _discard(previous, partial)


def _discard(previous: Path, partial: Path) -> None:
    """Delete under another name, so that what is called `previous` is always whole."""
    if previous.exists():
        doomed = partial.with_name(f"{partial.name}.old")
        previous.replace(doomed)
        shutil.rmtree(doomed)


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")


def _previous(path: Path) -> Path:
    return path.with_name(f".{path.name}.previous")
