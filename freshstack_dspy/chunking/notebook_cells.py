"""The cells of a notebook, as places in its JSON."""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from freshstack_dspy.chunking.json_strings import JsonString, json_strings
from freshstack_dspy.chunking.kinds import FileKind, language_named

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
