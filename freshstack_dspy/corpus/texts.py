"""What files say: the encoding of a text and its places in the file; HTML pages, PDFs, notebooks.

An encoding that is found decodes the whole file strictly, and any run of whole characters of it
alone; so none shifts between states, and none looks for a byte order mark.
"""

import codecs
import hashlib
import importlib.util
import json
import re
import subprocess
import sys
from array import array
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import lxml.etree
import lxml.html

from freshstack_dspy.corpus.sources import Skip

BOM = "\ufeff"
"""A byte order mark at the beginning of a file is a part of its bytes, and not of its text."""

_MARKS = (  # the longer first: UTF-32's mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_AFTER_MARK = {"utf-8": "utf-8-sig"} | {
    f"utf-{bits}-{order}": f"utf-{bits}" for bits in (16, 32) for order in ("le", "be")
}
"""The codec that takes a byte order mark for what it is."""
_MULTI_BYTE = frozenset("cp932 euc_jp gb18030 big5 cp949".split())
_GUESSED = (
    "cp1252 cp1251 koi8_r cp1253 cp1255 cp1256 cp1250 iso8859_2 cp1254 cp874 cp866 "
    "cp932 euc_jp gb18030 big5 cp949"
).split()
_WESTERN = ("cp1252", "cp1250", "iso8859-1", "iso8859-2", "iso8859-15", "cp1254")
_KNOWN = frozenset(codecs.lookup(name).name for name in (*_GUESSED, *_WESTERN))
_DECLARED = re.compile(rb"(?:coding|charset)[ \t]*[:=][ \t]*[\"']?([-\w.]+)")
_GUESSED_FROM = 20_000
_FEWEST_LETTERS = 20
"""Letters outside of ASCII from which statistics can tell a language."""
_CONTROLS = bytes([*range(0x08), *range(0x0E, 0x1A), *range(0x1C, 0x20), 0x7F])
_MOST_CONTROLS = 0.01
_NOT_WESTERN = re.compile(r"[^\x00-\x7f]{3}|[^\x00-\x7f](?<!\w)")


def detect(data: bytes) -> str | Skip:
    """Tell the encoding of a text.

    By its byte order mark, as UTF-8, by what it declares at its head, or by statistics. A binary
    file is skipped, and one that could be in several encodings: a wrong guess is worse than none.
    """
    for mark, name in _MARKS:
        if data.startswith(mark):
            whole = _decodes(data, name)
            return name if whole else Skip("undecodable", f"has the byte order mark of {name} only")
    nul = data.find(b"\0")
    if nul >= 0:
        return Skip("binary", f"binary (a NUL at byte {nul})")
    if len(data) - len(data.translate(None, _CONTROLS)) > _MOST_CONTROLS * len(data):
        return Skip("binary", "binary (control characters)")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        where = f"byte {error.start} is 0x{data[error.start]:02x}"
        name = _declared(data) or _guessed(data)
        return name or Skip("undecodable", f"not UTF-8; {where}")
    return "utf-8"


def _decodes(data: bytes, name: str) -> bool:
    try:
        data.decode(name)
    except UnicodeDecodeError:
        return False
    return True


def _declared(data: bytes) -> str:
    """Take the encoding that a comment, an XML declaration or a `meta` element names."""
    match = _DECLARED.search(data[:1024])
    try:
        name = codecs.lookup(match[1].decode()).name if match else ""
    except LookupError:
        return ""
    return name if name in _KNOWN and _decodes(data, name) else ""


def _guessed(data: bytes) -> str:
    """Take what all Western encodings read alike, else ask statistics."""
    western = {data.decode(name, "replace") for name in _WESTERN}
    if len(western) == 1 and not _NOT_WESTERN.search(western.pop()):
        return "cp1252"
    if sum(byte >= 0x80 for byte in data) < _FEWEST_LETTERS:
        return ""
    from charset_normalizer import from_bytes

    cut = data[: data.rfind(b"\n", 0, _GUESSED_FROM) + 1] or data[:_GUESSED_FROM]
    best = from_bytes(cut, cp_isolation=[*_GUESSED], enable_fallback=False).best()
    if best is None or not _decodes(data, best.encoding):
        return ""
    sure = best.percent_coherence > 0 or best.encoding in _MULTI_BYTE
    return codecs.lookup(best.encoding).name if sure else ""


class DecodedFile:
    """A file, decoded: its text as UTF-8, without a byte order mark, and the way back."""

    def __init__(self, data: bytes, encoding: str) -> None:
        """Decode a file, whose encoding is `SourceFile.encoding`."""
        text = data.decode(encoding)
        name = codecs.lookup(encoding).name
        self._marked = name in _AFTER_MARK and text.startswith(BOM)
        in_utf8 = name == "utf-8"
        self.utf8 = text.removeprefix(BOM).encode() if self._marked or not in_utf8 else data
        self._starts = None if in_utf8 or self.utf8 == data else _starts(data, encoding)

    def file_offsets(self, offsets: Sequence[int]) -> list[int]:
        """Give the offsets in the file of those in `utf8`, which ascend and part no character."""
        if self._starts is None:
            return [offset + 3 * self._marked for offset in offsets]
        places, number, before = [], int(self._marked), 0
        for offset in offsets:
            number += len(self.utf8[before:offset].decode())
            places.append(self._starts[number])
            before = offset
        return places


