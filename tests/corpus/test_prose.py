"""Markdown and reStructuredText are cut at their headings, and then between their blocks."""

import pytest

from freshstack_dspy.corpus.boundaries import Boundary
from freshstack_dspy.corpus.outlines import markdown_outline, rst_outline
from tests.corpus.exactness import chunks_of

WORDS = "one two three four five six seven eight nine ten"


def markdown_headings(text: str) -> list[tuple[str, int]]:
    return headings(text, list(markdown_outline(text.encode())), 6)


def rst_titles(text: str) -> list[tuple[str, int]]:
    return headings(text, list(rst_outline(text.encode())), 49)


def headings(text: str, outline: list[Boundary], lowest: int) -> list[tuple[str, int]]:
    data = text.encode()
    return [
        (data[offset:].decode().split("\n")[0].strip(), level)
        for offset, level in outline
        if 0 < level <= lowest
    ]


def test_headings_of_markdown_have_their_rank() -> None:
    text = "# A\ntext\n\n###### B #\n  ## C\nSetext\n===\n\ntext\n\nSécond\n---\n#no\n####### no\n"

    assert markdown_headings(text) == [
        ("# A", 1), ("###### B #", 6), ("## C", 2), ("Setext", 1), ("Sécond", 2)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "```sh\n# no\n```\n",
        "~~~\n# no\n```\n# no\n~~~\n",
        "````\n```\n# no\n````\n",
        "- item\n\n  ```sh\n# no\n  ```\n",
        "```\n# no, and never closed\n",
        "---\n# no\ntitle: x\n---\n",
        "    # no, indented code\n",
        "text\n\n---\n\n- - -\n",
    ],
)
def test_what_only_looks_like_a_heading_is_none(text: str) -> None:
    assert markdown_headings(text) == []


@pytest.mark.parametrize(
    "text", ["``` inline ``` code\n# A\n", "```\n```\n# A\n", "---\na\n---\n# A\n"]
)
def test_a_heading_after_code_or_front_matter_is_one(text: str) -> None:
    assert markdown_headings(text) == [("# A", 1)]


def test_ranks_of_titles_are_in_order_of_first_use() -> None:
    text = (
        "====\nTop\n====\n\nOne\n===\ntext\n\nÜnder\n-----\n\nTwo\n===\n\n====\nEnd\n====\n"
        "\n----\n\nno\n=\n\nlist\n\n  no\n  --\n"
    )

    assert rst_titles(text) == [
        ("====", 1), ("One", 2), ("Ünder", 3), ("Two", 2), ("====", 1)
    ]  # fmt: skip


def test_sections_of_markdown_are_chunks() -> None:
    sections = [f"# A\n\n{WORDS}.", f"## B\n\n{WORDS}.\n\n{WORDS}.", f"Title\n=====\n\n{WORDS}."]

    chunks = chunks_of("a.md", "\n\n".join(sections), 32)

    assert [chunk.text.rstrip() for chunk in chunks] == sections


def test_sections_of_rst_are_chunks() -> None:
    sections = [
        f"===\nTop\n===\n\n{WORDS}.",
        f"One\n===\n\n{WORDS}::\n\n    {WORDS}",
        f"Two\n===\n\n.. note::\n\n   {WORDS}",
    ]

    chunks = chunks_of("a.rst", "\n\n".join(sections), 36)

    assert [chunk.text.rstrip() for chunk in chunks] == sections


def test_a_heading_is_not_parted_from_its_text() -> None:
    """The first section leaves room for the heading of the second, and for no more."""
    text = f"# A\n\n{WORDS} {WORDS}.\n\n# B\n\n{WORDS} {WORDS}. {WORDS}.\n"

    chunks = chunks_of("a.md", text, 30)

    assert [chunk.text.startswith("# ") for chunk in chunks] == [True, True, False]
    assert "# B" not in chunks[0].text


@pytest.mark.parametrize(
    ("path", "headings"),
    [("a.md", "## B\n\n### C"), ("a.md", "B\n---\n### C"), ("a.rst", "B\n=\n\nC\n-")],
)
def test_headings_in_a_row_are_not_parted(path: str, headings: str) -> None:
    text = f"{WORDS} {WORDS}.\n\n{headings}\n\n{WORDS} {WORDS}. {WORDS}.\n"

    chunks = chunks_of(path, text, 30)

    assert chunks[1].text.startswith(f"{headings.strip()}\n\n{WORDS}")


def test_subsections_stay_together_where_they_fit() -> None:
    text = f"# A\n\n## B\n\n{WORDS}.\n\n## C\n\n{WORDS}.\n\n# D\n\n{WORDS} {WORDS} {WORDS}.\n"

    chunks = chunks_of("a.md", text, 40)

    assert [chunk.text[:3] for chunk in chunks] == ["# A", "# D"]


def test_code_in_markdown_is_cut_only_where_it_is_too_large() -> None:
    block = f"```py\n{WORDS}\n\n{WORDS}\n```"
    text = f"# A\n\n{WORDS}.\n\n{WORDS}.\n\n{block}\n\n{WORDS}.\n"

    chunks = chunks_of("a.md", text, 34)

    assert block in [chunk.text.rstrip() for chunk in chunks]


def test_paragraphs_of_plain_text_are_not_torn() -> None:
    paragraphs = [f"{WORDS}\n{WORDS}." for _ in range(5)]

    chunks = chunks_of("a.txt", "\n\n".join(paragraphs), 32)

    assert [chunk.text.rstrip() for chunk in chunks] == paragraphs


def test_a_long_paragraph_is_cut_between_sentences() -> None:
    sentences = [f"{WORDS} {number}." for number in range(8)]

    chunks = chunks_of("a.txt", " ".join(sentences), 30)

    assert [chunk.text.rstrip() for chunk in chunks] == [
        " ".join(sentences[n : n + 2]) for n in (0, 2, 4, 6)
    ]
