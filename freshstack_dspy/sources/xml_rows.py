"""The rows of a Stack Exchange dump, streamed: memory does not grow with the file."""

from collections.abc import Iterator
from pathlib import Path
from xml.parsers import expat

from freshstack_dspy.errors import SourceError

_BLOCK = 1 << 20
_LONGEST_ROW = 8 << 20
"""Bytes. A post holds at most some tens of thousands of characters; this bounds our memory."""
_SEVEN_ZIP = b"7z\xbc\xaf\x27\x1c"


def read_rows(path: Path, root: str) -> Iterator[dict[str, str]]:
    """Give the attributes of each `<row …/>` of a dump file, in the order of the file.

    A document type declaration is refused before anything in it is read: without one there are
    no entities to expand and nothing external to load.

    Args:
        path: The XML file.
        root: Which element its rows must stand in: `posts`, `users`, …

    Raises:
        SourceError: The file cannot be read, is cut short or damaged (with the place), declares
            a document type, or has another root.
    """
    rows = _Rows(path, root)
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                yield from rows.feed(block)
            yield from rows.feed(b"", last=True)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None


class _Rows:
    """An expat parser that collects rows."""

    def __init__(self, path: Path, root: str) -> None:
        self._path = path
        self._root = root
        self._depth = 0
        self._found: list[dict[str, str]] = []
        self._bytes_since_row = 0
        self._parser = expat.ParserCreate()
        self._parser.StartDoctypeDeclHandler = self._refuse_doctype
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end

    def feed(self, block: bytes, *, last: bool = False) -> list[dict[str, str]]:
        """Parse the next bytes; give the rows that they complete."""
        if self._parser.CurrentByteIndex <= 0 and block.startswith(_SEVEN_ZIP):
            raise SourceError(
                f"{self._path}: a 7z archive; unpack it first with: 7z x {self._path.name}"
            )
        try:
            self._parser.Parse(block, last)
        except expat.ExpatError as error:
            place = f"line {error.lineno}, column {error.offset + 1}"
            hint = " (is it cut short?)" if last else ""
            raise SourceError(
                f"{self._path}: not well-formed XML at {place}, "
                f"byte {max(self._parser.ErrorByteIndex, 0)}: {expat.ErrorString(error.code)}{hint}; "
                "unpack or download the dump again"
            ) from None
        rows, self._found = self._found, []
        self._bytes_since_row = len(block) if rows else self._bytes_since_row + len(block)
        if self._bytes_since_row > _LONGEST_ROW:
            raise SourceError(
                f"{self._path}: no row ends within {_LONGEST_ROW >> 20} MiB "
                f"after line {self._parser.CurrentLineNumber}; this is no Stack Exchange dump"
            )
        return rows

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if self._depth == 0 and name != self._root:
            raise SourceError(
                f"{self._path}: its root is <{name[:40]}>, not <{self._root}>; "
                f"give the dump's {self._root.capitalize()}.xml"
            )
        if self._depth == 1 and name == "row":
            self._found.append(attributes)
        self._depth += 1

    def _end(self, _name: str) -> None:
        self._depth -= 1

    def _refuse_doctype(self, *_declaration: object) -> None:
        raise SourceError(
            f"{self._path}: declares a document type (line {self._parser.CurrentLineNumber}), "
            "which no Stack Exchange dump does; it is refused unread"
        )
