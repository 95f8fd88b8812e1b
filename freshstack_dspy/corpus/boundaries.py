"""Boundaries: where a text may be cut, and how good each place is.

An outline (of code, Markdown, a notebook …) gives the places its grammar knows.
`refine` keeps those that are needed to make pieces small enough, and where they do not
suffice adds finer ones: paragraphs, lines, sentences, words.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, TypeGuard, get_args


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


def has_text(part: bytes) -> bool:
    """Whether a part of a text is more than white space."""
    return bool(part.strip() and (part.isascii() or part.decode().strip()))


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
    "markdown": "md markdown mdown mkd mdx rmd qmd",
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
_ALIASES: dict[str, FileKind] = {
    "c#": "c_sharp", "csharp": "c_sharp", "c++": "cpp", "ipython": "python", "sh": "bash",
}  # fmt: skip
_KIND_OF_SUFFIX: dict[str, FileKind] = {
    suffix: kind for kind, suffixes in _SUFFIXES.items() for suffix in suffixes.split()
}
_KIND_OF_NAME: dict[str, FileKind] = {
    name: kind for kind, names in _NAMES.items() for name in names.split()
}


def file_kind(path: str) -> FileKind:
    """Tell a file's kind from its path; whatever is not in the tables is `text`.

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


def language_named(name: str) -> FileKind:
    """Tell the kind of code from the name of its language, as Jupyter's kernels give it."""
    name = name.lower()
    return name if is_language(name) else _ALIASES.get(name, "text")


def is_language(kind: str) -> TypeGuard[Language]:
    """Whether a kind is code, which a grammar reads."""
    return kind in get_args(Language)
