"""The outlines of AsciiDoc, Org and LaTeX: their headings."""

import re
from collections.abc import Iterator

from freshstack_dspy.chunking.boundaries import Boundary

_ASCIIDOC = re.compile(
    rb"^(?P<fence>-{4,}|\.{4,}|/{4,}|\+{4,})[ \t]*\r?$|^(?P<mark>={1,6})[ \t]+\S", re.MULTILINE
)
_ORG = re.compile(rb"^(?P<mark>\*{1,9})[ \t]+\S", re.MULTILINE)
_LATEX = re.compile(
    rb"^[ \t]*\\(?P<rank>part|chapter|section|subsection|subsubsection|paragraph)\b\*?[\[{]",
    re.MULTILINE,
)
_RANKS = (b"part", b"chapter", b"section", b"subsection", b"subsubsection", b"paragraph")


def asciidoc_outline(data: bytes) -> Iterator[Boundary]:
    """Give the headings of AsciiDoc by rank; none in a listing, literal or comment block."""
    fence = b""
    for found in _ASCIIDOC.finditer(data):
        if found["fence"]:
            if not fence:
                fence = found["fence"]
            elif fence == found["fence"]:
                fence = b""
        elif not fence:
            yield Boundary(found.start(), len(found["mark"]))


def org_outline(data: bytes) -> Iterator[Boundary]:
    """Give the headings of Org by rank."""
    for found in _ORG.finditer(data):
        yield Boundary(found.start(), len(found["mark"]))


def latex_outline(data: bytes) -> Iterator[Boundary]:
    """Give the sections of LaTeX by rank."""
    for found in _LATEX.finditer(data):
        yield Boundary(found.start(), _RANKS.index(found["rank"]) + 1)
