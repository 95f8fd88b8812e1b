"""Where a text may be cut, and how good each place is; and the headings that a place is below.

The outline of a text (code, Markdown …) gives the places that its grammar knows. `refine` keeps
those that are needed to make pieces small enough, and where they do not suffice adds finer ones:
paragraphs, lines, sentences, words.
"""

import functools
import importlib
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise, repeat
from typing import Literal, TypeGuard, get_args

import numpy as np
from tree_sitter import Language as Grammar
from tree_sitter import Node, Parser, Tree

Boundary = tuple[int, int]
"""A byte offset before which a text may be cut, the start of a line or of a word in it, and how deep it
is in the text's structure; 0 is best. With the level `JOINED` it is no boundary, but the contrary."""
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
    boundaries = sorted(set(outline))
    joined = {offset for offset, level in boundaries if level == JOINED}
    offsets_at: defaultdict[int, list[int]] = defaultdict(list)
    for offset, level in boundaries:
        if offset not in joined:
            offsets_at[level].append(offset)
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
                ends = [match.end() for match in _CUTS[level - FINER].finditer(data, start, end)]
                ends = [offset for offset in ends if offset < end and offset not in joined]
            kept += zip(ends, repeat(level))
            smaller += pairwise((start, *ends, end))
        pieces = smaller
    return _with_text_between(sorted(kept), data)


def _with_text_between(boundaries: Iterable[Boundary], data: bytes) -> list[Boundary]:
    """Drop the boundaries that part white space from the text it belongs to.

    Indentation, and the white space at the beginning, belong to what follows; all else to what
    is before it.
    """
    kept: list[Boundary] = []
    previous = 0
    for offset, level in boundaries:
        part = data[previous:offset]
        if has_text(part):
            kept.append((offset, level))
        elif kept and (b"\n" in part or b"\r" in part or data[previous - 1] not in b"\r\n"):
            kept[-1] = (offset, min(level, kept[-1][1]))
        else:
            continue
        previous = offset
    if kept and not has_text(data[previous:]):
        kept.pop()
    return kept


_ASCII_SPACE = b" \t\n\r\x0b\f\x1c\x1d\x1e\x1f"
"""What `str.strip` takes away; `bytes.strip` leaves the separators at the end."""


def has_text(part: bytes) -> bool:
    """Whether a part of a text is more than white space."""
    return bool(part.strip(_ASCII_SPACE) if part.isascii() else part.decode().strip())


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
_NO_BRACKETS = bytes(set(range(256)).difference(b"()[]{}<>"))
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
    brackets = data.translate(None, _NO_BRACKETS)
    return all(
        _most_open(brackets, opening, closing) <= most
        for opening, (closing, most) in _MOST_OPEN.items()
        if sum(map(brackets.count, opening)) > most
    )


def _most_open(brackets: bytes, opening: bytes, closing: bytes) -> int:
    """Count the brackets that are open at once; those that close nothing count for nothing."""
    change = np.zeros(256, dtype=np.int32)
    change[list(opening)] = 1
    change[list(closing)] = -1
    level = np.cumsum(change[np.frombuffer(brackets, dtype=np.uint8)])
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
        pending += [(child, deeper) for child in children if not fits(*child.byte_range)]
        for before, child in pairwise(children):
            line = _line_start(data, child)
            if line is not None and not _belongs_together(data, before, child):
                yield line, depth


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


def _asciidoc_outline(data: bytes) -> Iterator[Boundary]:
    """Give the headings of AsciiDoc by rank; none in a listing, literal or comment block."""
    fence = b""
    for match in _ASCIIDOC.finditer(data):
        if match["fence"] and fence in (b"", match["fence"]):
            fence = b"" if fence else match["fence"]
        elif match["mark"] and not fence:
            yield match.start(), len(match["mark"])


BLOCK_LEVEL = 50
"""Below every heading."""
_ATX_HEADING = re.compile(rb" {0,3}(#{1,6})(?:[ \t]|$)")
_SETEXT_UNDERLINE = re.compile(rb" {0,3}(=+|-+)[ \t]*$")
_FENCE = re.compile(rb"[ \t]*(`{3,}(?=[^`]*$)|~{3,})")
_FRONT_MATTER = b"---"
_ADORNMENT = re.compile(rb"([!-/:-@\[-`{-~])\1*$")


def _markdown_outline(data: bytes) -> Iterator[Boundary]:
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
        if after_heading or (heading and heading[0] < start):
            yield start, JOINED
        if heading:
            yield heading
        elif after_blank and not line[:1].isspace():
            yield start, BLOCK_LEVEL
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
        return start, len(marked[1])
    underline = _SETEXT_UNDERLINE.match(text)
    if underline and paragraph is not None:
        return paragraph, 1 if underline[1].startswith(b"=") else 2
    return None


