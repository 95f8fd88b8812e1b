"""Where a text may be cut, and how good each place is.

The outline of a text (code, Markdown …) gives the places that its grammar knows. `refine` keeps
those that are needed to make pieces small enough, and where they do not suffice adds finer ones:
paragraphs, lines, sentences, words.
"""

import functools
import importlib
import itertools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple, TypeGuard, get_args

import numpy as np
from tree_sitter import Language as Grammar
from tree_sitter import Node, Parser, Tree


class Boundary(NamedTuple):
    """A byte offset before which a text may be cut: the start of a line, or of a word in it."""

    offset: int
    level: int
    """How deep in the text's structure; 0 is best. `JOINED`: no boundary, but the contrary."""


JOINED = -1
"""The level of an offset that may not be cut before: a heading is about what begins there."""
FINER = 1000
"""The levels from here on are those of `_CUTS`; outlines stay below."""
_CUTS = (  # each ends where the next text, or the indentation before it, begins
    re.compile(rb"\n[ \t\r\f\v]*\n(?=\S)"),  # a blank line, and then text that is not indented
    re.compile(rb"\n[ \t\r\f\v]*\n(?:\s*[\r\n])?+"),
    re.compile(rb"[\r\n](?:\s*[\r\n])?+"),
    re.compile(rb"[.!?][\"')\]]*\s+|\xe3\x80\x82|\xef\xbc[\x81\x9f]"),  # and those of Chinese
    re.compile(rb"[\s;,)}\]>]+"),
)


Fits = Callable[[int, int], bool]
"""Whether the bytes from one offset to another are within the limit."""


def refine(outline: Iterable[Boundary], data: bytes, fits: Fits) -> list[Boundary]:
    """Choose the boundaries that cut a text into pieces that fit, coarse ones before fine ones.

    A piece that fits is not cut further, so what belongs together stays together. Pieces may
    be left that do not fit: words, or white space, longer than the limit. There is text between
    any two of the boundaries, before the first and after the last.
    """
    found = sorted(set(outline))
    joined = frozenset(offset for offset, level in found if level == JOINED)
    offsets_at: dict[int, list[int]] = {}
    for offset, level in found:
        if offset not in joined:
            offsets_at.setdefault(level, []).append(offset)
    kept: list[Boundary] = []
    pieces = [(0, len(data))]
    for level in [*sorted(offsets_at), *range(FINER, FINER + len(_CUTS))]:
        smaller: list[tuple[int, int]] = []
        for start, end in pieces:
            if fits(start, end):
                continue
            if level < FINER:
                offsets = offsets_at[level]
                ends = offsets[bisect_right(offsets, start) : bisect_left(offsets, end)]
            else:
                matches = _CUTS[level - FINER].finditer(data, start, end)
                ends = [one.end() for one in matches if one.end() < end]
                ends = [offset for offset in ends if offset not in joined]
            kept.extend(Boundary(offset, level) for offset in ends)
            smaller += zip([start, *ends], [*ends, end], strict=True)
        pieces = smaller
    return _with_text_between(sorted(kept), data)


def _with_text_between(boundaries: list[Boundary], data: bytes) -> list[Boundary]:
    """Drop the boundaries that part white space from the text it belongs to.

    Indentation, and the white space at the beginning, belong to what follows; all else to what
    is before it.
    """
    kept: list[Boundary] = []
    previous = 0
    for boundary in boundaries:
        part = data[previous : boundary.offset]
        if has_text(part):
            kept.append(boundary)
        elif kept and (b"\n" in part or b"\r" in part or data[previous - 1] not in b"\r\n"):
            kept[-1] = Boundary(boundary.offset, min(boundary.level, kept[-1].level))
        else:
            continue
        previous = boundary.offset
    if kept and not has_text(data[previous:]):
        kept.pop()
    return kept


_ASCII_SPACE = b" \t\n\r\x0b\f\x1c\x1d\x1e\x1f"
"""What `str.strip` takes away; `bytes.strip` leaves the separators at the end."""


def has_text(part: bytes) -> bool:
    """Whether a part of a text is more than white space."""
    if part.isascii():
        return bool(part.strip(_ASCII_SPACE))
    return bool(part.decode().strip())


# Kinds of text


Language = Literal[
    "bash", "c", "c_sharp", "cpp", "css", "gdscript", "go", "html", "java", "javascript",
    "kotlin", "lua", "php", "python", "ruby", "rust", "scala", "swift", "tsx", "typescript",
]  # fmt: skip
FileKind = Literal[Language, "markdown", "rst", "asciidoc", "org", "latex", "text"]

