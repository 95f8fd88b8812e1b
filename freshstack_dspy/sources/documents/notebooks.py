"""Whether a file is a Jupyter notebook, and how much text is in it: its outputs do not count."""

import json
from typing import Any

from freshstack_dspy.sources.documents.skips import Skip


def notebook_text(data: bytes) -> str | Skip:
    """Give the sources of a notebook's cells, or say why it has none.

    Args:
        data: JSON in UTF-8: `nbformat` 4, or 3 with its worksheets.
    """
    try:
        notebook = json.loads(data.decode(), object_pairs_hook=_object)
    except _TwiceError:
        return Skip("unreadable", "not a notebook: an object in it has a key twice")
    except (ValueError, RecursionError):
        return Skip("unreadable", "not a notebook: no JSON in UTF-8")
    cells = _cells(notebook)
    if cells is None:
        return Skip("unreadable", "not a notebook: it has no list of cells")
    return "\n\n".join(_source(cell) for cell in cells)


class _TwiceError(ValueError):
    """An object has a key twice: readers differ in which of the values they take."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise _TwiceError
    return values


def _cells(notebook: Any) -> list[Any] | None:
    if not isinstance(notebook, dict):
        return None
    sheets = notebook.get("worksheets") or []
    if not isinstance(sheets, list):
        return None
    holders = [*sheets, notebook] if "cells" in notebook or not sheets else sheets
    cells: list[Any] = []
    for holder in holders:
        own = holder.get("cells") if isinstance(holder, dict) else None
        if not isinstance(own, list):
            return None
        cells += own
    return [cell for cell in cells if isinstance(cell, dict)]


def _source(cell: dict[str, Any]) -> str:
    """Give all that a chunk may take: the text of nbformat 4, and that of code in 3."""
    lines: list[Any] = []
    for source in (cell.get("source"), cell.get("input")):
        found = list(source.values()) if isinstance(source, dict) else source
        lines += found if isinstance(found, list) else [found]
    return "".join(line for line in lines if isinstance(line, str))
