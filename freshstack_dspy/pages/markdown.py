"""A page as Markdown: for a pull request, a data card, a README."""

import html
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import replace

from freshstack_dspy.pages.page import Cell, Page, Picture, Span, Table, Text, cell_lines

_SPECIAL = re.compile(r"([\\`*_\[\]|~$])")
_WEB = re.compile(r"https?://[A-Za-z0-9._~:/?#@!&=+%;,-]+")
_DIRECTION_MARKS = frozenset(
    "\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)


def page_markdown(page: Page, level: int = 1) -> str:
    """Write a page as Markdown, its title as a heading of a level.

    Texts of others are shown as they are, and never obeyed.
    """
    return "\n".join(_page(page, level))


def escape(text: str) -> str:
    """Make a text safe within a line or a cell: one line, no markup, no HTML.

    Control characters become spaces; marks that turn the direction of reading are left out.
    """
    line = re.sub(r"\s+", " ", visible(text))
    return _SPECIAL.sub(r"\\\1", html.escape(line, quote=False))


def visible(text: str) -> str:
    """Leave out what is not seen, but line breaks and tabs."""
    return "".join(
        " "
        if letter not in "\n\t" and unicodedata.category(letter) in {"Cc", "Zl", "Zp"}
        else letter
        for letter in text
        if letter not in _DIRECTION_MARKS
    )


def is_web_address(href: str) -> bool:
    """Whether a link leads to a plain web address."""
    return _WEB.fullmatch(href) is not None


def _page(page: Page, level: int) -> Iterator[str]:
    if page.anchor:
        yield f'<a id="{html.escape(page.anchor)}"></a>\n'
    if page.title:
        yield f"{'#' * min(level, 6)} {escape(page.title).strip()}\n"
    in_list = False
    for each in page.parts:
        item = isinstance(each, Text) and each.kind == "item"
        if in_list and not item:
            yield ""
        in_list = item
        if isinstance(each, Page):
            yield from _page(each, level + 1)
        elif isinstance(each, Text):
            yield _text(each)
        else:
            yield from _table(each.table if isinstance(each, Picture) else each)
    if in_list:
        yield ""


def _text(text: Text) -> str:
    if text.kind == "excerpt":
        lines: list[list[Span]] = [[]]
        for span in text:
            first, *others = (replace(span, text=line) for line in span.text.split("\n"))
            lines[-1].append(first)
            lines.extend([one] for one in others)
        return "".join(f"> {''.join(map(_span, line))}  \n" for line in lines)
    if text.kind == "code":
        words = visible(str(text))
        fence = "```" + "`" * words.count("`")
        return f"{fence}\n{words}\n{fence}\n"
    line = "".join(map(_span, text)).strip()
    if text.kind == "item":
        return f"{'  ' * text.indent}- {line}"
    return f"**{line}**\n" if text.kind == "warning" else f"{line}\n"


def _span(span: Span) -> str:
    words = escape(span.text)
    core = words.strip()
    if not core or (span.style == "plain" and not span.href):
        return words
    styled = core if span.style == "plain" else f"**{core}**"
    if span.style == "code" and not {"`", "<"}.intersection(span.text):
        styled = f"`{' '.join(visible(span.text).split())}`"
    if span.text == span.href and is_web_address(span.href):
        styled = f"<{span.href}>"
    elif span.href.startswith("#") or is_web_address(span.href):
        styled = f"[{styled}]({span.href})"
    before, after = words[0] == " ", words[-1] == " "
    return f"{' ' * before}{styled}{' ' * after}"


def _table(table: Table) -> Iterator[str]:
    if table.title:
        yield f"{escape(table.title)}\n"
    rules = ["---:" if right else "---" for right in table.flush_right()]
    yield _row([escape(name) for name in table.header])
    yield _row(rules)
    for row in table.rows:
        yield _row([_cell(cell, table.digits) for cell in row])
    yield ""


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell, digits: int) -> str:
    if isinstance(cell, Span):
        shown = _span(cell)
        return shown if cell.style != "code" else shown.replace("\\|", "|").replace("|", "\\|")
    if isinstance(cell, tuple):
        return " ".join(_cell(one, digits) for one in cell)
    return " ".join(map(escape, cell_lines(cell, digits)))
