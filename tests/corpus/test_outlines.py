"""Where texts are cut: code between definitions, prose between sections, as their kind has it."""

import itertools
from pathlib import Path
from typing import get_args

import pytest

from freshstack_dspy import HybridIndex
from freshstack_dspy.corpus.chunks import chunk_file
from freshstack_dspy.corpus.outlines import (
    FileKind,
    Language,
    file_kind,
    outline_of,
    syntax_tree,
    trails,
)
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.records import SourceFile
from tests.corpus.exactness import chunks_of

WORDS = "one two three four five six seven eight nine ten"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("src/A.PYI", "python"), ("a.d.ts", "typescript"), ("a.tsx", "tsx"), ("a.h", "cpp"),
        ("README.md", "markdown"), ("a.cs", "c_sharp"), ("views/a.blade.php", "html"),
        ("Rakefile", "ruby"), (".bashrc", "bash"), ("Dockerfile", "text"), ("a.ipynb", "markdown"),
        ("folder.py/Makefile", "text"), ("", "text"),
    ],
)  # fmt: skip
def test_the_kind_follows_the_suffix(path: str, kind: str) -> None:
    assert file_kind(path) == kind


# Code

LONG = " ".join([WORDS] * 4)
DEFINITIONS = {
    "py": [
        f'# About f.\n@decorated\n@twice(1)\ndef f(a):\n    """{LONG}"""\n    return a',
        f'class G(Base):\n    """{LONG}"""\n\n    x = 1',
        f'async def h():\n    return "{LONG}"  # behind code',
    ],
    "ts": [
        f"// {LONG}\nexport interface F {{\n  a: string;\n}}",
        f"@Component({{ a: 1 }})\nexport class G<T> {{\n  m(): T {{ return '{LONG}'; }}\n}}",
        f"export function h<T>(a: T): T {{\n  return x('{LONG}');\n}}",
    ],
    "go": [
        f'// F does.\nfunc F(a int) string {{\n\treturn "{LONG}"\n}}',
        f"// G is.\n// {LONG}\ntype G struct {{\n\tA int\n}}",
        f'func (g *G) H() string {{\n\treturn "{LONG}"\n}}',
    ],
    "rs": [
        f"/// {LONG}\n#[derive(Debug)]\n#[serde(x)]\npub struct F {{\n    a: u8,\n}}",
        f'impl F {{\n    fn g(&self) -> &str {{ "{LONG}" }}\n}}',
        f'#[test]\nfn h() {{\n    f("{LONG}");\n}}',
    ],
    "php": [
        f"<?php\n/** {LONG} */\nfunction f($a)\n{{\n    return $a;\n}}",
        f"#[Attribute]\nclass G extends B\n{{\n    public $a = '{LONG}';\n}}",
    ],
}


def limit_for(definitions: list[str]) -> int:
    """Give the limit that holds each definition, with empty lines, and no two of them."""
    sizes = [count_tokens(f"{text}\r\n\r\n") for text in definitions]
    assert max(sizes) < min(map(sum, itertools.pairwise(sizes)))
    return max(sizes)


@pytest.mark.parametrize("gap", ["\n", "\n\n\n", "\r\n\r\n"])
@pytest.mark.parametrize("suffix", DEFINITIONS)
def test_each_definition_is_a_chunk_with_what_introduces_it(suffix: str, gap: str) -> None:
    definitions = DEFINITIONS[suffix]
    if "\r" in gap:
        definitions = [text.replace("\n", "\r\n") for text in definitions]

    chunks = chunks_of(f"a.{suffix}", gap.join(definitions) + "\n", limit_for(definitions))

    assert [chunk.text.rstrip() for chunk in chunks] == definitions


def test_a_class_that_is_too_large_is_cut_between_its_methods() -> None:
    methods = [f'    @x\n    def m{n}(self):\n        return """\n\n{WORDS}\n"""' for n in range(3)]
    head = f'class A:\n    """{WORDS}."""'

    chunks = chunks_of("a.py", "\n\n".join([head, *methods]), 40)

    assert [chunk.text.rstrip() for chunk in chunks] == [head, *methods]


@pytest.mark.parametrize("broken", ["def f(:\n", "}}}}", "<<<<<<< HEAD\n", '"""'])
@pytest.mark.parametrize("suffix", DEFINITIONS)
def test_broken_code_is_cut_as_well(suffix: str, broken: str) -> None:
    text = f"{broken}\n\n".join(DEFINITIONS[suffix] * 3)

    assert len(chunks_of(f"a.{suffix}", text, 48)) > 3


