"""The headings above a chunk: of the sections of a text, or the definitions that code is in."""

import re
from collections.abc import Iterable, Sequence

from tree_sitter import Node

from freshstack_dspy.corpus.outlines import (
    BLOCK_LEVEL,
    Boundary,
    FileKind,
    is_language,
    syntax_tree,
)

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
    headings = [one for one in sorted(set(outline)) if 0 <= one.level < BLOCK_LEVEL]
    trail: list[tuple[int, str]] = []
    found: list[tuple[str, ...]] = []
    place = 0
    for start in starts:
        while place < len(headings) and headings[place].offset < start:
            offset, level = headings[place]
            trail = [above for above in trail if above[0] < level]
            trail.append((level, _title(data, offset)))
            place += 1
        at_start = headings[place : place + 1]
        level = at_start[0].level if at_start and at_start[0].offset == start else BLOCK_LEVEL
        found.append(tuple(title for above, title in trail if title and above < level))
    return found


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
