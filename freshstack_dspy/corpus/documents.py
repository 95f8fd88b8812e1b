"""Documents in a JSON Lines file, one to a line: in BEIR's form, or with a path or id of their own.

A document is a file whose path is its id and whose bytes are `document_bytes(title, text)`; so
the offsets of its chunks lead back into the line.
"""

import hashlib
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import lxml.etree
import lxml.html
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from freshstack_dspy.corpus.tree import Entry, Skip, Wanted, named_entry
from freshstack_dspy.errors import SourceError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.html import html_to_markdown

_BOM = b"\xef\xbb\xbf"
_LONGEST_LINE = 64 << 20


class _Document(BaseModel):
    """What is read of a line; its other fields are passed over."""

    model_config = ConfigDict(extra="ignore", strict=True)
    path: Annotated[str, Field(min_length=1, validation_alias=AliasChoices("path", "id", "_id"))]
    title: str | None = None
    text: str


def document_bytes(title: str | None, text: str) -> bytes:
    """Give the bytes that a document's chunks count in: its title, an empty line, its text."""
    title = (title or "").strip()
    return (f"{title}\n\n{text}" if title else text).encode()


class JsonDocuments:
    """The documents of a file."""

    revision: str | None = None
    of_files = False

    def __init__(self, path: Path) -> None:
        """Open the file.

        Raises:
            SourceError: It cannot be read.
        """
        self._path = path
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise SourceError(f"{path}: cannot be read: {error.strerror}") from None

    def entries(self) -> Iterator[Entry]:
        """List the documents; their texts are read again when they are asked for."""
        line_of: dict[str, int] = {}
        for number, start, line in self._lines():
            place = f"{self._path}:{number}"
            document = _parsed(line, place)
            first = line_of.setdefault(document.path, number)
            if first != number:
                raise SourceError(
                    f"{place}: the document {document.path!r} is already on line {first}; "
                    "each needs an id of its own"
                )
            size = len(document_bytes(document.title, document.text))
            yield named_entry(document.path.encode(), size, key=f"{start} {len(line)}")

    def contents(self, wanted: Sequence[Wanted]) -> Iterator[bytes | Skip]:
        """Read the documents."""
        for entry, most in wanted:
            start, length = map(int, entry.key.split())
            self._file.seek(start)
            document = _parsed(self._file.read(length), f"{self._path}: {entry.path}")
            yield document_bytes(document.title, document.text)[:most]

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _lines(self) -> Iterator[tuple[int, int, bytes]]:
        """Give number, place in bytes and text of every line that is not blank."""
        number = start = 0
        while line := self._file.readline(_LONGEST_LINE):
            number += 1
            if len(line) == _LONGEST_LINE:
                raise SourceError(
                    f"{self._path}:{number}: longer than {_LONGEST_LINE >> 20} MiB; "
                    "this is no file of JSON Lines"
                )
            mark = len(_BOM) if number == 1 and line.startswith(_BOM) else 0
            if line[mark:].strip():
                yield number, start + mark, line[mark:]
            start += len(line)


def _parsed(line: bytes, place: str) -> _Document:
    try:
        return _Document.model_validate_json(line)
    except ValidationError as error:
        raise SourceError(
            f"{place}: {first_fault(error)}; a document is "
            '{"id": "…", "title": "…", "text": "…"} on one line, in UTF-8'
        ) from None


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

    Args:
        html: A whole page, or a part of one. Nothing that it names is loaded.
    """
    parser = lxml.html.HTMLParser(remove_comments=True, remove_pis=True, no_network=True)
    without_declaration = re.sub(r"\A\s*<\?xml[^>]*\?>", "", html)
    if not without_declaration.strip():
        return ""
    try:
        root = lxml.html.document_fromstring(
            without_declaration, parser=parser, ensure_head_body=True
        )
    except lxml.etree.ParserError:  # nothing in it but comments
        return ""
    title = " ".join((root.findtext(".//title") or "").split())
    for element in root.xpath(_AROUND):
        if element.getparent() is not None:
            element.drop_tree()
    main = next(found for path in _MAIN if (found := root.xpath(path)))[0]
    markup: Any = lxml.html.tostring(main, encoding="unicode", with_tail=False)
    text = html_to_markdown(markup)
    if title and not main.xpath(".//h1"):
        return f"# {title}\n\n{text}".strip()
    return text


_SECONDS = 120
_READ: dict[tuple[bytes, int], str | Skip] = {}
"""What this process has read: a build reads its corpora twice, and each PDF takes a second."""
_PROGRAM = Path(__file__).with_name("pdf_program.py")


def pdf_text(data: bytes, most: int) -> str | Skip:
    """Give the text of a PDF; each page ends with an empty line and a form feed.

    Args:
        data: All of the file.
        most: Characters; a longer text is refused.

    Returns:
        The text, or why there is none: encrypted, damaged, too large, no text in it, or the
        extra `pages` is not installed.
    """
    if importlib.util.find_spec("pypdf") is None:
        return _unreadable("a PDF; to read it: pip install 'freshstack_dspy[pages]'")
    known = (hashlib.sha256(data).digest(), most)
    if known not in _READ:
        _READ[known] = _extracted(data, most)
    return _READ[known]


def _extracted(data: bytes, most: int) -> str | Skip:
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as found:
        given.write(data)
        given.seek(0)
        command = [sys.executable, "-P", "-W", "ignore", str(_PROGRAM), str(most), str(_SECONDS)]
        try:
            done = subprocess.run(  # noqa: S603 - no shell, and words of our own
                command,
                stdin=given,
                stdout=found,
                stderr=subprocess.DEVNULL,
                timeout=2 * _SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return _unreadable(f"a PDF that takes more than {_SECONDS} seconds")
        found.seek(0)
        try:
            answer = json.loads(found.read())
        except ValueError:
            return _unreadable(f"a PDF that takes too much memory or time (exit {done.returncode})")
    if "reason" in answer:
        return _unreadable(str(answer["reason"]))
    return str(answer["text"])


def _unreadable(reason: str) -> Skip:
    return Skip("unreadable", reason)
