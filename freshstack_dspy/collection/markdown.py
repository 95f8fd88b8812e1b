"""Text of strangers inside our Markdown: shown as it is, never obeyed."""

import html
import re
import unicodedata
from collections.abc import Iterable, Sequence

_SPECIAL = re.compile(r"([\\`*_\[\]|~$])")
_PLAIN_URL = re.compile(r"https?://[A-Za-z0-9._~:/?#@!&=+%;,-]+")
_DIRECTION_MARKS = frozenset(
    "\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
_LONGEST = 200


def escape(text: str) -> str:
    """Make a text safe within a line or table cell: one line, no markup, no HTML.

    Control characters become spaces, marks that turn the direction of reading are left out, and
    what is longer than 200 characters is cut with an ellipsis.
    """
    visible = "".join(
        " " if unicodedata.category(char) in {"Cc", "Zl", "Zp"} else char
        for char in text
        if char not in _DIRECTION_MARKS
    )
    line = " ".join(visible.split())
    if len(line) > _LONGEST:
        line = f"{line[:_LONGEST]}…"
    return _SPECIAL.sub(r"\\\1", html.escape(line, quote=False))


def link(url: str) -> str:
    """Show an address as a link if it is a plain web address, as text if it is anything else."""
    return f"<{url}>" if _PLAIN_URL.fullmatch(url) and len(url) <= _LONGEST else escape(url)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Set a table of cells that are Markdown already."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
