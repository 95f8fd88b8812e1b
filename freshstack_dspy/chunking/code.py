"""The outline of source code: where its definitions and statements begin, from tree-sitter."""

import itertools
from collections.abc import Iterator

from tree_sitter import Node

from freshstack_dspy.chunking.boundaries import Boundary, Fits
from freshstack_dspy.chunking.kinds import Language
from freshstack_dspy.chunking.syntax import syntax_tree

_BELONGS_TO_NEXT = frozenset(
    ["comment", "line_comment", "block_comment", "decorator", "attribute_item"]
)
_BELONGS_TO_PARENT = ("block", "body", "list", "compound_statement", "parameters")
"""Ends of the names of nodes that continue what stands before them."""
_FARTHEST_COMMENT = 3
"""Lines, from the end of a comment to what it is about: up to two blank ones between."""
_DEEPEST = 100
"""Levels below are not told apart."""
_FARTHEST_INDENT = 400
"""Bytes. A node that begins farther to the right is inside of a line."""


def code_outline(data: bytes, language: Language, fits: Fits) -> Iterator[Boundary]:
    """Give the line on which each definition or statement begins, by depth in the syntax tree.

    Comments, decorators and attributes above a definition belong to it, and a
    definition's head to the first line of its body. Only nodes that do not fit are entered.
    Broken code has an outline as well, as long as it can be parsed at a sane cost.

    Args:
        data: UTF-8.
        language: Which grammar reads it.
        fits: Whether a range of bytes needs no cut.
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
    """Give the start of a node's line, if nothing but white space stands before the node on it."""
    column = node.start_point.column
    start = node.start_byte - column
    if column > _FARTHEST_INDENT or data[start : node.start_byte].strip():
        return None
    return start
