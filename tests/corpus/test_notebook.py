"""Notebooks are cut cell by cell; offsets are of the file, and lead back to the cell."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.records import Chunk
from tests.corpus.exactness import chunks_of

WORDS = "one two three four five six seven eight nine ten"
PYTHON = {"kernelspec": {"language": "python", "name": "python3"}}


def cell(kind: str, source: str | list[str], **more: Any) -> dict[str, Any]:
    return {"cell_type": kind, "metadata": {}, "source": source, **more}


def notebook(*cells: dict[str, Any], **settings: Any) -> bytes:
    content = {"cells": cells, "metadata": PYTHON, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, **settings).encode()


def cut(data: bytes, max_tokens: int = 32) -> list[Chunk]:
    return chunks_of("a.ipynb", data, max_tokens, "ipynb")


SOURCES = st.one_of(
    st.text(max_size=40),
    st.lists(st.sampled_from(["é", "👍", "\\", '"', "\n", "中文", "def f():\n", "# A\n", f"{WORDS}. "]))
    .map("".join),
)  # fmt: skip
CELLS = st.lists(st.tuples(st.sampled_from(["code", "markdown", "raw"]), SOURCES, st.booleans()))


@given(CELLS, st.booleans(), st.sampled_from([None, 1]), st.integers(16, 40), st.sampled_from(
    ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32-be"]
))  # fmt: skip
def test_the_chunks_of_any_notebook_make_up_its_source(
    cells: list[tuple[str, str, bool]], ascii_only: bool, indent: int | None, most: int, coding: str
) -> None:
    made = [
        cell(kind, text.splitlines(keepends=True) if in_lines else text, outputs=[{"text": "no"}])
        for kind, text, in_lines in cells
    ]
    data = notebook(*made, ensure_ascii=ascii_only, indent=indent).decode().encode(coding)

    chunks = cut(data, most)

    expected = "\n\n".join(text for _, text, _ in cells if text.strip())
    assert "".join(chunk.text for chunk in chunks) == expected
    assert {chunk.encoding for chunk in chunks} <= {"ipynb"}


def test_a_heading_stays_with_the_cell_below_it() -> None:
    code = f"x = '{WORDS} {WORDS}'"
    data = notebook(*(cell(*one) for one in [("markdown", "## Head\n"), ("code", code)] * 3))

    assert [chunk.text.rstrip() for chunk in cut(data)] == [f"## Head\n\n\n{code}"] * 3


def test_outputs_and_attachments_are_left_out() -> None:
    output = {"output_type": "stream", "text": ["secret\n"], "data": {"source": "secret"}}
    data = notebook(
        cell("code", "shown()", outputs=[output], execution_count=1),
        cell("markdown", "shown too", attachments={"a.png": {"image/png": "secret"}}),
    )

    assert [chunk.text for chunk in cut(data)] == ["shown()\n\nshown too"]


def test_nbformat_3_is_read() -> None:
    content = {
        "metadata": {"name": ""},
        "nbformat": 3,
        "worksheets": [
            {
                "cells": [
                    {"cell_type": "heading", "level": 1, "source": ["Head"]},
                    {"cell_type": "code", "input": ["x = 1\n", "y"], "language": "python",
                     "outputs": [{"text": ["no"]}]},
                ]
            },
            {"cells": [{"cell_type": "markdown", "source": "end"}]},
        ],
    }  # fmt: skip

    [chunk] = cut(json.dumps(content).encode())

    assert chunk.text == "Head\n\nx = 1\ny\n\nend"
