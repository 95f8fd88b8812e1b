"""How the bytes of a file are read; HTML pages, PDFs and notebooks; and files made to do harm."""

import codecs
import importlib.util
import json
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.corpus import texts
from freshstack_dspy.corpus.sources import Skip
from freshstack_dspy.corpus.texts import detect, notebook_text

from .exactness import chunks_of
from .read_corpus import files, read, reasons

RUSSIAN = "Годичные кольца дерева показывают, сколько лет оно росло и какими были эти годы. " * 3
JAPANESE = (
    "年輪を見ると、その木が何年のあいだ育ったのか、そしてどんな年だったのかがわかります。" * 3
)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ("café".encode(), "utf-8"),
        (codecs.BOM_UTF8 + b"x", "utf-8"),
        ("é".encode("utf-16"), "utf-16-le"),
        ("é".encode("utf-32"), "utf-32-le"),
        ("# by José Müller\n".encode("latin-1"), "cp1252"),
        (RUSSIAN.encode("cp1251"), "cp1251"),
        (RUSSIAN.encode("koi8-r"), "koi8-r"),
        (JAPANESE.encode("cp932"), "cp932"),
        (JAPANESE.encode("euc_jp"), "euc_jp"),
        ("# -*- coding: koi8-r -*-\n# Да".encode("koi8-r"), "koi8-r"),
        ('<?xml version="1.0" encoding="iso-8859-2"?><a>ľš</a>'.encode("iso8859-2"), "iso8859-2"),
        (b"\x1b[31mred\x1b[0m", "utf-8"),
    ],
)
def test_an_encoding_is_told(data: bytes, name: str) -> None:
    found = detect(data)

    assert isinstance(found, str)
    assert codecs.lookup(found) == codecs.lookup(name)


@pytest.mark.parametrize(
    ("data", "kind", "reason"),
    [
        (b"a\0b", "binary", "binary (a NUL at byte 1)"),
        (b"\x01\x02\x03abc", "binary", "binary (control characters)"),
        (b"\x89PNG\r\n\x1a\n\x01\x02\xff", "binary", "binary (control characters)"),
        (b"\xe9\xf1\xfa", "undecodable", "not UTF-8; byte 0 is 0xe9"),
        ("Да".encode("cp1251"), "undecodable", "not UTF-8; byte 0 is 0xc4"),
        (b"\xff\xfea", "undecodable", "has the byte order mark of utf-16-le only"),
        (codecs.BOM_UTF8 + b"\xff", "undecodable", "has the byte order mark of utf-8 only"),
    ],
)
def test_what_cannot_be_told_is_not_guessed(data: bytes, kind: str, reason: str) -> None:
    found = detect(data)

    assert isinstance(found, Skip)
    assert found.kind == kind
    assert found.reason.startswith(reason)


# Offsets are of the bytes of the file

SAMPLES = {
    "ascii": "plain text",
    "utf-8": "\ufeffäöü 中文 👍",
    "utf-16-le": "äöü 中文 👍",
    "utf-16-be": "\ufeffäöü 中文 👍",
    "utf-32-le": "\ufeffäöü 中文 👍",
    "cp1252": "Größe €",
    "latin-1": "Größe\x85",
    "koi8-r": "размер",
    "cp932": "日本語の文字。①",
    "euc_jp": "日本語の文字。",
    "gb18030": "中文字。€👍äé",
    "big5": "中文字。",
    "cp949": "한국어 똠",
}


@given(st.sampled_from(sorted(SAMPLES)), st.data(), st.integers(16, 30))
def test_any_mixture_is_cut_between_its_characters(
    encoding: str, data: st.DataObject, most: int
) -> None:
    units = st.sampled_from([*SAMPLES[encoding].split(" "), " ", "\n", "a", "\n\n", ". "])
    text = "".join(data.draw(st.lists(units, max_size=40)))

    chunks_of("a.txt", text, most, encoding)


# Pages and PDFs

PAGE = b"""<!DOCTYPE html><html><head><title>Rings</title><script>x()</script></head><body>
<nav><a href="/">Home</a></nav><main><p>Call <code>read_rings()</code>.</p>
<pre>def f(x):
    if x:

        return x &lt; 3
</pre></main><footer>(c)</footer></body></html>"""


def pdf(content: bytes, more: bytes = b"") -> bytes:
    """The smallest PDF with one page."""
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R 3 0 R]/Count 2>>",
        (
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 300]/Contents 4 0 R"
            b"/Resources<</Font<</F 5 0 R>>>>>>"
        ),
        b"<<" + more + b"/Length %d>>stream\n" % len(content) + content + b"\nendstream",
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    data, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        places.append(len(data))
        data += b"%d 0 obj\n" % number + body + b"\nendobj\n"
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return (
        data + b"xref\n0 6\n0000000000 65535 f \n" + table
        + b"trailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % len(data)
    )  # fmt: skip


needs_pypdf = pytest.mark.skipif(
    importlib.util.find_spec("pypdf") is None, reason="the extra pages is not installed"
)
TEXT = b"BT /F 12 Tf 10 100 Td (Rings of oak) Tj ET"


def test_html_is_source_code_unless_pages_are_wanted(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_bytes(PAGE)
    text = (
        "# Rings\n\nCall `read_rings()`.\n\n```\ndef f(x):\n    if x:\n\n        return x < 3\n```"
    )

    assert files(read(tmp_path)) == {"a.html": PAGE}
    assert files(read(tmp_path, pages=True)) == {"a.html": text.encode()}


@needs_pypdf
def test_a_pdf_is_its_text_page_by_page(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf(TEXT))

    assert files(read(tmp_path)) == {"a.pdf": b"Rings of oak\n\n\fRings of oak\n\n\f"}


@pytest.mark.slow
@needs_pypdf
def test_a_pdf_is_read_where_the_shell_allows_less_memory() -> None:
    program = Path(texts.__file__).with_name("pdf_program.py")
    limited = f"ulimit -v 1500000; exec '{sys.executable}' '{program}' 1000 10"

    done = subprocess.run(["bash", "-c", limited], input=pdf(TEXT), capture_output=True, check=True)

    assert "Rings of oak" in json.loads(done.stdout)["text"]


@needs_pypdf
def test_hostile_pdfs_are_skipped_with_the_reason(tmp_path: Path) -> None:
    bomb = zlib.compress(zlib.compress(bytes(1 << 28), 9), 9)
    hostile = {
        "bomb": pdf(bomb, b"/Filter[/FlateDecode/FlateDecode]"),
        "deep": b"%PDF-1.4\n" + b"[" * 100_000,
        "empty": pdf(b""),
        "long": pdf(TEXT * 100),
        "text": b"no PDF at all",
    }
    for name, data in hostile.items():
        (tmp_path / f"{name}.pdf").write_bytes(data)

    found = reasons(read(tmp_path, limit=1000))

    assert set(found) == {f"{name}.pdf" for name in hostile}
    assert found["long.pdf"] == "a PDF with more than 1,000 characters of text"
    assert found["text.pdf"].startswith("a damaged PDF (")


# Notebooks


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
