"""The headings above a place in a text."""

from pathlib import Path

import pytest

from freshstack_dspy import HybridIndex
from freshstack_dspy.corpus.chunks import chunk_file
from freshstack_dspy.corpus.outlines import file_kind, outline_of, trails
from freshstack_dspy.records import SourceFile

MARKDOWN = """# Guide

Text.

## Install ##

On Linux.

```
# no heading
```

Usage
-----

At last.

## Terms

End.
"""
PYTHON = '''"""A module."""


class Size:
    """How large."""

    def of(self, a):
        return call(name=len(a))


def other():
    pass
'''
C = "static int *size_of(int a)\n{\n    int b;\n    return b;\n}\n"
RUST = "impl Size {\n    fn of(&self) -> u8 {\n        1\n    }\n}\n"


@pytest.mark.parametrize(
    ("path", "text", "at", "expected"),
    [
        ("a.md", MARKDOWN, "Text.", ("Guide",)),
        ("a.md", MARKDOWN, "## Install", ("Guide",)),
        ("a.md", MARKDOWN, "On Linux", ("Guide", "Install")),
        ("a.md", MARKDOWN, "At last", ("Guide", "Usage")),
        ("a.md", MARKDOWN, "## Terms", ("Guide",)),
        ("a.rst", "Guide\n=====\n\nText.\n\nUse\n---\n\nHere.\n", "Here", ("Guide", "Use")),
        ("a.adoc", "= Guide\n\n== Use\n\nHere.\n", "Here", ("Guide", "Use")),
        ("a.org", "* Guide\n** Use\nHere.\n", "Here", ("Guide", "Use")),
        ("a.tex", "\\section{Size}\nText.\n", "Text", ("Size",)),
        ("a.py", PYTHON, "return call", ("Size", "of")),
        ("a.py", PYTHON, "len(a)", ("Size", "of")),
        ("a.py", PYTHON, "    def of", ("Size",)),
        ("a.py", PYTHON, "def other", ()),
        ("a.java", "class Size {\n  int of() {\n    return 1;\n  }\n}\n", "return", ("Size", "of")),
        ("a.js", "const size = (a) => {\n  return a;\n};\n", "return", ("size",)),
        ("a.c", C, "return", ("size_of",)),
        ("a.rs", RUST, "1\n", ("Size", "of")),
        ("a.txt", "# no\n\nmarks here\n", "marks", ()),
    ],
)
def test_a_place_is_below_the_headings_before_it(
    path: str, text: str, at: str, expected: tuple[str, ...]
) -> None:
    kind, data = file_kind(path), text.encode()
    outline = outline_of(kind, data, lambda _start, _end: False)

    assert trails(kind, data, outline, [data.index(at.encode())]) == [expected]


def test_each_chunk_has_the_headings_above_its_first_byte() -> None:
    body = "".join(f"    def method_{n}(self):\n        return {n}\n\n" for n in range(20))

    first, *rest = chunk_file(SourceFile("s", "a.py", b"class Size:\n" + body.encode()), 64)

    assert first.headings == ()
    assert {chunk.headings for chunk in rest} == {("Size",)}
    assert "class Size" not in rest[0].text


def test_an_index_finds_chunks_by_their_headings_and_gives_them_back(tmp_path: Path) -> None:
    text = b"# Crossdating\n\n" + b"Look for the best place.\n" * 20
    chunks = chunk_file(SourceFile("s", "a.md", text), 64)

    index = HybridIndex.build(tmp_path, "x", chunks, dimensions=0)

    (found,) = index.search("bm25", ["crossdating"], 10)
    assert {one.chunk_id for one in found} == {chunk.chunk_id for chunk in chunks}
    assert len(chunks) > 1
    assert sorted(index.chunks(), key=lambda chunk: chunk.start_byte) == chunks
