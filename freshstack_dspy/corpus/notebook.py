"""Jupyter notebooks: what people wrote in their cells, as Markdown."""

import json
import re
from typing import Any

from freshstack_dspy.corpus.tree import Skip

_LEVELS = (1, 2, 3, 4, 5, 6)


def notebook_text(data: bytes) -> str | Skip:
    """Give the cells of a notebook of nbformat 3 or 4 as Markdown, code in fenced blocks.

    Outputs, attachments and metadata are left out. Cells are an empty line apart.
    """
    try:
        notebook = json.loads(data)
        metadata = notebook.get("metadata") or {}
        language = (
            (metadata.get("kernelspec") or {}).get("language")
            or (metadata.get("language_info") or {}).get("name")
            or "python"
        )
        holders = notebook.get("worksheets") or [notebook]  # nbformat 3 has worksheets
        texts = [_text(cell, str(language)) for holder in holders for cell in holder["cells"]]
    except KeyError:
        return Skip("unreadable", "no notebook: it has no list of cells")
    except (ValueError, RecursionError, AttributeError, TypeError) as error:
        return Skip("unreadable", f"no notebook: {error}")
    text = "\n\n".join(text for text in texts if text)
    return text.encode("utf-8", "replace").decode()  # a lone surrogate is no text


def _text(cell: dict[str, Any], language: str) -> str:
    source = cell.get("source") or cell.get("input") or ""
    text = ("".join(source) if isinstance(source, list) else str(source)).strip("\n")
    if not text.strip():
        return ""
    if cell.get("cell_type") == "code":
        longest = max(map(len, re.findall("`+", text)), default=0)
        fence = "`" * max(3, longest + 1)
        return f"{fence}{cell.get('language') or language}\n{text}\n{fence}"
    if cell.get("cell_type") == "heading":
        level = cell.get("level")
        return f"{'#' * level if level in _LEVELS else '#'} {text}"
    return text
