"""The headings of AsciiDoc, Org and LaTeX."""

import pytest

from freshstack_dspy.corpus.boundaries import Boundary
from freshstack_dspy.corpus.outlines import asciidoc_outline, latex_outline, org_outline
from tests.corpus.exactness import chunks_of

WORDS = "one two three four five six seven eight nine ten"


def lines(data: bytes, outline: list[Boundary]) -> list[tuple[bytes, int]]:
    return [(data[offset:].split(b"\n")[0], level) for offset, level in outline]


def test_headings_of_asciidoc_have_their_rank() -> None:
    data = b"= Top\n\n== A\n====\nexample\n====\n----\n== no\n----\n==no\n....\n= no\n----\n....\n=== B\n"

    assert lines(data, list(asciidoc_outline(data))) == [(b"= Top", 1), (b"== A", 2), (b"=== B", 3)]


def test_headings_of_org_have_their_rank() -> None:
    data = b"* Top\n** A\n *** no\n*bold* no\n*** B\n"

    assert lines(data, list(org_outline(data))) == [(b"* Top", 1), (b"** A", 2), (b"*** B", 3)]


def test_sections_of_latex_have_their_rank() -> None:
    data = (
        b"\\section{A}\n  \\subsection*{B}\n\\sectionmark{no}\n% \\section{no}\n\\chapter[a]{C}\n"
    )

    assert lines(data, list(latex_outline(data))) == [
        (b"\\section{A}", 3), (b"  \\subsection*{B}", 4), (b"\\chapter[a]{C}", 2)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "heading"), [("a.adoc", "== {}"), ("a.org", "* {}"), ("a.tex", "\\section{{{}}}")]
)
def test_sections_are_chunks(path: str, heading: str) -> None:
    sections = [f"{heading.format(name)}\n{WORDS}.\n\n{WORDS}.\n" for name in "ABC"]

    assert [chunk.text for chunk in chunks_of(path, "".join(sections), 36)] == sections
