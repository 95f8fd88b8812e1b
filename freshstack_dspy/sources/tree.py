"""What a folder and a git repository have in common: named files that can be read."""

import unicodedata
from collections.abc import Iterator
from typing import NamedTuple, Protocol


class Entry(NamedTuple):
    """One file, or a thing that is none."""

    path: str
    """Relative, with forward slashes."""
    size: int = 0
    """Bytes."""
    reason: str | None = None
    """Why it cannot be read."""
    key: str = ""
    """By which the tree finds its content."""


class FileTree(Protocol):
    """A set of files."""

    revision: str | None

    def entries(self) -> Iterator[Entry]:
        """List the entries, in any order; a hidden folder is one entry."""
        ...

    def read(self, entry: Entry, most: int) -> bytes:
        """Read at most so many bytes of a file.

        Raises:
            OSError: This file cannot be read.
            SourceError: The whole tree cannot be.
        """
        ...

    def close(self) -> None:
        """Let go of what reading needed."""
        ...


def named_entry(raw_path: bytes, size: int = 0, reason: str | None = None, key: str = "") -> Entry:
    r"""Make the entry of a path as the system has it.

    A path becomes part of ids, and ids become words in lines of run and qrels files; so paths
    that could break a line, or have no text at all, are not read. They are shown with escapes.
    """
    path = raw_path.decode("utf-8", "backslashreplace")
    if path.encode() != raw_path:
        reason = "its name is not UTF-8"
    shown = "".join(map(_visible, path))
    if shown != path:
        reason = "its name holds a line break or control character"
    return Entry(shown, size, reason, key)


def hidden_part(path: str) -> str | None:
    """Give the path down to its first hidden name (one that begins with a dot), if it has one."""
    names = path.split("/")
    first = next((i for i, name in enumerate(names) if name.startswith(".")), None)
    return None if first is None else "/".join(names[: first + 1])


def _visible(character: str) -> str:
    if unicodedata.category(character) in ("Cc", "Zl", "Zp"):
        return character.encode("unicode_escape").decode()
    return character
