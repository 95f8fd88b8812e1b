"""The rows of a Stack Exchange dump, streamed: memory does not grow with the file."""

from collections.abc import Callable, Iterator
from pathlib import Path
from xml.parsers import expat

from freshstack_dspy.errors import SourceError

_BLOCK = 1 << 20
_LONGEST_ROW = 8 << 20
"""Bytes. A post holds at most some tens of thousands of characters; this bounds our memory."""

Row = dict[str, str]
"""The attributes of a row, by name."""


def read_rows(
    path: Path, root: str, report: Callable[[int], None] = lambda _: None
) -> Iterator[Row]:
    """Give the attributes of each `<row …/>` of a dump file, in the order of the file.

    Args:
        path: The XML file.
        root: Which element its rows must stand in: `posts`, `users`, …
        report: Is told now and then how many bytes were read.

    Raises:
        SourceError: The file cannot be read, or as `RowParser.feed` says.
    """
    rows = RowParser(path, root)
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                yield from rows.feed(block)
                report(file.tell())
            yield from rows.end()
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None


class RowParser:
    """An expat parser that is fed a dump file and gives its rows.

    A document type declaration is refused before anything in it is read: without one there are
    no entities to expand and nothing external to load.
    """

    def __init__(self, path: Path, root: str, name: str | None = None) -> None:
        """Begin a file.

        Args:
            path: What is read, for messages.
            root: Which element the rows must stand in.
            name: Of the member, where `path` is an archive.
        """
        self._place = f"{path}: {name}" if name else str(path)
        self._root = root
        self._depth = 0
        self._found: list[Row] = []
        self._bytes_since_row = 0
        self._parser = expat.ParserCreate()
        self._parser.StartDoctypeDeclHandler = self._refuse_doctype
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end

    def end(self) -> list[Row]:
        """Say that there is no more; give the last rows.

        Raises:
            SourceError: The file is cut short.
        """
        return self.feed(b"", last=True)

    def feed(self, block: bytes, *, last: bool = False) -> list[Row]:
        """Parse the next bytes; give the rows that they complete.

        Raises:
            SourceError: The file is damaged (with the place), declares a document type or
                another encoding than UTF-8, UTF-16 and those of one byte, or has another root.
        """
        try:
            self._parser.Parse(block, last)
        except expat.ExpatError as error:
            place = f"line {error.lineno}, column {error.offset + 1}"
            hint = " (is it cut short?)" if last else ""
            raise SourceError(
                f"{self._place}: not well-formed XML at {place}, "
                f"byte {max(self._parser.ErrorByteIndex, 0)}: {expat.ErrorString(error.code)}{hint}; "
                "unpack or download the dump again"
            ) from None
        except (LookupError, ValueError):  # from Python's codecs, which expat asks
            raise SourceError(
                f"{self._place}: declares an encoding that is not read; a dump is in UTF-8"
            ) from None
        rows, self._found = self._found, []
        self._bytes_since_row = len(block) if rows else self._bytes_since_row + len(block)
        if self._bytes_since_row > _LONGEST_ROW:
            raise SourceError(
                f"{self._place}: no row ends within {_LONGEST_ROW >> 20} MiB "
                f"after line {self._parser.CurrentLineNumber}; this is no Stack Exchange dump"
            )
        return rows

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if self._depth == 0 and name != self._root:
            raise SourceError(
                f"{self._place}: its root is <{name[:40]}>, not <{self._root}>; "
                f"give the dump's {self._root.capitalize()}.xml"
            )
        if self._depth == 1 and name == "row":
            self._found.append(attributes)
        self._depth += 1

    def _end(self, _name: str) -> None:
        self._depth -= 1

    def _refuse_doctype(self, *_declaration: object) -> None:
        raise SourceError(
            f"{self._place}: declares a document type (line {self._parser.CurrentLineNumber}), "
            "which no Stack Exchange dump does; it is refused unread"
        )
