"""Where an index is built: beside its place, by one process at a time, then renamed into it."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from freshstack_dspy.errors import IndexingError

_LOCK_FILE = ".lock"
_UNFINISHED = ".building"
_REPLACED = ".replaced"
_SECONDS_BETWEEN_TRIES = 1


@contextmanager
def sole_builder(root: Path) -> Iterator[None]:
    """Wait until no other process or thread builds under a folder, then keep others waiting.

    Raises:
        IndexingError: The folder cannot be written.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        # A database's lock is the only one in the standard library that works on every system and
        # ends with the process that held it, even a killed one.
        lock = sqlite3.connect(
            root / _LOCK_FILE, isolation_level=None, timeout=_SECONDS_BETWEEN_TRIES
        )
        with closing(lock):
            _acquire(lock)
            yield
    except (OSError, sqlite3.Error) as error:
        raise IndexingError(f"{root}: an index cannot be written here: {error}") from None


def _acquire(lock: sqlite3.Connection) -> None:
    while True:  # short waits in a loop can be interrupted from the keyboard, a long one cannot
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
        else:
            return


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Give an empty folder that takes the place of `target` when the block ends well.

    Only for a `sole_builder`: what lies in the workplace was left by builds that died.
    """
    unfinished, replaced = target.with_name(_UNFINISHED), target.with_name(_REPLACED)
    for leftover in (unfinished, replaced):
        if leftover.exists():
            shutil.rmtree(leftover)
    unfinished.mkdir()
    try:
        yield unfinished
        if target.exists():
            target.rename(replaced)
        unfinished.rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.rmtree(replaced, ignore_errors=True)
