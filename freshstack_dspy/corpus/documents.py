"""Documents that are no plain files: lines of JSON, HTML pages, PDFs.

A line of JSON, in BEIR's form or with a path or id, is a file whose path is its id and whose
bytes are `document_bytes(title, text)`; so the offsets of its chunks lead back into the line.
"""

import hashlib
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Annotated, Any

import lxml.etree
import lxml.html
from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from freshstack_dspy.corpus.tree import FileTree, Skip, TreeEntry, named_entry
from freshstack_dspy.errors import SourceError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.files import read_lines
from freshstack_dspy.html import html_to_markdown
from freshstack_dspy.rows import given_rows

_SECONDS = 120
_PDF_PROGRAM = Path(__file__).with_name("pdf_program.py")


class _Document(BaseModel):
    """What is read of a line; its other fields are passed over."""

    model_config = ConfigDict(extra="ignore", strict=True)
    path: Annotated[
        str,
        Field(min_length=1, validation_alias=AliasChoices("path", "id", "_id")),
        BeforeValidator(lambda value: str(value) if type(value) is int else value),
    ]
    title: str | None = None
    text: str


def document_bytes(title: str | None, text: str) -> bytes:
    """Give the bytes that a document's chunks count in: its title, an empty line, its text."""
    title = (title or "").strip()
    return (f"{title}\n\n{text}" if title else text).encode()


class Documents(FileTree):
    """The documents of a file of JSON Lines, or of rows in memory."""

    of_files = False

    def __init__(self, given: Path | Sequence[dict[str, Any]]) -> None:
        self._given = given
        self._texts = TemporaryFile()  # noqa: SIM115 - open until `close`
        """Of all documents, one after the other: the keys of entries are their places in it."""

    def entries(self) -> Iterator[TreeEntry]:
        """List the documents."""
        place_of: dict[str, str] = {}
        for place, document in self._documents():
            first = place_of.setdefault(document.path, place)
            if first != place:
                raise SourceError(
                    f"{place}: the document {document.path!r} is already at {first}; each needs "
                    "an id of its own"
                )
            data = document_bytes(document.title, document.text)
            yield named_entry(document.path, len(data), key=self._texts.tell())
            self._texts.write(data)

    def read(self, entry: TreeEntry, most: int) -> bytes | Skip:
        """Give the bytes of a document."""
        self._texts.seek(entry.key)
        return self._texts.read(min(entry.size, most))

    def close(self) -> None:
        """Let go of the texts."""
        self._texts.close()

    def _documents(self) -> Iterator[tuple[str, _Document]]:
        if isinstance(self._given, Path):
            for number, line in read_lines(self._given):
                if line.strip():
                    place = f"{self._given}:{number}"
                    yield place, _parsed(_Document.model_validate_json, line, place)
            return
        for row in given_rows(self._given, "documents"):
            yield row.place, _parsed(_Document.model_validate, row.values, row.place)


def _parsed(parse: Callable[[Any], _Document], given: Any, place: str) -> _Document:
    try:
        return parse(given)
    except ValidationError as error:
        raise SourceError(
            f"{place}: {first_fault(error)}; a document is "
            '{"id": "…", "title": "…", "text": "…"}; in a file, on one line, in UTF-8'
        ) from None


# Pages


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


def pdf_text(data: bytes, most: int) -> str | Skip:
    """Give the text of a PDF; each page ends with an empty line and a form feed.

    It is read in a process of its own, with bounds on time, memory and the characters of its text.
    """
    if importlib.util.find_spec("pypdf") is None:
        return _unreadable("a PDF; to read it: pip install 'freshstack_dspy[pages]'")
    # A build reads its corpora twice, and each PDF takes a second.
    kept = Path(_texts_of_pdfs().name, hashlib.sha256(b"%d " % most + data).hexdigest())
    if not kept.exists():
        kept.write_text(json.dumps(_extracted(data, most)), encoding="utf-8")
    answer = json.loads(kept.read_bytes())
    return _unreadable(answer["reason"]) if "reason" in answer else str(answer["text"])


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


def _unreadable(reason: str) -> Skip:
    return Skip("unreadable", reason)
