"""Jupyter notebooks: the text of their cells, and where it is in the file.

The text is what people wrote, cell after cell with an empty line between: outputs, attachments
and metadata are left out. A place in the text leads back to the place in the file's bytes.
"""

import json
import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from json import scanner
from json.decoder import JSONObject, scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from freshstack_dspy.corpus.encodings import FileText
from freshstack_dspy.corpus.outlines import (
    JOINED,
    Boundary,
    FileKind,
    Fits,
    language_named,
    outline_of,
)

_SEPARATOR = "\n\n"
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
    kind: FileKind


class Notebook:
    """The text of a notebook, as UTF-8."""

    def __init__(self, data: bytes) -> None:
        """Read a notebook of nbformat 3 or 4, in UTF-8, UTF-16 or UTF-32."""
        self.utf8 = b""
        self.inseparable: set[int] = set()
        """Offsets in `utf8` that have no place of their own in the file."""
        self._cells: list[_Cell] = []
        self._places = array("q")
        """Of each character of the text, in the JSON; of the first one in a cell, its brace."""
        try:
            encoding = json.detect_encoding(data).removesuffix("-sig")
            if encoding in ("utf-16", "utf-32"):  # with a mark
                encoding += "-le" if data.startswith(b"\xff\xfe") else "-be"
            self._file = FileText(data, encoding)
            self._json = self._file.utf8.decode()
            parts: list[str] = []
            for cell, kind in _cells(_placed_json(self._json)):
                parts += self._take(cell, kind)
        except KeyError:
            raise NotANotebookError("no notebook: it has no list of cells") from None
        except (ValueError, RecursionError, AttributeError, TypeError) as error:
            raise NotANotebookError(f"no notebook: {error}") from None
        self.utf8 = "".join(parts).encode()

    def _take(self, cell: _Object, kind: FileKind) -> list[str]:
        """Give the parts of the text that come of a cell, and note where they are."""
        texts = [text for text in _source(cell) if text]
        written = "".join(texts)
        if not written.strip():
            return []
        parts: list[str] = []
        start = 0
        if self._cells:
            parts = [_SEPARATOR]
            end = self._cells[-1].end
            start = end + len(_SEPARATOR)
            self.inseparable.update(range(end, start))
            self._places.extend([self._places[-1] + 1] * len(_SEPARATOR))
        first = len(self._places)
        for text in texts:
            self._places.extend(
                match.start() for match in _CHARACTER.finditer(self._json, text.start, text.end)
            )
        self._places[first] = cell.start
        self._cells.append(_Cell(start, start + len(written.encode()), kind))
        return [*parts, written]

    def outline(self, fits: Fits) -> Iterator[Boundary]:
        """Give the beginnings of the cells, and below them the joints of each that is too long."""
        for cell in self._cells:
            yield Boundary(cell.start, _CELL_LEVEL)
            text = self.utf8[cell.start : cell.end]
            if cell.kind == "markdown":
                text += b"\n\n."  # a heading at the end is about the next cell
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
        """Give the places in the file of offsets in `utf8`, which ascend and part no character."""
        found, number, before, size, place = [], 0, 0, 0, 0
        for offset in offsets:
            number += len(self.utf8[before:offset].decode())
            size += len(self._json[place : self._places[number]].encode())
            before, place = offset, self._places[number]
            found.append(size)
        return self._file.file_offsets(found)

    def part(self, start: int, end: int) -> str:
        """Give the text that is in a range of the file's bytes."""
        first, last = (
            bisect_left(self._places, self._file.character(offset)) for offset in (start, end)
        )
        return self.utf8.decode()[first:last]


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
