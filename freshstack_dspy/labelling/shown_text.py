"""Texts cut into pieces for the page: code with its syntax, prose with headings, code and links.

The pieces joined are the text, character by character, so that what is selected on the page has
its place in the text.
"""

import re
from collections.abc import Iterator
from pathlib import PurePath
from time import monotonic
from typing import Any, NamedTuple

from pygments import lexers
from pygments.token import STANDARD_TYPES
from pygments.util import ClassNotFound

Piece = tuple[str, str]
"""The class of a style (Pygments' short names, `url`, `control` or nothing), and the text."""


class Block(NamedTuple):
    """A part of a text that is all code or all prose."""

    code: bool
    pieces: tuple[Piece, ...]


_MARKDOWN = (".md", ".markdown", ".mdx", ".html", ".htm", ".xhtml", ".ipynb")
"""Pages and notebooks are Markdown in a corpus."""
_PROSE = (".rst", ".txt", ".text")
_LONGEST_STYLED, _PLAIN_BLOCK, _MOST_SPECIAL = 200_000, 20_000, 500
"""Characters of a text with styles; of a block of a longer one; addresses and so on in a block.
With more, browsers need seconds to lay a hostile text out."""
_STYLING = 0.3
"""Seconds in which a text gets its styles; a lexer may take the square of a hostile text's length."""
_FENCED = re.compile(
    r"(?P<begin>^ {0,3}(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[\w+#.-]*)[^\n`]*\n)"
    r"(?P<code>.*?)(?P<end>^ {0,3}(?P=fence)[`~]*[ \t]*$\n?|\Z)",
    re.MULTILINE | re.DOTALL,
)
_SPECIAL = re.compile(
    r"(?P<url>https?://[^\s<>\"'`\\)\]]+)|"
    # Characters that are not seen, or that change the order of others; not \t, \n and \r.
    r"(?P<control>[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u2028-\u202e\u2066-\u2069\ufeff]+)"
)


def blocks_of(text: str, path: str) -> list[Block]:
    """Cut a text into blocks, by the name of its file."""
    suffix = PurePath(path).suffix.lower()
    lexer = _lexer(lexers.get_lexer_for_filename, "a.md" if suffix in _MARKDOWN else path)
    is_code = lexer is not None and suffix not in _MARKDOWN + _PROSE
    if len(text) > _LONGEST_STYLED:
        starts = range(0, len(text), _PLAIN_BLOCK)
        return [Block(is_code, (("", text[start : start + _PLAIN_BLOCK]),)) for start in starts]
    found, done, end = [], 0, monotonic() + _STYLING
    if suffix in _MARKDOWN:
        for fenced in _FENCED.finditer(text):
            found.append(Block(False, tuple(_pieces(text[done : fenced.start()], lexer, end))))
            inner = _lexer(lexers.get_lexer_by_name, fenced["language"])
            code = _pieces(fenced["code"], inner, end)
            pieces = (("fence", fenced["begin"]), *code, ("fence", fenced["end"]))
            found.append(Block(True, pieces))
            done = fenced.end()
    found.append(Block(is_code, tuple(_pieces(text[done:], lexer, end))))
    return [block for block in found if block.pieces]


def _lexer(find: Any, name: str) -> Any:
    try:
        return find(name)
    except ClassNotFound:
        return None


def _pieces(text: str, lexer: Any, end: float) -> Iterator[Piece]:
    """Cut a text by its syntax, if that is done by `end`, and by addresses and control characters."""
    styled: list[Piece] = []
    for _, kind, value in lexer.get_tokens_unprocessed(text) if lexer else ():
        if monotonic() > end:
            break
        style = STANDARD_TYPES.get(kind, "")
        joined = styled.pop()[1] if styled and styled[-1][0] == style else ""
        styled.append((style, joined + value))
    if (
        "".join(value for _, value in styled) != text
    ):  # no lexer, or one that drops something or is slow
        styled = [("", text)]
    left = iter(range(_MOST_SPECIAL))
    for style, value in styled:
        done = 0
        for special, _ in zip(_SPECIAL.finditer(value), left, strict=False):
            if done < special.start():
                yield style, value[done : special.start()]
            yield str(special.lastgroup), special[0]
            done = special.end()
        if value[done:]:
            yield style, value[done:]
