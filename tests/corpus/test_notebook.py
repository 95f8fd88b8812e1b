"""Notebooks are read as Markdown: what people wrote, cell after cell."""

import json
from typing import Any

import pytest

from freshstack_dspy.corpus.notebook import notebook_text
from freshstack_dspy.corpus.tree import Skip


def cell(kind: str, source: str | list[str], **more: Any) -> dict[str, Any]:
    return {"cell_type": kind, "metadata": {}, "source": source, **more}


def notebook(*cells: dict[str, Any], language: str = "python") -> bytes:
    metadata = {"kernelspec": {"language": language}}
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4}).encode()


def test_cells_are_an_empty_line_apart_and_code_is_fenced() -> None:
    data = notebook(
        cell("markdown", ["# Größe\n", "How large it is.\n"]),
        cell("code", "len(a)", outputs=[{"text": "3"}]),
        cell("markdown", "  "),
        cell("raw", "at last", attachments={"a.png": {"image/png": "AAAA"}}),
    )

    assert notebook_text(data) == ("# Größe\nHow large it is.\n\n```python\nlen(a)\n```\n\nat last")


def test_a_fence_is_longer_than_those_in_the_code() -> None:
    assert notebook_text(notebook(cell("code", "x = '```'"), language="R")) == (
        "````R\nx = '```'\n````"
    )


def test_nbformat_3_has_worksheets_and_headings() -> None:
    cells = [
        {"cell_type": "heading", "level": 2, "source": ["Head"]},
        {"cell_type": "code", "language": "julia", "input": ["x = 1\n", "y"]},
    ]
    data = json.dumps({"worksheets": [{"cells": cells}], "nbformat": 3}).encode()

    assert notebook_text(data) == "## Head\n\n```julia\nx = 1\ny\n```"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32-be"])
def test_its_encoding_is_that_of_json(encoding: str) -> None:
    data = notebook(cell("markdown", "Größe")).decode().encode(encoding)

    assert notebook_text(data) == "Größe"


@pytest.mark.parametrize("data", [b"[]", b"{}", b"[" * 100_000, b'{"cells": [1]}', b"no json"])
def test_what_is_no_notebook_is_skipped(data: bytes) -> None:
    assert isinstance(notebook_text(data), Skip)
