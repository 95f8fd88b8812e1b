"""Syntax trees of source code that may be broken, machine-made or hostile.

tree-sitter recovers from syntax errors, but what that costs can grow with the square of a
file's size: 40 kB of opening brackets take more than a gigabyte. So code that looks like
nothing a person wrote is not parsed, and parsing is given up when it costs out of all
proportion. Both are decided by counting, never by the clock: the same file always gives the
same tree, or none. For whoever sets out to exhaust the memory there is a limit on how much the
process may grow meanwhile (on Linux), far beyond what any file needs that passes the counts.
"""

import functools
import importlib
import mmap
from pathlib import Path

import numpy as np
from tree_sitter import Language as Grammar
from tree_sitter import Parser, Tree

from freshstack_dspy.chunking.kinds import Language

_GRAMMARS: dict[Language, tuple[str, str]] = {
    "php": ("tree_sitter_php", "language_php"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
}
"""The module that carries a grammar, and its function, where the names do not follow the rule."""
_LONGEST_LINE = 10_000
"""Bytes. Minified code has no line on which a definition begins, so nothing is lost."""
_MOST_OPEN = {b"([{": (b")]}", 1000), b"<": (b">", 3000)}
"""How many brackets may be open at once; `<` may be a comparison, which nothing closes."""
_BLOCK = 1024
_READS_PER_BLOCK, _STEPS_PER_BLOCK = 20, 60
"""Code that people wrote takes about 2 reads and 5 to 25 steps (of 100 operations) for each."""
_ALLOWANCE = 1000
_STEPS_PER_LOOK = 16
_MOST_MEMORY, _MEMORY_PER_BYTE = 1 << 30, 200
"""Bytes by which the process may grow: in any case, and for each byte of the file."""


def syntax_tree(data: bytes, language: Language) -> Tree | None:
    """Parse source code.

    Args:
        data: UTF-8.
        language: Which grammar reads it.

    Returns:
        The tree, also for code with errors; None for code that is not worth parsing, or whose
        grammar is not installed.
    """
    grammar = _grammar(language)
    if grammar is None or not _looks_written(data):
        return None
    blocks = len(data) // _BLOCK
    most_memory = _memory() + _MOST_MEMORY + _MEMORY_PER_BYTE * len(data)
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
            or (steps % _STEPS_PER_LOOK == 0 and _memory() > most_memory)
        )

    parser = Parser(grammar)
    try:
        return parser.parse(read, progress_callback=give_up)
    except ValueError:  # given up
        return None


@functools.cache
def _grammar(language: Language) -> Grammar | None:
    module, function = _GRAMMARS.get(language, (f"tree_sitter_{language}", "language"))
    try:
        return Grammar(getattr(importlib.import_module(module), function)())
    except ModuleNotFoundError:
        return None


def _memory() -> int:
    """Give the bytes of memory that this process occupies; 0 where that cannot be told."""
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    except OSError:
        return 0
    return pages * mmap.PAGESIZE


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