def _starts(data: bytes, encoding: str) -> Sequence[int]:
    """Find the offset of each character."""
    if len(data.decode(encoding)) == len(data):
        return range(len(data))
    decoder = codecs.getincrementaldecoder(encoding)()
    starts, begin = array("q"), 0
    for offset in range(len(data)):
        characters = len(decoder.decode(data[offset : offset + 1]))
        if characters:
            starts.extend([begin] * characters)
            begin = offset + 1
    return starts


def chunk_encoding(data: bytes, start: int, encoding: str) -> str:
    """Name the codec that reads a part of a file: at its start, one that knows byte order marks."""
    name = codecs.lookup(encoding).name if start == 0 else ""
    marked = name in _AFTER_MARK and data.startswith(BOM.encode(name))
    return _AFTER_MARK[name] if marked else encoding


# HTML pages

_MAIN = (
    "//main",
    "//*[@role='main']",
    "//article[count(//article)=1]",
    "//*[@id='content' or @id='main-content' or @id='main']",
    "//body",
)
_AROUND = (
    "//nav | //header[not(.//h1)] | //footer | //aside | //form | //script | //style | "
    "//noscript | //template | //head | //*[@role='navigation' or @role='search' or "
    "@role='banner' or @role='contentinfo'] | //a[contains(@class, 'headerlink')] | "
    "//*[@aria-hidden='true'] | //button"
)


def page_text(html: str) -> str:
    """Give the main part of a page as Markdown; its title, where it has no heading of its own.

    Nothing that the page names is loaded.
    """
    parser = lxml.html.HTMLParser(remove_comments=True, remove_pis=True, no_network=True)
    html = re.sub(r"\A\s*<\?xml[^>]*\?>", "", html)
    if not html.strip():
        return ""
    try:
        root = lxml.html.document_fromstring(html, parser=parser, ensure_head_body=True)
    except lxml.etree.ParserError:  # nothing in it but comments
        return ""
    title = " ".join((root.findtext(".//title") or "").split())
    for element in root.xpath(_AROUND):
        if element.getparent() is not None:
            element.drop_tree()
    main = next(elements for path in _MAIN if (elements := root.xpath(path)))[0]
    markup: Any = lxml.html.tostring(main, encoding="unicode", with_tail=False)
    from freshstack_dspy.html_to_markdown import html_to_markdown

    text = html_to_markdown(markup)
    return text if not title or main.xpath(".//h1") else f"# {title}\n\n{text}".strip()


# PDFs

_SECONDS = 120
_PDF_PROGRAM = Path(__file__).with_name("pdf_program.py")


def pdf_text(data: bytes, most: int) -> str | Skip:
    """Give the text of a PDF; each page ends with an empty line and a form feed.

    It is read in a process of its own, with bounds on time, memory and the characters of its text.
    """
    if importlib.util.find_spec("pypdf") is None:
        return Skip("unreadable", "a PDF; to read it: pip install 'freshstack_dspy[pages]'")
    # A build reads its corpora twice, and each PDF takes a second.
    kept = Path(_texts_of_pdfs().name, hashlib.sha256(b"%d " % most + data).hexdigest())
    if not kept.exists():
        kept.write_text(json.dumps(_extracted(data, most)), encoding="utf-8")
    answer = json.loads(kept.read_bytes())
    return Skip("unreadable", answer["reason"]) if "reason" in answer else str(answer["text"])


@cache
def _texts_of_pdfs() -> TemporaryDirectory[str]:
    """Where the texts of PDFs are kept until this process ends."""
    return TemporaryDirectory(prefix="freshstack-pdf-")


def _extracted(data: bytes, most: int) -> dict[str, str]:
    command = [sys.executable, "-P", "-W", "ignore", str(_PDF_PROGRAM), str(most), str(_SECONDS)]
    try:
        done = subprocess.run(  # noqa: S603 - no shell, and words of our own
            command, input=data, capture_output=True, timeout=2 * _SECONDS, check=False
        )
        answer: dict[str, str] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {"reason": f"a PDF that takes more than {_SECONDS} seconds"}
    except ValueError:
        return {"reason": "a PDF that takes too much memory or time"}
    return answer


# Jupyter notebooks


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
        texts = [_cell_text(cell, str(language)) for holder in holders for cell in holder["cells"]]
    except KeyError:
        return Skip("unreadable", "no notebook: it has no list of cells")
    except (ValueError, RecursionError, AttributeError, TypeError) as error:
        return Skip("unreadable", f"no notebook: {error}")
    text = "\n\n".join(filter(None, texts))
    return text.encode("utf-8", "replace").decode()  # a lone surrogate is no text


def _cell_text(cell: dict[str, Any], language: str) -> str:
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
        return f"{'#' * level if level in (1, 2, 3, 4, 5, 6) else '#'} {text}"
    return text
