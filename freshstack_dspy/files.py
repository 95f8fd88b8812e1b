"""Reading JSON Lines and Parquet of bounded size, and writing a file or a folder whole or not at all."""

import errno
import fcntl
import gzip
import json
import os
import secrets
import shutil
import socket
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

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
_LARGEST_BATCH = 1 << 28
"""Bytes that a batch of a Parquet file may decode to at most."""
_RATIO, _ALWAYS = 200, 64 << 20
"""Text shrinks to a tenth; a file that unpacks to 200 times its size was made to fill memory."""
_LARGEST_DOCUMENT = 256 << 20
_BOM = b"\xef\xbb\xbf"
_NEW, _LOCK = ".new.partial", ".lock"
"""In a folder that cannot be moved: what takes the place of all else in it, and who writes it."""
_ABANDONED = 60
"""Seconds after which something unfinished that no process holds is removed."""


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
    """Give how many bytes a compressed file of so many may unpack to."""
    return _ALWAYS + _RATIO * size


def parquet_batches(
    file: "pq.ParquetFile",
    size: int,
    rows: int,
    columns: Sequence[str] | None = None,
    groups: Sequence[int] | None = None,
) -> "Iterator[pa.RecordBatch]":
    """Give the rows of a Parquet file of `size` bytes, which must not decode to far more than that.

    Raises:
        pa.ArrowInvalid: They do, or a text is not UTF-8.
    """
    import pyarrow as pa

    numbers = range(file.num_row_groups) if groups is None else groups
    wanted = None if columns is None else set(columns)
    largest = max((_stored(file.metadata.row_group(one), wanted) for one in numbers), default=0)
    rows = max(1, min(rows, _LARGEST_BATCH // max(1, largest)))  # each may hold the longest value
    left = most_unpacked(size)
    for batch in file.iter_batches(rows, row_groups=groups, columns=columns):
        left -= batch.nbytes
        if left < 0:
            raise pa.ArrowInvalid("it unpacks to far more than any real file does")
        batch.validate(full=True)
        yield batch


def _stored(group: Any, columns: set[str] | None) -> int:
    """The size of columns of a row group before compression."""
    every = map(group.column, range(group.num_columns))
    return sum(
        column.total_uncompressed_size
        for column in every
        if columns is None or column.path_in_schema.partition(".")[0] in columns
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


# Writing


def check_writable(path: Path) -> None:
    """Check that a file or folder can be made or replaced there, before anything is paid for.

    Raises:
        ConfigError: Its name is too long, its parent is no folder, or cannot be written.
    """
    path = path.absolute()
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            _partial(path).lstat()
        folder = path if _stays(path) else next(one for one in path.parents if one.exists())
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ConfigError(f"{path} cannot be written: {folder} is no folder that can be written")


@contextmanager
def only_writer(path: Path | str, by: str) -> Iterator[None]:
    """Keep other processes from writing a file or folder; `by` tells them who does.

    The lock is a file next to it, or inside a folder that cannot be moved. It is removed at the
    end, and that of a process that was killed holds nobody up. A replacement that was cut short is
    finished first.

    Raises:
        ConfigError: Another process writes it, or it cannot be written.
    """
    path = Path(os.path.realpath(path))
    check_writable(path)
    since = datetime.now().astimezone().isoformat(" ", "minutes")
    holder = f"{by} (process {os.getpid()} on {socket.gethostname()}, since {since})"
    with ExitStack() as stack:
        try:
            place = path / _LOCK if _stays(path) else path.with_name(f".{path.name}{_LOCK}")
            place.parent.mkdir(parents=True, exist_ok=True)
            while (lock := _locked(place, os.O_RDWR | os.O_CREAT)) is not None:
                with suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(lock), place.stat()):
                        break
                os.close(lock)  # whoever held it removed it meanwhile
            if lock is None:
                other = place.read_text(encoding="utf-8") or "another process"
                raise ConfigError(f"{path} is being written by {other}; wait for it to end")
            stack.callback(os.close, lock)
            stack.callback(place.unlink, missing_ok=True)
            os.ftruncate(lock, 0)
            os.write(lock, holder.encode())
            _finish(path)
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
        _remove_abandoned(path.parent, path.name)
        lock = _locked(partial, os.O_RDWR | os.O_CREAT)
        try:
            yield partial
            with partial.open("rb+") as file:
                os.fsync(file.fileno())
            partial.replace(path)
        finally:
            if lock is not None:
                os.close(lock)
    except OSError as error:
        error.filename = error.filename or str(path)
        raise
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def replace_folder(path: Path) -> Iterator[Path]:
    """Give an empty hidden folder that takes the place of `path` when the block ends well.

    Killed in between, it leaves the old folder or the new one, which `existing_folder` finds. What
    is in a folder that cannot be moved, as the volume of a container, is replaced file by file.

    Raises:
        CollectionError: The folder cannot be written; what was at `path` still is.
    """
    path = Path(os.path.realpath(path))
    partial = _partial(path)
    lock = None
    try:
        if _stays(path):
            partial = path / partial.name
        partial.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(partial.parent, path.name)
        partial.mkdir()
        lock = _locked(partial, os.O_RDONLY)
        yield partial
        _swap(partial, path)
    except OSError as error:
        raise CollectionError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def existing_folder(path: Path) -> Path:
    """Give the folder for `path`: itself, or the whole one if a replacement was cut short."""
    if (path / _NEW).is_dir():
        return path / _NEW
    previous = _previous(path)
    return previous if previous.exists() and not path.exists() else path


def is_ours(name: str) -> bool:
    """Whether something in a folder is of the writing of it, and no content."""
    unfinished = name.startswith(".") and name.endswith((".partial", ".partial.old"))
    return unfinished or name == _LOCK


def _swap(partial: Path, path: Path) -> None:
    _finish(path)
    previous = _previous(path)
    if partial.parent == path:
        partial.replace(path / _NEW)
        _finish(path)
        return
    if path.exists():
        _discard(previous, partial)
        try:
            path.replace(previous)
        except OSError as error:
            if error.errno not in (errno.EBUSY, errno.EXDEV, errno.EPERM, errno.EACCES):
                raise
            inside = shutil.copytree(partial, path / partial.name)
            _swap(inside, path)
            return
    try:
        partial.replace(path)
    finally:
        if not path.exists():
            previous.replace(path)
    _discard(previous, partial)


def _finish(path: Path) -> None:
    """Finish a replacement that was cut short."""
    new, previous = path / _NEW, _previous(path)
    if previous.exists() and not path.exists():
        previous.replace(path)
    if not new.is_dir():
        return
    names = {each.name for each in new.iterdir()}
    for each in sorted(new.rglob("*")):
        if each.is_file():
            with replace_file(path / each.relative_to(new)) as partial:
                shutil.copyfile(each, partial)
    for other in path.iterdir():
        if other.name not in names and not is_ours(other.name):
            _remove(other)
    _discard(new, path / _partial(path).name)


def _discard(folder: Path, partial: Path) -> None:
    """Delete under another name, so that what has this one is always whole."""
    if folder.exists():
        doomed = partial.with_name(f"{partial.name}.old")
        folder.replace(doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")


def _previous(path: Path) -> Path:
    return path.with_name(f".{path.name}.previous")


def _stays(path: Path) -> bool:
    """Whether it is a folder that cannot be moved: a mount point, or in one that is not ours."""
    if not path.is_dir():
        return False
    if os.path.ismount(path) or not os.access(path.parent, os.W_OK):
        return True
    mounts = Path("/proc/self/mountinfo")  # `ismount` misses a folder of the same file system
    lines = mounts.read_bytes().splitlines() if mounts.exists() else ()
    name = os.fsencode(os.path.realpath(path)).replace(b"\\", rb"\134").replace(b" ", rb"\040")
    return any(line.split()[4] == name for line in lines)


def _locked(path: Path, flags: int) -> int | None:
    """Open what is at a path, and lock it for as long as it is open; None: another holds it."""
    handle = os.open(path, flags, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    except OSError:  # a file system without locks
        pass
    return handle


def _remove_abandoned(folder: Path, name: str) -> None:
    """Remove what writers of this name that were killed have left in a folder."""
    for each in folder.iterdir():
        if not each.name.startswith(f".{name}.") or not each.name.endswith((".partial", ".old")):
            continue
        with suppress(OSError), ExitStack() as stack:
            if time.time() - each.stat().st_mtime < _ABANDONED:
                continue
            handle = os.open(each, os.O_RDONLY)
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # an error where one holds it
            _remove(each)
