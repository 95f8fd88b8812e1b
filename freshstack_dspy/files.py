"""JSON Lines of records: one canonical JSON object per line, and back."""

import errno
import json
import secrets
import shutil
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import from_json

from freshstack_dspy.errors import CollectionError, SourceError
from freshstack_dspy.records import Record

R = TypeVar("R", bound=Record)
_LONGEST_QUOTE = 80


def canonical_line(record: Record) -> str:
    """Give the one line that stands for a record: the `canonical_json` of its fields."""
    return record.model_dump_json() + "\n"  # the same text, in a tenth of the time


def canonical_json(fields: dict[str, Any]) -> str:
    """Give the one JSON text of a record's fields, in their order, characters unescaped."""
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def encode_records(records: Iterable[Record]) -> bytes:
    """Write records as JSON Lines in UTF-8, in the order given."""
    return "".join(map(canonical_line, records)).encode("utf-8")


def decode_records(data: bytes, record: type[R], path: Path) -> tuple[R, ...]:
    """Read JSON Lines.

    Args:
        data: The bytes of the file.
        record: The type of every line.
        path: The file's name, for the message.

    Raises:
        CollectionError: With file and line, where a line is no JSON or not this record.
    """
    if data and not data.endswith(b"\n"):
        raise CollectionError(f"{path}: the last line has no end; the file was cut short")
    # Only \n ends a line: U+2028 and its like may stand unescaped inside JSON.
    lines = data.split(b"\n")[:-1]
    return tuple(_decode(line, record, path, number) for number, line in enumerate(lines, start=1))


def _decode(line: bytes, record: type[R], path: Path, number: int) -> R:
    try:
        return record.model_validate_json(line)
    except ValidationError as error:
        what = record.__name__
        raise CollectionError(f"{path}:{number}: not a {what}: {first_fault(error)}") from None


def first_fault(error: ValidationError) -> str:
    """Say the first fault of a validation in one short line, with the place and what was found."""
    fault = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in fault["loc"])
    if not place.isprintable() or len(place) > _LONGEST_QUOTE:
        place = repr(place[:_LONGEST_QUOTE])
    found = repr(fault["input"])
    if len(found) > _LONGEST_QUOTE:
        found = f"{found[:_LONGEST_QUOTE]}…"
    message = fault["msg"].removeprefix("Value error, ")
    return f"{place} is {found}: {message}" if place else f"{message}, found {found}"


def standing_folder(path: Path) -> Path:
    """Give the folder that stands for `path`: itself, or the older one if a swap was cut short."""
    previous = _previous(path)
    return previous if previous.exists() and not path.exists() else path


@contextmanager
def staged_folder(path: Path) -> Iterator[Path]:
    """Give an empty hidden folder that takes the place of `path` when the block ends well.

    Args:
        path: Absolute; what stands there is replaced, so look first.

    Raises:
        CollectionError: The folder cannot be written; what stood at `path` still stands.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir()
        yield partial
        _swap(partial, path)
    except OSError as error:
        raise CollectionError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _swap(partial: Path, path: Path) -> None:
    previous = _previous(path)
    if previous.exists():
        if path.exists():
            _discard(previous, partial)
        else:
            previous.replace(path)
    if not path.exists():
        partial.replace(path)
        return
    path.replace(previous)
    try:
        partial.replace(path)
    finally:
        if not path.exists():
            previous.replace(path)
    _discard(previous, partial)


def _discard(previous: Path, partial: Path) -> None:
    """Delete under another name, so that what is called `previous` is always whole."""
    doomed = partial.with_name(f"{partial.name}.old")
    previous.replace(doomed)
    shutil.rmtree(doomed)


def _previous(path: Path) -> Path:
    return path.with_name(f".{path.name}.previous")


def names_in(path: Path) -> frozenset[str]:
    """List the names in a folder.

    Raises:
        CollectionError: It is a file, or cannot be read.
    """
    try:
        return frozenset(entry.name for entry in path.iterdir())
    except OSError as error:
        raise CollectionError(f"{path}: not a readable folder: {error.strerror}") from None


def check_regular(path: Path) -> None:
    """Refuse what is not a regular file, before it is opened: a pipe would wait, a device not end.

    A link is followed, for some caches are made of them.

    Raises:
        OSError: It is none, or cannot be looked at.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


_LARGEST_DOCUMENT = 256 << 20


def json_object(text: str | bytes, place: str) -> dict[str, Any]:
    """Read one JSON object.

    Raises:
        SourceError: It is none, is nested too deeply, or holds what is no number or no text.
    """
    value = json_value(text, place)
    if not isinstance(value, dict):
        raise SourceError(f"{place}: not a JSON object")
    return value


def json_value(text: str | bytes, place: str) -> Any:
    """Read one JSON value.

    Raises:
        SourceError: It is none, is nested too deeply, holds what is no number or no text, or an
            object in it has a name twice.
    """

    def once(pairs: list[tuple[str, Any]]) -> None:
        # Of two values under one name a parser keeps the last, and another one the first.
        if len(dict(pairs)) < len(pairs):
            name = Counter(name for name, _ in pairs).most_common(1)[0][0]
            raise SourceError(f"{place}: an object has the name {name[:80]!r} twice; keep one")

    try:
        value = from_json(text, allow_inf_nan=False)
        json.loads(text, object_pairs_hook=once)
    except ValueError as error:
        raise SourceError(f"{place}: not JSON: {error}") from None
    return value


def json_file(path: Path) -> Any:
    """Read a file that is one JSON value.

    Raises:
        SourceError: It cannot be read, is too large to be read at once, or is no JSON.
    """
    try:
        check_regular(path)
        size = path.stat().st_size
        if size > _LARGEST_DOCUMENT:
            raise SourceError(
                f"{path}: {size >> 20} MiB in one JSON value, more than {_LARGEST_DOCUMENT >> 20}; "
                "write JSON Lines, one object a line"
            )
        return json_value(path.read_bytes(), str(path))
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None


ReadProgress = Callable[[int, int], None]
"""Is told how many bytes were read, of how many; both may grow when a file is read again."""
LONGEST_LINE = 16 << 20
"""Bytes. The longest questions have some hundred thousand characters; this bounds our memory."""
_BOM = b"\xef\xbb\xbf"


def read_lines(path: Path, progress: ReadProgress | None = None) -> Iterator[tuple[int, bytes]]:
    """Give each line with its number, from 1; a byte order mark is passed over.

    Args:
        path: The file.
        progress: Is told how many bytes were read, of how many.

    Raises:
        SourceError: The file cannot be read, or a line is too long to be a question.
    """
    try:
        total = path.stat().st_size
        with path.open("rb") as file:
            number = done = 0
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                done += len(line)
                if len(line) > LONGEST_LINE:
                    raise SourceError(
                        f"{path}:{number}: longer than {LONGEST_LINE >> 20} MiB; no question is"
                    )
                yield number, line.removeprefix(_BOM) if number == 1 else line
                if progress is not None:
                    progress(done, total)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None


def decoded(data: bytes, place: str) -> str:
    """Decode a line.

    Raises:
        SourceError: It is not UTF-8, with the byte.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise SourceError(
            f"{place}: not UTF-8: byte 0x{data[error.start]:02x} at byte {error.start + 1} of the "
            "line; save the file as UTF-8"
        ) from None
