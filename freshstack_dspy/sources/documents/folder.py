"""A folder of documents. Nothing outside of it is ever read: symbolic links are not followed."""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from freshstack_dspy.errors import SourceError
from freshstack_dspy.sources.documents.skips import Skip
from freshstack_dspy.sources.documents.tree import Entry, Wanted, named_entry, not_readable

_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_FLAGS |= getattr(os, "O_BINARY", 0)
LINK = Skip("link", "a symbolic link; links are not followed")
NO_FILE = Skip("unreadable", "not a regular file")


class Folder:
    """The files below a folder, as they are on disk."""

    revision: str | None = None
    of_files = True

    def __init__(self, path: Path) -> None:
        """Take a folder.

        Raises:
            SourceError: It does not exist, is a file or a bare repository, or may not be listed.
        """
        self._path = path
        if not path.exists():
            raise SourceError(f"{path}: no such folder")
        if not path.is_dir():
            raise SourceError(
                f"{path}: a file, and not one that holds documents (.whl, .jsonl); "
                "name the folder that it is in"
            )
        if (path / "HEAD").is_file() and all(
            (path / name).is_dir() for name in ("objects", "refs")
        ):
            raise SourceError(
                f"{path}: a bare git repository; say which of its states to read, "
                'as revision = "HEAD"'
            )
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
                yield named_entry(os.fsencode(folder), skip=not_readable(error))
                continue
            for child in children:
                path = f"{folder}/{child.name}" if folder else child.name
                if child.is_dir(follow_symlinks=False) and not child.name.startswith("."):
                    pending.append(path)
                else:
                    yield _entry(child, path)

    def contents(self, wanted: Sequence[Wanted]) -> Iterator[bytes | Skip]:
        """Read the files."""
        for entry, most in wanted:
            yield read_regular(self._path / entry.key, most)

    def close(self) -> None:
        """Nothing is held."""


def read_regular(path: Path, most: int) -> bytes | Skip:
    """Read at most so many bytes of a file that is neither link nor device."""
    try:
        with os.fdopen(os.open(path, _FLAGS), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return NO_FILE
            return file.read(most)
    except OSError as error:
        return not_readable(error)


def _entry(child: os.DirEntry[str], path: str) -> Entry:
    skip, size = None, 0
    try:
        if child.name.startswith("."):
            skip = Skip("hidden", "hidden")
        elif child.is_symlink():
            skip = LINK
        elif not child.is_file(follow_symlinks=False):
            skip = NO_FILE
        else:
            size = child.stat(follow_symlinks=False).st_size
    except OSError as error:
        skip = not_readable(error)
    return named_entry(os.fsencode(path), size, skip, key=path)
