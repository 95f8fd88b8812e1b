"""Jupyter notebooks: the text of their cells, and where it stands in the file.

The text is what people wrote, cell after cell with an empty line between: outputs, attachments
and metadata are left out. A place in the text leads back to the place in the file's bytes.
"""

import codecs
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from freshstack_dspy.corpus.boundaries import JOINED, Boundary, FileKind, Fits, language_named
from freshstack_dspy.corpus.decoding import FileText
from freshstack_dspy.corpus.outlines import outline_of

_TOKEN = re.compile(
    rb"[ \t\n\r]*+(?:"
    rb'(?P<string>"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+")'
    rb"|(?P<mark>[{}\[\]:,])"
    rb"|(?P<other>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+|true|false|null"
    rb"|NaN|-?Infinity)"
    rb")"
)
_SPACE = re.compile(rb"[ \t\n\r]*+")


class Container(NamedTuple):
    """An object or array that a string lies in."""

    start: int
    """The offset of its opening bracket."""
    key: bytes
    """Which of its members the string lies in: the raw key; empty in an array."""


class JsonString(NamedTuple):
    """A string that is a value."""

    inside: tuple[Container, ...]
    """From the outermost."""
    start: int
    """The offset behind its opening quotation mark."""
    end: int
    """The offset of its closing quotation mark."""


class NotJsonError(ValueError):
    """A text is not JSON."""


def json_strings(data: bytes, deepest: int) -> Iterator[JsonString]:
    """Give the strings that are values, in order, of JSON in UTF-8.

    Args:
        data: The whole text.
        deepest: Strings in more containers than this are passed over.

    Raises:
        NotJsonError: Somewhere the text is not JSON; what came before was given.
    """
    stack: list[Container] = []
    expected, offset = "value", 0
    while expected != "end":
        found = _TOKEN.match(data, offset)
        if found is None:
            raise NotJsonError(f"no JSON at byte {offset}")
        offset = found.end()
        start = found.start(str(found.lastgroup))
        token = data[start:offset] if found.lastgroup == "mark" else b""
        if expected.startswith("value"):
            if token in (b"{", b"["):
                stack.append(Container(start, b""))
                expected = "key or }" if token == b"{" else "value or ]"
                continue
            if token == b"]" and expected == "value or ]":
                stack.pop()
            elif token:
                raise NotJsonError(f"no value at byte {start}")
            elif found.lastgroup == "string" and len(stack) <= deepest:
                yield JsonString(tuple(stack), start + 1, offset - 1)
            expected = "more" if stack else "end"
        else:
            expected = _after(expected, data, stack, start, offset)
    space = _SPACE.match(data, offset)
    if space is None or space.end() != len(data):
        raise NotJsonError(f"more than one value, at byte {offset}")


def _after(expected: str, data: bytes, stack: list[Container], start: int, end: int) -> str:
    """Take a token that is no value, and tell what may come after it."""
    token = data[start:end]
    innermost = stack[-1]
    is_object = data[innermost.start] == ord("{")
    if expected.startswith("key") and token.startswith(b'"'):
        stack[-1] = Container(innermost.start, token[1:-1])
        return ":"
    if expected == ":" and token == b":":
        return "value"
    if expected == "more" and token == b",":
        return "key" if is_object else "value"
    if expected in ("more", "key or }") and token == (b"}" if is_object else b"]"):
        stack.pop()
        return "more" if stack else "end"
    raise NotJsonError(f"unexpected {token[:20]!r} at byte {start}")


_DEEPEST = 6
"""Containers around a line of a cell in nbformat 3."""
_HAS_CELLS = re.compile(rb'"(?:cells|worksheets)"[ \t\n\r]*+:[ \t\n\r]*+\[')
_WAYS_TO_CELLS = ((b"cells", b""), (b"worksheets", b"", b"cells", b""))
"""The keys around a cell: nbformat 4, and 3."""
_SOURCES = (b"source", b"input")
"""The key of a cell's text: nbformat 4, and of code in 3."""
_LANGUAGES = [(b"metadata", b"kernelspec", b"language"), (b"metadata", b"language_info", b"name")]