_SUFFIXES: dict[FileKind, str] = {
    "bash": "sh bash zsh ksh bats ebuild",
    "c": "c",
    "c_sharp": "cs csx",
    "cpp": "cpp cc cxx c++ h hpp hh hxx h++ ipp tpp cu cuh ino",
    "css": "css",
    "gdscript": "gd",
    "go": "go",
    "html": "html htm xhtml vue svelte blade.php",
    "java": "java",
    "javascript": "js jsx mjs cjs",
    "kotlin": "kt kts",
    "lua": "lua",
    "php": "php phtml php5 php7 php8",
    "python": "py pyi pyw bzl",
    "ruby": "rb rake gemspec ru",
    "rust": "rs",
    "scala": "scala sc sbt",
    "swift": "swift",
    "tsx": "tsx",
    "typescript": "ts mts cts",
    "markdown": "md markdown mdown mkd mdx rmd qmd ipynb",
    "rst": "rst rest",
    "asciidoc": "adoc asciidoc asc",
    "org": "org",
    "latex": "tex ltx sty cls",
}
_NAMES: dict[FileKind, str] = {
    "bash": ".bashrc .bash_profile .profile .zshrc pkgbuild",
    "python": "build workspace sconstruct sconscript wscript",
    "ruby": "gemfile rakefile vagrantfile podfile brewfile guardfile",
}
_KIND_OF_SUFFIX: dict[str, FileKind] = {
    suffix: kind for kind, suffixes in _SUFFIXES.items() for suffix in suffixes.split()
}
_KIND_OF_NAME: dict[str, FileKind] = {
    name: kind for kind, names in _NAMES.items() for name in names.split()
}


def file_kind(path: str) -> FileKind:
    """Tell a file's kind from its path; what is not in the tables is `text`.

    `.h` is read as C++, whose grammar reads C as well; templates are read as the HTML around
    their own marks.
    """
    name = path.rpartition("/")[2].lower()
    if name in _KIND_OF_NAME:
        return _KIND_OF_NAME[name]
    suffixes = name.split(".")[1:]
    for suffix in (".".join(suffixes[-2:]), ".".join(suffixes[-1:])):
        if suffix in _KIND_OF_SUFFIX:
            return _KIND_OF_SUFFIX[suffix]
    return "text"


def is_language(kind: str) -> TypeGuard[Language]:
    """Whether a kind is code, which a grammar reads."""
    return kind in get_args(Language)


# Code


