"""The folder of an index: one writer at a time, parts that stay while anybody reads them."""

import re
import shutil
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from freshstack_dspy.errors import IndexingError

_WRITER_LOCK = ".lock"
_READERS_LOCK = "readers.lock"
_PART = re.compile(r"(?P<kind>table|rows|bm25|lsa)-(?P<number>\d+)")
_SECONDS_BETWEEN_TRIES = 1

# A database's lock is the only one in the standard library that works on every system, is shared
# or exclusive, and ends with the process that held it, even a killed one.


class PartGoneError(Exception):
    """A part was removed between reading its name and opening it."""


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Wait until nobody else writes an index, then keep others waiting.

    Raises:
        IndexingError: The folder cannot be written, or the files of its lock lead elsewhere.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with closing(_opened(folder / _WRITER_LOCK, _SECONDS_BETWEEN_TRIES)) as lock:
            _acquire(lock)
            yield
    except (OSError, sqlite3.Error) as error:
        raise IndexingError(f"{folder}: an index cannot be written here: {error}") from None


def _opened(lock: Path, timeout: float) -> sqlite3.Connection:
    return sqlite3.connect(lock, isolation_level=None, timeout=timeout)


def _acquire(lock: sqlite3.Connection) -> None:
    while True:  # short waits in a loop can be interrupted from the keyboard, a long one cannot
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
        else:
            return


def check_ours(folder: Path) -> None:
    """Make sure that a folder without a manifest is empty but for what dead builds left.

    Raises:
        IndexingError: It holds something else, which an index must not be mixed with.
    """
    foreign = sorted(
        entry.name
        for entry in (folder.iterdir() if folder.is_dir() else ())
        if not _PART.fullmatch(entry.name) and not entry.name.startswith(_WRITER_LOCK)
    )
    if foreign:
        raise IndexingError(
            f"{folder}: holds {foreign[0]!r} and no index; give the index another place or name"
        )


def new_part(part: Path) -> Path:
    """Make an empty part, to be named by the next manifest; only for a `sole_writer`."""
    part.mkdir()
    with closing(_opened(part / _READERS_LOCK, 0)) as lock:
        lock.execute("PRAGMA user_version = 1")
    return part


def next_number(folder: Path) -> int:
    """Give a number above those of all parts; after a commit no number is used again."""
    found = (_PART.fullmatch(path.name) for path in folder.iterdir())
    return 1 + max((int(each["number"]) for each in found if each), default=0)


def hold(part: Path) -> sqlite3.Connection:
    """Keep a part from being removed until the connection is closed, or its process ends.

    Raises:
        PartGoneError: It is not there, or just being removed.
        IndexingError: The files of its lock lead elsewhere.
        sqlite3.Error: Its lock is damaged.
    """
    try:
        lock = sqlite3.connect(
            f"{(part / _READERS_LOCK).absolute().as_uri()}?mode=ro",
            uri=True,
            isolation_level=None,
            timeout=_SECONDS_BETWEEN_TRIES,
            check_same_thread=False,
        )
    except sqlite3.OperationalError:
        raise PartGoneError(part.name) from None
    try:
        lock.execute("BEGIN")
        lock.execute("SELECT * FROM sqlite_schema").fetchall()
    except sqlite3.OperationalError:
        lock.close()
        raise PartGoneError(part.name) from None
    except sqlite3.DatabaseError:
        lock.close()
        raise
    if not (part / _READERS_LOCK).exists():  # removed while this waited for the lock
        lock.close()
        raise PartGoneError(part.name)
    return lock


def sweep(folder: Path, keep: Collection[str]) -> None:
    """Remove the parts that no manifest names and nobody reads; only for a `sole_writer`.

    Raises:
        IndexingError: The files of a lock lead elsewhere.
    """
    for part in sorted(folder.iterdir()):
        if _PART.fullmatch(part.name) and part.name not in keep and part.is_dir():
            _remove_unless_read(part)


def _remove_unless_read(part: Path) -> None:
    lock_file = part / _READERS_LOCK
    if not lock_file.exists():
        shutil.rmtree(part, ignore_errors=True)
        return
    with suppress(sqlite3.Error), closing(_opened(lock_file, 0)) as lock:
        lock.execute("BEGIN EXCLUSIVE")
        shutil.rmtree(part, ignore_errors=True)


def bytes_in(path: Path) -> int:
    """Add up the sizes of the files below a folder."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
