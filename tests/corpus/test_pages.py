"""Documents in JSON Lines, HTML pages and PDFs; and files that are made to do harm."""

import importlib.util
import json
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from freshstack_dspy.corpus import pages
from freshstack_dspy.corpus.json_lines import document_bytes
from freshstack_dspy.errors import SourceError

from .read_corpus import files, kinds, read, reasons


def lines(folder: Path, *texts: str, mark: bytes = b"") -> Path:
    path = folder / "corpus.jsonl"
    path.write_bytes(mark + "\n".join(texts).encode())
    return path


def test_each_line_is_a_document(tmp_path: Path) -> None:
    path = lines(
        tmp_path,
        '{"_id": "b", "title": "Rings", "text": "é one", "metadata": {"url": "x"}}',
        "",
        '{"id": "LICENSE", "text": "two"}',
        '{"path": "vendor/c.csv", "title": " ", "text": "three"}',
        '{"id": "blank", "text": " "}',
        '{"id": 802, "text": "four"}',
        '{"id": "line\\nbreak", "text": "x"}',
        mark=b"\xef\xbb\xbf",
    )

    found = read(path, exclude=("nothing",))

    assert files(found) == {
        "802": b"four",
        "LICENSE": b"two",
        "b": "Rings\n\né one".encode(),
        "vendor/c.csv": b"three",
    }
    assert kinds(found) == {"blank": "empty", "line\\nbreak": "unreadable"}
    assert document_bytes("Rings", "é one") == files(found)["b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "a document is"),
        ('{"id": true, "text": "x"}', "id: Input should be a valid string"),
        ('{"id": "x", "text": "again"}', "the document 'x' is already at"),
    ],
)
def test_a_line_that_is_no_document_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = lines(tmp_path, '{"id": "x", "text": "x"}', text)

    with pytest.raises(SourceError) as error:
        read(path)

    assert str(error.value).startswith(f"{path}:2: ")
    assert message in str(error.value)


# Pages

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
    program = Path(pages.__file__).with_name("pdf_program.py")
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
