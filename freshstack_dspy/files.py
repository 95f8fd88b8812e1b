"""Reading JSON Lines and Parquet of bounded size, and writing a file or a folder whole or not at all."""

import errno
import gzip
import json
import os
import secrets
import shutil
import socket
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import jiter
from pydantic import ValidationError
from pydantic_core import from_json

from freshstack_dspy.errors import CollectionError, ConfigError, SourceError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.records import Record

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

R = TypeVar("R", bound=Record)
ReadProgress = Callable[[int, int], None]
"""Called with the number of bytes read, and of how many."""

LONGEST_LINE = 64 << 20
"""Bytes of a line of someone else's JSON Lines; a book has some million characters."""
LARGEST_BATCH = 1 << 28
"""Bytes that a batch of a Parquet file may decode to at most."""
_RATIO, _ALWAYS = 200, 64 << 20
"""Text shrinks to a tenth; a file that unpacks to 200 times its size was made to fill memory."""
_LARGEST_DOCUMENT = 256 << 20
_BOM = b"\xef\xbb\xbf"
_ABANDONED = 24 * 3600
"""Seconds after which something unfinished was left by a process that was killed."""


# Records as JSON Lines


class Uri(str):
    """The address of a place in an object store, as `s3://bucket/name`; joined as a path is."""

    __slots__ = ()

    def __truediv__(self, name: str) -> "Uri":
        return Uri(f"{self.rstrip('/')}/{name}")

    @property
    def name(self) -> str:
        """The last part."""
        return self.rstrip("/").rpartition("/")[2]


def path_or_uri(place: Path | str) -> Path | Uri:
    """Take what has `://` in it for the address of an object store, and all else for a path."""
    return Uri(place) if isinstance(place, str) and "://" in place else Path(place)


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
                if packed and done > most_unpacked(total):
                    raise SourceError(f"{path}: unpacks to more than {_RATIO} times its size")
                yield number, line.removeprefix(_BOM) if number == 1 else line
                if progress is not None:
                    progress(file.tell(), total)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise SourceError(f"{path}: cannot be read: {reason}") from None


def most_unpacked(size: int) -> int:
    """Give how many bytes a compressed file of a size may unpack to."""
    return _ALWAYS + _RATIO * size