@pytest.mark.parametrize("language", get_args(Language))
def test_each_grammar_is_there_and_reads_its_file_to_the_end(language: Language) -> None:
    data = b"x = 1;\n" * 5000

    tree = syntax_tree(data, language)

    assert tree is not None
    assert tree.root_node.end_byte == len(data)


@pytest.mark.parametrize(
    "text",
    ["(;\n" * 2000, "([{" * 500 + "\n", "a<\n" * 4000, "x" * 10_001 + "\n", "1,2," * 3000],
    ids=["parentheses", "brackets", "angles", "long word", "long line"],
)
def test_what_nobody_wrote_is_not_parsed(text: str) -> None:
    """Parsed, some of these take gigabytes."""
    assert syntax_tree(text.encode(), "python") is None


@pytest.mark.parametrize(
    ("language", "unit"), [("cpp", "\n /*"), ("go", "->\n"), ("javascript", "new in ?\n")]
)
def test_parsing_that_does_not_come_to_an_end_is_given_up(language: Language, unit: str) -> None:
    """Each of these takes a time that grows with the square of the size, hours for a megabyte."""
    assert syntax_tree((unit * 6_000).encode(), language) is None


# Prose


def headings(text: str, kind: FileKind) -> list[tuple[str, int]]:
    data = text.encode()
    return [
        (data[offset:].decode().split("\n")[0].strip(), level)
        for offset, level in outline_of(kind, data, lambda _start, _end: False)
        if 0 < level < 50
    ]


def test_headings_of_markdown_have_their_rank() -> None:
    text = "# A\ntext\n\n###### B #\n  ## C\nSetext\n===\n\ntext\n\nSécond\n---\n#no\n####### no\n"

    assert headings(text, "markdown") == [
        ("# A", 1), ("###### B #", 6), ("## C", 2), ("Setext", 1), ("Sécond", 2)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "~~~\n# no\n```\n# no\n~~~\n",
        "- item\n\n  ```sh\n# no\n  ```\n",
        "```\n# no, never closed\n",
        "---\n# no\ntitle: x\n---\n",
        "    # no, indented code\n",
        "text\n\n---\n\n- - -\n",
    ],
)
def test_what_only_looks_like_a_heading_is_none(text: str) -> None:
    assert headings(text, "markdown") == []


def test_ranks_of_titles_are_in_order_of_first_use() -> None:
    text = (
        "====\nTop\n====\n\nOne\n===\ntext\n\nÜnder\n-----\n\nTwo\n===\n\n====\nEnd\n====\n"
        "\n----\n\nno\n=\n\nlist\n\n  no\n  --\n"
    )

    assert headings(text, "rst") == [
        ("====", 1), ("One", 2), ("Ünder", 3), ("Two", 2), ("====", 1)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "headings"),
    [("a.md", "## B\n\n### C"), ("a.md", "B\n---\n### C"), ("a.rst", "B\n=\n\nC\n-")],
)
def test_headings_in_a_row_are_not_parted(path: str, headings: str) -> None:
    text = f"{WORDS} {WORDS}.\n\n{headings}\n\n{WORDS} {WORDS}. {WORDS}.\n"

    chunks = chunks_of(path, text, 30)

    assert chunks[1].text.startswith(f"{headings.strip()}\n\n{WORDS}")


def test_a_long_paragraph_is_cut_between_sentences() -> None:
    sentences = [f"{WORDS} {number}." for number in range(8)]

    chunks = chunks_of("a.txt", " ".join(sentences), 30)

    assert [chunk.text.rstrip() for chunk in chunks] == [
        " ".join(sentences[n : n + 2]) for n in (0, 2, 4, 6)
    ]


@pytest.mark.parametrize(
    ("path", "heading"),
    [("a.md", "# {}\n"), ("a.adoc", "== {}"), ("a.org", "* {}"), ("a.tex", "\\section{{{}}}")],
)
def test_sections_are_chunks(path: str, heading: str) -> None:
    sections = [f"{heading.format(name)}\n{WORDS}.\n\n{WORDS}.\n" for name in "ABC"]

    assert [chunk.text for chunk in chunks_of(path, "".join(sections), 36)] == sections


# The headings above a place

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