class NotebookCell(NamedTuple):
    """A cell of a notebook."""

    start: int
    """The offset of its opening brace."""
    kind: FileKind
    strings: tuple[tuple[int, int], ...]
    """Where the strings of its source begin and end, between the quotation marks."""


@dataclass
class _Found:
    cell_type: bytes = b""
    language: bytes = b""
    strings: list[tuple[int, int]] = field(default_factory=list)


def read_cells(data: bytes) -> list[NotebookCell] | None:
    """Read the cells of a notebook in UTF-8, in order; None where the JSON is no notebook's.

    Raises:
        NotJsonError: It is not JSON.
    """
    found: dict[int, _Found] = {}
    language = b""
    for string in json_strings(data, _DEEPEST):
        keys = tuple(container.key for container in string.inside)
        value = data[string.start : string.end]
        if keys in _LANGUAGES:
            language = language or value
        for way in _WAYS_TO_CELLS:
            if keys[: len(way)] == way and len(keys) > len(way):
                cell = found.setdefault(string.inside[len(way)].start, _Found())
                _fill(cell, keys[len(way) :], string, value)
    if not found and not _HAS_CELLS.search(data):
        return None
    return [
        NotebookCell(start, _kind(cell, language), tuple(cell.strings))
        for start, cell in sorted(found.items())
    ]


def _fill(cell: _Found, keys: tuple[bytes, ...], string: JsonString, value: bytes) -> None:
    if keys[0] in _SOURCES and keys[1:] in ((), (b"",)):
        cell.strings.append((string.start, string.end))
    elif keys == (b"cell_type",):
        cell.cell_type = value
    elif keys == (b"language",):
        cell.language = value


def _kind(cell: _Found, language: bytes) -> FileKind:
    if cell.cell_type in (b"markdown", b"heading"):
        return "markdown"
    if cell.cell_type == b"code":
        return language_named((cell.language or language or b"python").decode())
    return "text"


_SEPARATOR = b"\n\n"
_CELL_LEVEL, _IN_CODE = 20, 100
"""Headings are better places than the beginnings of other cells, and these than what is in them."""
_CHARACTER = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|\\u[0-9a-fA-F]{4}|\\.|[^\\\x80-\xbf][\x80-\xbf]*+"
)
"""One character as JSON writes it."""
_SURROGATE = re.compile("[\ud800-\udfff]")


class NotANotebookError(ValueError):
    """A file is not JSON with cells."""


class _Cell(NamedTuple):
    start: int
    """In the text."""
    end: int
    json_start: int
    kind: FileKind


class _Line(NamedTuple):
    """One string of a cell's source: a line, or all of it."""

    start: int
    """In the text."""
    json_start: int
    json_end: int