def parquet_batches(
    file: "pq.ParquetFile",
    size: int,
    rows: int,
    columns: Sequence[str] | None = None,
    groups: Sequence[int] | None = None,
    *,
    coded: Collection[str] = (),
) -> "Iterator[pa.RecordBatch]":
    """Give the rows of a Parquet file of `size` bytes, which must not decode to far more than that.

    Columns that are `coded` come as Arrow's dictionaries, so that equal values are there once.

    Raises:
        pa.ArrowInvalid: They do, or a text is not UTF-8.
    """
    import pyarrow as pa

    numbers = range(file.num_row_groups) if groups is None else groups
    wanted = set(file.schema_arrow.names if columns is None else columns) - set(coded)
    largest = max((_stored(file.metadata.row_group(group), wanted) for group in numbers), default=0)
    rows = max(1, min(rows, LARGEST_BATCH // max(1, largest)))  # each may hold the longest value
    left = most_unpacked(size)
    for batch in file.iter_batches(rows, row_groups=groups, columns=columns):
        left -= batch.nbytes
        if left < 0:
            raise pa.ArrowInvalid("it unpacks to far more than any real file does")
        batch.validate(full=True)
        yield batch


def _stored(group: Any, columns: Set[str]) -> int:
    """The size of columns of a row group before compression."""
    every = map(group.column, range(group.num_columns))
    return sum(
        column.total_uncompressed_size
        for column in every
        if column.path_in_schema.partition(".")[0] in columns
    )


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


def check_keys_differ(data: str | bytes) -> None:
    """Raise a ValueError where an object of some valid JSON has a key twice: parsers keep the last."""
    try:
        jiter.from_json(
            data.encode() if isinstance(data, str) else data,
            catch_duplicate_keys=True,
            cache_mode="keys",
        )
    except ValueError as error:
        raise ValueError("an object in it has the same key twice") from error


# Writing


def check_writable(path: Path) -> None:
    """Check that a file or folder can be made or replaced there, before anything is paid for.

    Raises:
        ConfigError: Its name is too long, its parent is no folder or cannot be written, or it is
            a mount point.
    """
    path = path.absolute()
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            _partial(path).lstat()
        folder = next(parent for parent in path.parents if parent.exists())
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ConfigError(f"{path} cannot be written: {folder} is no folder that can be written")
    if os.path.ismount(path):
        raise ConfigError(f"{path} cannot be written: {_mounted(path)}")


@contextmanager
def locked(path: Path, by: str = "", *, wait: bool = False) -> Iterator[None]:
    """Hold a lock, a file that is there as long; that of a killed process holds nobody up.

    Args:
        path: The file.
        by: What others are told who holds it.
        wait: Whether to wait for another that holds it.

    Raises:
        ConfigError: Another holds it, who is named.
        OSError: The file cannot be written.
    """
    from filelock import FileLock, Timeout  # which imports asyncio: not for every reader

    lock = FileLock(path, timeout=-1 if wait else 0, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        with suppress(OSError):  # Windows lets nobody read it
            by = path.read_text(encoding="utf-8")
        raise ConfigError(f"is being written by {by or 'another process'}") from None
    try:
        with suppress(PermissionError):
            path.write_text(by, encoding="utf-8")
        yield
    finally:
        with suppress(PermissionError):
            path.unlink(missing_ok=True)
        lock.release()


@contextmanager
def only_writer(path: Path | str, by: str) -> Iterator[None]:
    """Keep other processes from writing a file or folder; `by` tells them who does.

    The lock is a hidden file next to it. A replacement that was cut short is finished first.

    Raises:
        ConfigError: Another process writes it, or it cannot be written.
    """
    path = Path(os.path.realpath(path))
    check_writable(path)
    since = datetime.now().astimezone().isoformat(" ", "minutes")
    holder = f"{by} (process {os.getpid()} on {socket.gethostname()}, since {since})"
    with ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(path.with_name(f".{path.name}.lock"), holder))
            _finish(path)
        except ConfigError as error:
            raise ConfigError(f"{path} {error}; wait for it to end") from None
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
        yield


def write_file(path: Path | str, data: bytes | str) -> None:
    """Write a file whole or not at all, in UTF-8, and the folders that it is in.

    Raises:
        OSError: It cannot be written; what was there before still is.
    """
    path, data = Path(path), data.encode("utf-8") if isinstance(data, str) else data
    if path.exists() and not path.is_file():  # as /dev/null
        path.write_bytes(data)
        return
    with replace_file(path) as partial:
        partial.write_bytes(data)


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Give the name of a hidden file to write, which takes the place of `path` at the end."""
    path = Path(os.path.realpath(path))
    partial = _partial(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(path)
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        error.filename = error.filename or str(path)
        raise
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def replace_folder(path: Path) -> Iterator[Path]:
    """Give an empty hidden folder that takes the place of `path` when the block ends well.

    Killed in between, it leaves the old folder or the new one, which `existing_folder` finds.

    Raises:
        CollectionError: The folder cannot be written; what was at `path` still is.
    """
    path = Path(os.path.realpath(path))
    partial, previous = _partial(path), _previous(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(path)
        partial.mkdir()
        yield partial
        _finish(path)
        if path.exists():
            _discard(previous, partial)
            path.replace(previous)
        try:
            partial.replace(path)
        finally:
            _finish(path)
        _discard(previous, partial)
    except OSError as error:
        busy = error.errno in (errno.EBUSY, errno.EXDEV)
        why = _mounted(path) if busy else error.strerror or error
        raise CollectionError(f"{path}: cannot be written: {why}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def existing_folder(path: Path) -> Path:
    """Give the folder for `path`: itself, or the whole one if a replacement was cut short."""
    if path.exists():  # as "." is, which has no name
        return path
    previous = _previous(path)
    return previous if previous.exists() else path


def _finish(path: Path) -> None:
    """Finish a replacement that was cut short."""
    if not path.exists() and (previous := _previous(path)).exists():
        previous.replace(path)


def _discard(folder: Path, partial: Path) -> None:
    """Delete under another name, so that what has this one is always whole."""
    if folder.exists():
        doomed = partial.with_name(f"{partial.name}.old")
        folder.replace(doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")


def _previous(path: Path) -> Path:
    return path.with_name(f".{path.name}.previous")


def _mounted(path: Path) -> str:
    return f"it is a mount point, which cannot be replaced; name a folder inside it: {path}/NAME"


def _remove_abandoned(path: Path) -> None:
    """Remove what killed writers of a file or folder have left next to it."""
    for entry in path.parent.iterdir():
        left = entry.name.startswith(f".{path.name}.") and entry.suffix in (".partial", ".old")
        with suppress(OSError):
            if left and time.time() - entry.stat().st_mtime >= _ABANDONED:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
