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
        notebook = json.loads(data.decode())
    except (ValueError, RecursionError):
        return Skip("unreadable", "not a notebook: no JSON in UTF-8")
    cells = _cells(notebook)
    if cells is None:
        return Skip("unreadable", "not a notebook: it has no list of cells")
    return "\n\n".join(_source(cell) for cell in cells)


def _cells(notebook: Any) -> list[Any] | None:
    if not isinstance(notebook, dict):
        return None
    sheets = notebook.get("worksheets")
    holders = sheets if isinstance(sheets, list) else [notebook]
    cells: list[Any] = []
    for holder in holders:
        own = holder.get("cells") if isinstance(holder, dict) else None
        if not isinstance(own, list):
            return None
        cells += own
    return [cell for cell in cells if isinstance(cell, dict)]


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source", cell.get("input", ""))
    lines = source if isinstance(source, list) else [source]
    return "".join(line for line in lines if isinstance(line, str))