class Notebook:
    """The text of a notebook, as UTF-8."""

    def __init__(self, data: bytes) -> None:
        """Read a notebook of nbformat 3 or 4.

        Raises:
            NotANotebookError: It is damaged, or something else.
        """
        try:
            self._file = FileText(data, _json_encoding(data))
            found = read_cells(self._file.utf8)
        except (UnicodeDecodeError, NotJsonError) as error:
            raise NotANotebookError(f"no notebook: {error}") from None
        if found is None:
            raise NotANotebookError("no notebook: it has no cells")
        self._cells: list[_Cell] = []
        self._lines: list[_Line] = []
        self.utf8 = b""
        self._assemble(found)
        ends = [cell.end for cell in self._cells[:-1]]
        self.inseparable = frozenset(offset + more for offset in ends for more in (0, 1))
        """Offsets in `utf8` that have no place of their own in the file."""
        self._cell_at = {cell.start: cell for cell in self._cells}
        self._line_starts = [line.start for line in self._lines]
        self._line_json_starts = [line.json_start for line in self._lines]
        self._characters: dict[_Line, list[int]] = {}

    def _assemble(self, found: Sequence[NotebookCell]) -> None:
        parts: list[bytes] = []
        size = 0
        for cell in found:
            texts = [self._source(start, end) for start, end in cell.strings]
            if not b"".join(texts).decode().strip():
                continue
            if parts:
                parts.append(_SEPARATOR)
                size += len(_SEPARATOR)
            cell_start = size
            for text, (start, end) in zip(texts, cell.strings, strict=True):
                if text:
                    self._lines.append(_Line(size, start, end))
                    size += len(text)
            parts += texts
            self._cells.append(_Cell(cell_start, size, cell.start, cell.kind))
        self.utf8 = b"".join(parts)

    def _source(self, start: int, end: int) -> bytes:
        text = json.loads(b'"%b"' % self._file.utf8[start:end])
        return _SURROGATE.sub("\ufffd", text).encode()

    def outline(self, fits: Fits, *, parse: bool) -> Iterator[Boundary]:
        """Give the beginnings of the cells, and below them the joints of each that is too long."""
        for cell in self._cells:
            yield Boundary(cell.start, _CELL_LEVEL)
            text = self.utf8[cell.start : cell.end]
            if cell.kind == "markdown":
                text += _SEPARATOR + b"."  # a heading at the end is about the next cell
            elif fits(cell.start, cell.end):
                continue
            base = cell.start

            def fits_in_cell(start: int, end: int, base: int = base) -> bool:
                return fits(base + start, base + end)

            for offset, level in outline_of(cell.kind, text, fits_in_cell, parse=parse):
                if level == JOINED or base + offset < cell.end:
                    deeper = level if cell.kind == "markdown" else _IN_CODE + level
                    yield Boundary(base + offset, deeper)

    def file_offsets(self, offsets: Sequence[int]) -> list[int]:
        """Give the places in the file of offsets in `utf8`, which ascend and part no character.

        That of a cell's beginning is its opening brace.
        """
        return self._file.file_offsets([self._json_offset(offset) for offset in offsets])

    def _json_offset(self, offset: int) -> int:
        if offset in self._cell_at:
            return self._cell_at[offset].json_start
        line = self._lines[bisect_right(self._line_starts, offset) - 1]
        return self._characters_of(line)[len(self.utf8[line.start : offset].decode())]

    def part(self, start: int, end: int) -> str:
        """Give the text that stands in a range of the file's bytes."""
        return self.utf8[self._offset(start) : self._offset(end)].decode()

    def _offset(self, file_offset: int) -> int:
        json_offset = self._file.utf8_offset(file_offset)
        number = bisect_right(self._line_json_starts, json_offset) - 1
        if number < 0:
            return 0
        line = self._lines[number]
        if json_offset >= line.json_end:
            following = self._line_starts[number + 1 : number + 2]
            return following[0] if following else len(self.utf8)
        characters = self._characters_of(line)
        text = self.utf8[line.start :][: 4 * len(characters)].decode(errors="ignore")
        return line.start + len(text[: bisect_left(characters, json_offset)].encode())

    def _characters_of(self, line: _Line) -> list[int]:
        """Give where in the JSON each character of a line begins."""
        if line not in self._characters:
            found = _CHARACTER.finditer(self._file.utf8, line.json_start, line.json_end)
            self._characters[line] = [match.start() for match in found]
        return self._characters[line]


def _json_encoding(data: bytes) -> str:
    """Tell the encoding of JSON; never one that looks for a byte order mark."""
    encoding = json.detect_encoding(data)
    if encoding in ("utf-16", "utf-32"):
        return f"{encoding}-le" if data.startswith(codecs.BOM_UTF16_LE) else f"{encoding}-be"
    return encoding.removesuffix("-sig")
