"""A folder of documents. Nothing outside of it is ever read: symbolic links are not followed."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from freshstack_dspy.errors import SourceError
from freshstack_dspy.sources.tree import Entry, named_entry

_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class Folder:
    """The files below a folder, as they are on disk."""

    revision: str | None = None

    def __init__(self, path: Path) -> None:
        """Take a folder.

        Raises:
            SourceError: It does not exist, is a file, or may not be listed.
        """
        self._path = path
        if not path.exists():
            raise SourceError(f"{path}: no such folder")
        if not path.is_dir():
            raise SourceError(f"{path}: a file, not a folder; name the folder that holds it")
        try:
            os.scandir(path).close()
        except OSError as error:
            raise SourceError(f"{path}: cannot be listed: {error.strerror}") from None

    def entries(self) -> Iterator[Entry]:
        """List the files below the folder; hidden folders are not entered."""
        pending = [""]
        while pending:
            folder = pending.pop()
            try:
                with os.scandir(self._path / folder) as listing:
                    children = list(listing)
            except OSError as error:
                yield named_entry(os.fsencode(folder), reason=_unreadable(error))
                continue
            for child in children:
                path = f"{folder}/{child.name}" if folder else child.name
                if child.is_dir(follow_symlinks=False) and not child.name.startswith("."):
                    pending.append(path)
                else:
                    yield _entry(child, path)

    def read(self, entry: Entry, most: int) -> bytes:
        """Read at most so many bytes of a file that is neither link nor device."""
        with os.fdopen(os.open(self._path / entry.key, _FLAGS), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(0, "no longer a regular file")
            return file.read(most)

    def close(self) -> None:
        """Nothing is held."""


def _entry(child: os.DirEntry[str], path: str) -> Entry:
    reason, size = None, 0
    try:
        if child.name.startswith("."):
            reason = "hidden"
        elif child.is_symlink():
            reason = "a symbolic link; links are not followed"
        elif not child.is_file(follow_symlinks=False):
            reason = "not a regular file"
        else:
            size = child.stat(follow_symlinks=False).st_size
    except OSError as error:
        reason = _unreadable(error)
    return named_entry(os.fsencode(path), size, reason, key=path)


def _unreadable(error: OSError) -> str:
    return f"cannot be read: {error.strerror}"