_GRAMMARS: dict[Language, tuple[str, str]] = {
    "php": ("tree_sitter_php", "language_php"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
}
"""The module of a grammar, and its function, where the names do not follow the rule."""
_LONGEST_LINE = 10_000
"""Bytes. Minified code has no line on which a definition begins, so nothing is lost."""
_MOST_OPEN = {b"([{": (b")]}", 1000), b"<": (b">", 3000)}
"""How many brackets may be open at once; `<` may be a comparison, which nothing closes."""
_BLOCK = 1024
_READS_PER_BLOCK, _STEPS_PER_BLOCK = 20, 60
"""Code that people wrote takes about 2 reads and 5 to 25 steps (of 100 operations) for each."""
_ALLOWANCE = 1000


@functools.lru_cache(maxsize=1)  # its outline and its headings are looked for one after the other
def syntax_tree(data: bytes, language: Language) -> Tree | None:
    """Parse source code in UTF-8, also with errors in it.

    None for code that no person wrote, that costs the parser out of all proportion, or whose
    grammar is not installed or fails.
    """
    grammar = _grammar(language)
    if grammar is None or not _looks_written(data):
        return None
    blocks = len(data) // _BLOCK
    reads = steps = 0

    def read(offset: int, _point: object) -> bytes:
        nonlocal reads
        reads += 1
        return data[offset : offset + _BLOCK]

    def give_up(_offset: int, _has_error: bool) -> bool:
        nonlocal steps
        steps += 1
        return (
            reads > _READS_PER_BLOCK * blocks + _ALLOWANCE
            or steps > _STEPS_PER_BLOCK * blocks + _ALLOWANCE
        )

    try:
        return Parser(grammar).parse(read, progress_callback=give_up)
    except ValueError:  # given up, or failed
        return None


@functools.cache
def _grammar(language: Language) -> Grammar | None:
    module, function = _GRAMMARS.get(language, (f"tree_sitter_{language}", "language"))
    try:
        return Grammar(getattr(importlib.import_module(module), function)())
    except (ModuleNotFoundError, ValueError):  # or of a version that the parser does not read
        return None


def _looks_written(data: bytes) -> bool:
    if max(map(len, data.split(b"\n"))) > _LONGEST_LINE:
        return False
    return all(
        _most_open(data, opening, closing) <= most
        for opening, (closing, most) in _MOST_OPEN.items()
        if sum(map(data.count, opening)) > most
    )


def _most_open(data: bytes, opening: bytes, closing: bytes) -> int:
    """Count the brackets that are open at once; those that close nothing count for nothing."""
    change = np.zeros(256, dtype=np.int32)
    change[list(opening)] = 1
    change[list(closing)] = -1
    level = np.cumsum(change[np.frombuffer(data, dtype=np.uint8)])
    lowest = np.minimum(np.minimum.accumulate(level), 0)
    return int((level - lowest).max())


_BELONGS_TO_NEXT = frozenset(
    ["comment", "line_comment", "block_comment", "decorator", "attribute_item"]
)
_BELONGS_TO_PARENT = ("block", "body", "list", "compound_statement", "parameters")
"""Ends of the names of nodes that continue what is before them."""
_FARTHEST_COMMENT = 3
"""Lines, from the end of a comment to what it is about: up to two blank ones between."""
_DEEPEST = 100
"""Levels below count as one."""
_FARTHEST_INDENT = 400
"""Bytes. A node that begins farther to the right is inside of a line."""


def code_outline(data: bytes, language: Language, fits: Fits) -> Iterator[Boundary]:
    """Give the line on which each definition or statement begins, by depth in the syntax tree.

    Comments, decorators and attributes above a definition belong to it, and a definition's head
    to the first line of its body. Only nodes that do not fit are entered. Broken code has an
    outline as well.
    """
    tree = syntax_tree(data, language)
    pending = [(tree.root_node, 0)] if tree else []
    while pending:
        node, depth = pending.pop()
        children = node.named_children
        deeper = min(depth + 1, _DEEPEST)
        pending += [(one, deeper) for one in children if not fits(one.start_byte, one.end_byte)]
        for before, child in itertools.pairwise(children):
            line = _line_start(data, child)
            if line is not None and not _belongs_together(data, before, child):
                yield Boundary(line, depth)


def _belongs_together(data: bytes, before: Node, node: Node) -> bool:
    if node.type.endswith(_BELONGS_TO_PARENT):
        return True
    rows_apart = node.start_point.row - before.end_point.row
    return (
        before.type in _BELONGS_TO_NEXT
        and rows_apart <= _FARTHEST_COMMENT
        and _line_start(data, before) is not None  # a comment behind code is about that code
    )


def _line_start(data: bytes, node: Node) -> int | None:
    """Give the start of a node's line, if nothing but white space is before the node on it."""
    column = node.start_point.column
    start = node.start_byte - column
    if column > _FARTHEST_INDENT or data[start : node.start_byte].strip():
        return None
    return start


# Prose


_ASCIIDOC = re.compile(
    rb"^(?P<fence>-{4,}|\.{4,}|/{4,}|\+{4,})[ \t]*\r?$|^(?P<mark>={1,6})[ \t]+\S", re.MULTILINE
)
_ORG = re.compile(rb"^(\*{1,9})[ \t]+\S", re.MULTILINE)
_RANKS = (b"part", b"chapter", b"section", b"subsection", b"subsubsection", b"paragraph")
_LATEX = re.compile(rb"^[ \t]*\\(" + b"|".join(_RANKS) + rb")\b\*?[\[{]", re.MULTILINE)


def asciidoc_outline(data: bytes) -> Iterator[Boundary]:
    """Give the headings of AsciiDoc by rank; none in a listing, literal or comment block."""
    fence = b""
    for found in _ASCIIDOC.finditer(data):
        if found["fence"] and fence in (b"", found["fence"]):
            fence = b"" if fence else found["fence"]
        elif found["mark"] and not fence:
            yield Boundary(found.start(), len(found["mark"]))


def org_outline(data: bytes) -> Iterator[Boundary]:
    """Give the headings of Org by rank."""
    return (Boundary(found.start(), len(found[1])) for found in _ORG.finditer(data))


def latex_outline(data: bytes) -> Iterator[Boundary]:
    """Give the sections of LaTeX by rank."""
    return (Boundary(one.start(), _RANKS.index(one[1]) + 1) for one in _LATEX.finditer(data))


BLOCK_LEVEL = 50
"""Below every heading."""
_ATX_HEADING = re.compile(rb" {0,3}(#{1,6})(?:[ \t]|$)")
_SETEXT_UNDERLINE = re.compile(rb" {0,3}(=+|-+)[ \t]*$")
_FENCE = re.compile(rb"[ \t]*(`{3,}(?=[^`]*$)|~{3,})")
_FRONT_MATTER = b"---"
_ADORNMENT = re.compile(rb"([!-/:-@\[-`{-~])\1*$")


def markdown_outline(data: bytes) -> Iterator[Boundary]:
    """Give the headings of Markdown by their rank, and its blocks below them.

    Nothing inside a fenced block or the front matter is a boundary, and a heading is joined to
    what follows it.
    """
    offset = 0
    fence = b""
    paragraph: int | None = None
    after_blank, after_heading = True, False
    for number, line in enumerate(data.splitlines(keepends=True)):
        text = line.rstrip()
        start, offset = offset, offset + len(line)
        if fence:
            fence = b"" if _closes(text, fence) else fence
            continue
        if number == 0 and text == _FRONT_MATTER:
            fence = text
            continue
        if not text:
            after_blank, paragraph = True, None
            continue
        heading = _heading(text, start, paragraph)
        if after_heading or (heading and heading.offset < start):
            yield Boundary(start, JOINED)
        if heading:
            yield heading
        elif after_blank and not line[:1].isspace():
            yield Boundary(start, BLOCK_LEVEL)
        opening = _FENCE.match(text)
        fence = opening[1] if opening else b""
        if heading or opening:
            paragraph = None
        elif paragraph is None:
            paragraph = start
        after_blank, after_heading = False, heading is not None


def _heading(text: bytes, start: int, paragraph: int | None) -> Boundary | None:
    """Read a line as a heading, or as what makes one of the paragraph above it."""
    marked = _ATX_HEADING.match(text)
    if marked:
        return Boundary(start, len(marked[1]))
    underline = _SETEXT_UNDERLINE.match(text)
    if underline and paragraph is not None:
        return Boundary(paragraph, 1 if underline[1].startswith(b"=") else 2)
    return None


def _closes(text: bytes, fence: bytes) -> bool:
    if fence == _FRONT_MATTER:
        return text in (_FRONT_MATTER, b"...")
    text = text.strip()
    return len(text) >= len(fence) and text == fence[:1] * len(text)


def rst_outline(data: bytes) -> Iterator[Boundary]:
    """Give the section titles of reStructuredText by rank, and its blocks below them.

    The rank of a title is the order in which its style (adornment, with or without overline)
    first appears. What is indented belongs to the block above it.
    """
    lines = data.splitlines(keepends=True)
    texts = [line.rstrip() for line in lines]
    styles: list[tuple[bytes, bool]] = []
    offset, skip_to, after_title = 0, 0, False
    for number, text in enumerate(texts):
        start, offset = offset, offset + len(lines[number])
        if not text:
            continue
        if after_title:
            yield Boundary(start, JOINED)
        if number < skip_to:
            continue
        title = _title(texts, number)
        if title is not None:
            overlined = title[1]
            if title not in styles:
                styles.append(title)
            yield Boundary(start, min(styles.index(title) + 1, BLOCK_LEVEL - 1))
            skip_to = number + (3 if overlined else 2)
        elif not text[:1].isspace() and (number == 0 or not texts[number - 1]):
            yield Boundary(start, BLOCK_LEVEL)
        after_title = title is not None


def _title(texts: list[bytes], number: int) -> tuple[bytes, bool] | None:
    """Give the style of the title that begins on a line: its character, and if it has an overline."""
    lines = [*texts[number : number + 3], b"", b""]
    over = _ADORNMENT.match(lines[0])
    if over and lines[2] == lines[0] and 0 < _width(lines[1]) <= len(lines[0]):
        return over[1], True
    under = _ADORNMENT.match(lines[1])
    if under and not over and not lines[0][:1].isspace() and _width(lines[0]) <= len(lines[1]):
        return under[1], False
    return None


def _width(line: bytes) -> int:
    """Count the characters of a line."""
    return len(line.decode())


_OF_PROSE = {
    "markdown": markdown_outline,
    "rst": rst_outline,
    "asciidoc": asciidoc_outline,
    "org": org_outline,
    "latex": latex_outline,
}


def outline_of(kind: FileKind, data: bytes, fits: Fits) -> Iterable[Boundary]:
    """Give the places where the structure of a text in UTF-8 begins anew; none for plain text."""
    if kind in _OF_PROSE:
        return _OF_PROSE[kind](data)
    return code_outline(data, kind, fits) if is_language(kind) else ()
