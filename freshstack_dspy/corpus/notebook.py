"""Jupyter notebooks: the text of their cells, and where it is in the file.

The text is what people wrote, cell after cell with an empty line between: outputs, attachments
and metadata are left out. A place in the text leads back to the place in the file's bytes.
"""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from json import scanner
from json.decoder import JSONObject, scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from freshstack_dspy.corpus.boundaries import JOINED, Boundary, FileKind, Fits, language_named
from freshstack_dspy.corpus.encodings import FileText
from freshstack_dspy.corpus.outlines import outline_of

_SEPARATOR = b"\n\n"
_CELL_LEVEL, _IN_CODE = 20, 100
"""Headings are better places than the beginnings of other cells, and these than what is in them."""
_CHARACTER = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]"
)
"""One character as JSON writes it."""
_SURROGATE = re.compile("[\ud800-\udfff]")


class NotANotebookError(ValueError):
    """A file is not JSON with cells."""


class _Text(str):
    """A string of JSON that knows where it is, between its quotation marks."""

    __slots__ = ("end", "start")
    start: int
    end: int


class _Object(dict[str, Any]):
    """An object of JSON that knows the place of its opening brace."""

    start: int


def _placed_json(text: str) -> Any:
    """Read JSON; its strings and objects know where they are."""

    def string(source: str, start: int, strict: bool) -> tuple[_Text, int]:
        value, end = scanstring(source, start, strict)
        found = _Text(_SURROGATE.sub("\ufffd", value))
        found.start, found.end = start, end - 1
        return found, end

    def object_(place: tuple[str, int], *more: Any) -> tuple[_Object, int]:
        value, end = JSONObject(place, *more)
        found = _Object(value)
        found.start = place[1] - 1
        return found, end

    decoder: Any = json.JSONDecoder()
    decoder.parse_string, decoder.parse_object = string, object_
    decoder.scan_once = scanner.py_make_scanner(decoder)  # type: ignore[attr-defined]
    return decoder.decode(text)


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
        """Read a notebook of nbformat 3 or 4, in UTF-8, UTF-16 or UTF-32."""
        self._cells: list[_Cell] = []
        self._lines: list[_Line] = []
        try:
            encoding = json.detect_encoding(data).removesuffix("-sig")
            if encoding in ("utf-16", "utf-32"):  # with a mark
                encoding += "-le" if data.startswith(b"\xff\xfe") else "-be"
            self._file = FileText(data, encoding)
            self._json = self._file.utf8.decode()
            found = _cells(_placed_json(self._json))
            self._assemble(found)
        except KeyError:
            raise NotANotebookError("no notebook: it has no list of cells") from None
        except (ValueError, RecursionError, AttributeError, TypeError) as error:
            raise NotANotebookError(f"no notebook: {error}") from None
        ends = [cell.end for cell in self._cells[:-1]]
        self.inseparable = frozenset(offset + more for offset in ends for more in (0, 1))
        """Offsets in `utf8` that have no place of their own in the file."""
        self._cell_at = {cell.start: cell for cell in self._cells}
        self._line_starts = [line.start for line in self._lines]
        self._line_json_starts = [line.json_start for line in self._lines]
        self._characters: dict[_Line, list[int]] = {}

    def _assemble(self, found: Sequence[tuple[_Object, FileKind]]) -> None:
        parts: list[bytes] = []
        size = 0
        for cell, kind in found:
            texts = _source(cell)
            if not "".join(texts).strip():
                continue
            if parts:
                parts.append(_SEPARATOR)
                size += len(_SEPARATOR)
            cell_start = size
            for text in filter(None, texts):
                self._lines.append(_Line(size, text.start, text.end))
                parts.append(text.encode())
                size += len(parts[-1])
            self._cells.append(_Cell(cell_start, size, cell.start, kind))
        self.utf8 = b"".join(parts)

    def outline(self, fits: Fits) -> Iterator[Boundary]:
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

            for offset, level in outline_of(cell.kind, text, fits_in_cell):
                if level == JOINED or base + offset < cell.end:
                    deeper = level if cell.kind == "markdown" else _IN_CODE + level
                    yield Boundary(base + offset, deeper)

    def file_offsets(self, offsets: Sequence[int]) -> list[int]:
        """Give the places in the file of offsets in `utf8`, which ascend and part no character.

        That of a cell's beginning is its opening brace.
        """
        found, before, size = [], 0, 0
        for place in map(self._json_place, offsets):
            size += len(self._json[before:place].encode())
            found.append(size)
            before = place
        return self._file.file_offsets(found)

    def _json_place(self, offset: int) -> int:
        if offset in self._cell_at:
            return self._cell_at[offset].json_start
        line = self._lines[bisect_right(self._line_starts, offset) - 1]
        return self._characters_of(line)[len(self.utf8[line.start : offset].decode())]

    def part(self, start: int, end: int) -> str:
        """Give the text that is in a range of the file's bytes."""
        return self.utf8[self._offset(start) : self._offset(end)].decode()

    def _offset(self, file_offset: int) -> int:
        place = self._file.character(file_offset)
        number = bisect_right(self._line_json_starts, place) - 1
        if number < 0:
            return 0
        line = self._lines[number]
        if place >= line.json_end:
            following = self._line_starts[number + 1 : number + 2]
            return following[0] if following else len(self.utf8)
        characters = self._characters_of(line)
        text = self.utf8[line.start :][: 4 * len(characters)].decode(errors="ignore")
        return line.start + len(text[: bisect_left(characters, place)].encode())

    def _characters_of(self, line: _Line) -> list[int]:
        """Give where in the JSON each character of a line begins."""
        if line not in self._characters:
            found = _CHARACTER.finditer(self._json, line.json_start, line.json_end)
            self._characters[line] = [match.start() for match in found]
        return self._characters[line]


def _cells(notebook: Any) -> list[tuple[_Object, FileKind]]:
    """Give the cells with the kind of text that each holds: nbformat 4, and 3 with its worksheets."""
    holders = notebook.get("worksheets") or [notebook]
    cells = [cell for holder in holders for cell in holder["cells"]]
    metadata = notebook.get("metadata") or {}
    language = (
        (metadata.get("kernelspec") or {}).get("language")
        or (metadata.get("language_info") or {}).get("name")
        or "python"
    )
    return [(cell, _kind(cell, language)) for cell in cells]


def _kind(cell: _Object, language: str) -> FileKind:
    if cell.get("cell_type") in ("markdown", "heading"):
        return "markdown"
    if cell.get("cell_type") == "code":
        return language_named(cell.get("language") or language)
    return "text"


def _source(cell: _Object) -> list[_Text]:
    """Give the strings of a cell's text: `source` in nbformat 4, `input` of code in 3."""
    texts: list[_Text] = []
    for key in ("source", "input"):
        value = cell.get(key) or []
        texts += value if isinstance(value, list) else [value]
    return texts