def _closes(text: bytes, fence: bytes) -> bool:
    if fence == _FRONT_MATTER:
        return text in (_FRONT_MATTER, b"...")
    text = text.strip()
    return len(text) >= len(fence) and text == fence[:1] * len(text)


def _rst_outline(data: bytes) -> Iterator[Boundary]:
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
            yield start, JOINED
        if number < skip_to:
            continue
        title = _title_style(texts, number)
        if title is not None:
            overlined = title[1]
            if title not in styles:
                styles.append(title)
            yield start, min(styles.index(title) + 1, BLOCK_LEVEL - 1)
            skip_to = number + (3 if overlined else 2)
        elif not text[:1].isspace() and (number == 0 or not texts[number - 1]):
            yield start, BLOCK_LEVEL
        after_title = title is not None


def _title_style(texts: list[bytes], number: int) -> tuple[bytes, bool] | None:
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


_OUTLINES: dict[str, Callable[[bytes], Iterable[Boundary]]] = {
    "markdown": _markdown_outline,
    "rst": _rst_outline,
    "asciidoc": _asciidoc_outline,
    "org": lambda data: ((match.start(), len(match[1])) for match in _ORG.finditer(data)),
    "latex": lambda data: (
        (match.start(), _RANKS.index(match[1]) + 1) for match in _LATEX.finditer(data)
    ),
}
"""By kind, the headings by rank, and blocks below them."""


def outline_of(kind: FileKind, data: bytes, fits: Fits) -> Iterable[Boundary]:
    """Give the places where the structure of a text in UTF-8 begins anew; none for plain text."""
    if is_language(kind):
        return code_outline(data, kind, fits)
    return _OUTLINES[kind](data) if kind in _OUTLINES else ()


# What a place is below


_MARKS = re.compile(r"^[ \t]*(?:#{1,6}|={1,6}|\*{1,9}|\\\w+\*?(?=[\[{]))[ \t]*|[ \t]#+[ \t]*$")
_LATEX_TITLE = re.compile(r"^(?:\[[^\]]*\])?\{(.*)\}.*$")
_LONGEST_SOURCE = 2000
"""Bytes that are looked at for a heading's text."""
_LONGEST = 120
"""Characters of a heading that are shown."""
_DEFINES = re.compile(
    r"class|declarat|definition|enum|function|impl|interface|item|method|module|namespace|spec|"
    r"struct|trait"
)
_USES = re.compile(r"call|expression|invocation|reference|specifier_list")
"""Nodes that have a name, and whose names `_DEFINES` matches, but that define nothing."""


def trails(
    kind: FileKind, data: bytes, outline: Iterable[Boundary], starts: Sequence[int]
) -> list[tuple[str, ...]]:
    """The headings that each of several places of a text in UTF-8 is below, the outermost first.

    Code is below the names of the definitions around it, a text below the titles of its sections.
    `starts` are offsets in bytes, ascending; a heading at a place itself is not above it.
    """
    if is_language(kind):
        tree = syntax_tree(data, kind)
        return [_definitions(tree.root_node, start) if tree else () for start in starts]
    headings = [heading for heading in sorted(set(outline)) if 0 <= heading[1] < BLOCK_LEVEL]
    trail: list[tuple[int, str]] = []
    above: list[tuple[str, ...]] = []
    place = 0
    for start in starts:
        while place < len(headings) and headings[place][0] < start:
            offset, level = headings[place]
            trail = [heading for heading in trail if heading[0] < level]
            trail.append((level, _title(data, offset)))
            place += 1
        own = dict(headings[place : place + 1]).get(start, BLOCK_LEVEL)
        above.append(tuple(title for level, title in trail if title and level < own))
    return above


def _title(data: bytes, offset: int) -> str:
    """The text of a heading: its first line with a letter, without marks."""
    for line in data[offset : offset + _LONGEST_SOURCE].decode(errors="ignore").splitlines():
        if re.search(r"[^\W_]", line):
            text = _MARKS.sub("", line).strip()
            return _LATEX_TITLE.sub(r"\1", text)[:_LONGEST]
    return ""


def _definitions(root: Node, start: int) -> tuple[str, ...]:
    """The names of the definitions that begin before a place and go on there."""
    names: list[str] = []
    node = root.named_descendant_for_byte_range(start, start)
    while node is not None:
        if _DEFINES.search(node.type) and not _USES.search(node.type):
            name = _name(node)
            if name is not None and name.text and name.end_byte <= start < node.end_byte:
                names.append(name.text.decode(errors="ignore")[:_LONGEST])
        node = node.parent
    return tuple(reversed(names))


def _name(node: Node) -> Node | None:
    """The name in a definition: of C and C++ functions it is in their declarator, of `impl` a type."""
    for field in ("name", "type") if node.type == "impl_item" else ("name",):
        if (name := node.child_by_field_name(field)) is not None:
            return name
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and (inner := declarator.child_by_field_name("declarator")):
        declarator = inner
    return declarator
