"""What is in a file: its bytes, how they are read, and their text; or why it is of no use."""

from typing import NamedTuple

from freshstack_dspy.sources.documents.encodings import detect
from freshstack_dspy.sources.documents.notebooks import notebook_text
from freshstack_dspy.sources.documents.pages import page_text
from freshstack_dspy.sources.documents.pdf import pdf_text
from freshstack_dspy.sources.documents.skips import Skip

_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_WRAPPED = (".pdf", ".ipynb")
_WRAPPING = 20
"""How much larger than its text a PDF or a notebook, with its pictures, may be."""
_PAGES = (".html", ".htm", ".xhtml")


class Readable(NamedTuple):
    """The content of a file that can be indexed."""

    data: bytes
    """The bytes of the file; of a PDF, and of HTML read as a page, its text in UTF-8."""
    encoding: str
    """See `SourceFile.encoding`."""
    text: str


def largest(path: str, max_file_bytes: int) -> int:
    """Give the size in bytes up to which a file is read.

    Of notebooks and PDFs it is the text that may have `max_file_bytes`, for most of such a file
    is pictures.
    """
    return max_file_bytes * _WRAPPING if path.lower().endswith(_WRAPPED) else max_file_bytes


def too_large(size: int, most: int) -> Skip:
    """Say that a file is larger than is read."""
    return Skip("oversized", f"larger than max_file_bytes ({size:,} of {most:,} bytes)")


def understand(path: str, data: bytes, max_file_bytes: int, *, pages: bool) -> Readable | Skip:
    """Tell what is in a file.

    Args:
        path: Its suffix tells PDFs, notebooks and pages.
        data: All of the file.
        max_file_bytes: Of its text.
        pages: Whether HTML is read as pages and not as the source of them.
    """
    if not data:
        return Skip("empty", "empty")
    if data.startswith(_LFS_POINTER):
        return Skip("unreadable", "a Git LFS pointer; fetch the file itself with: git lfs pull")
    found = _content(path.lower(), data, max_file_bytes, pages=pages)
    if isinstance(found, Skip):
        return found
    if not found.text.removeprefix("\ufeff").strip():
        return Skip("empty", "blank")
    if found.encoding == "ipynb":
        size = len(found.text.encode("utf-8", "replace"))
        return too_large(size, max_file_bytes) if size > max_file_bytes else found
    return found


def _content(path: str, data: bytes, max_file_bytes: int, *, pages: bool) -> Readable | Skip:
    if path.endswith(".pdf"):
        return _as_utf8(pdf_text(data, max_file_bytes))
    if path.endswith(".ipynb"):
        text = notebook_text(data)
        return text if isinstance(text, Skip) else Readable(data, "ipynb", text)
    encoding = detect(data, path)
    if isinstance(encoding, Skip):
        return encoding
    text = data.decode(encoding)
    if pages and path.endswith(_PAGES):
        return _as_utf8(page_text(text))
    return Readable(data, encoding, text)


def _as_utf8(text: str | Skip) -> Readable | Skip:
    return text if isinstance(text, Skip) else Readable(text.encode(), "utf-8", text)
