"""Whether SQLite may open a file that could be from anywhere.

SQLite follows links and writes through them, plays a journal that it finds beside a database back
into it, and deletes the file that such a journal names: any file that the user may delete.
"""

import os
import stat
from pathlib import Path

_BESIDE = ("", "-wal", "-shm", "-journal")
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
"""Ends a rollback journal that names another file."""


def unsafe_file(database: Path, *, writing: bool) -> tuple[str, str] | None:
    """Find what leads elsewhere among the files of a database, without opening it.

    Args:
        database: Its main file; what is not there is safe.
        writing: Whether it is opened to be written, where a hard link matters too.

    Returns:
        The name of the file and what is wrong with it, as the end of a sentence; or None.

    Raises:
        OSError: A file cannot be looked at.
    """
    for suffix in _BESIDE:
        file = database.with_name(database.name + suffix)
        try:
            found = file.lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue  # what cannot be there is said when it is opened
        if not stat.S_ISREG(found.st_mode):
            return file.name, "is a link or no plain file: refused unread"
        if writing and found.st_nlink > 1:
            return file.name, (
                "is a hard link, and what is written to it would change another file too"
            )
    journal = database.with_name(f"{database.name}-journal")
    if _names_another_file(journal):
        return journal.name, "names another file, which could be deleted: refused unread"
    return None


def _names_another_file(journal: Path) -> bool:
    try:
        with journal.open("rb") as opened:
            opened.seek(max(0, opened.seek(0, os.SEEK_END) - len(_JOURNAL_MAGIC)))
            return opened.read() == _JOURNAL_MAGIC
    except (FileNotFoundError, NotADirectoryError):
        return False
