"""HTML of a post → Markdown, with code exactly as it was written.

The result is for search and for language models: it reads as Markdown, and nothing in running
text is escaped, so that `snake_case` and `a < b` stay what they are.
"""

import re
from collections.abc import Callable, Iterable
from html import unescape
from itertools import chain

import lxml.etree
from lxml.html import HtmlElement, HTMLParser

_DEEPEST = 40
"""Elements nested deeper are taken as plain text: this bounds the recursion."""
_MOST_CELLS = 50_000
"""Larger tables are taken as lines of text: filling up uneven rows could make them endless."""
_BLOCK_NAMES = (
    "address article aside blockquote body center dd details div dl dt figure footer h1 h2 h3 h4 "
    "h5 h6 header hr li main nav ol p pre section summary table ul"
)
_BLOCKS = frozenset(_BLOCK_NAMES.split())
_ROW_PLACES = ("tr", "thead", "tbody", "tfoot")
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_MARKS = {
    "b": ("**", "**"),
    "strong": ("**", "**"),
    "em": ("*", "*"),
    "i": ("*", "*"),
    "del": ("~~", "~~"),
    "s": ("~~", "~~"),
    "strike": ("~~", "~~"),
    **{tag: (f"<{tag}>", f"</{tag}>") for tag in ("kbd", "sub", "sup")},
}
_DROPPED = frozenset(["script", "style", "template"])
_SPACE = re.compile(r"[ \t\r\n\f\v\xa0]+")
_SAFE_URL = re.compile(r"(?:https?:|mailto:|ftp:|[^:]*$|[^:]*[/?#])", re.IGNORECASE)


def html_to_markdown(html: str) -> str:
    """Convert the HTML of a post.

    Code blocks become fenced blocks whose text is the code, byte for byte but for one closing
    line break; the fence is longer than any run of backticks inside. Links to anything but web,
    mail and relative addresses keep their text only.

    Args:
        html: A fragment. It may be malformed; nested beyond what the parser takes (254 levels),
            it is reduced to its text.

    Returns:
        Markdown without surrounding white space; empty where there is nothing to read.
    """
    parser = HTMLParser(remove_comments=True, remove_pis=True, no_network=True)
    fragment = re.sub(r"</?(?:html|body)\b[^<>]*>", "", html, flags=re.IGNORECASE)
    root = lxml.etree.fromstring(f"<html><body>{fragment}", parser)
    if any(error.level == lxml.etree.ErrorLevels.FATAL for error in parser.error_log):
        return unescape(re.sub(r"<[^<>]*>", "", html)).strip()
    return "\n\n".join(_blocks(root, 0))


def _blocks(parent: HtmlElement, depth: int) -> list[str]:
    """Render what an element holds as a list of blocks; loose inline content is a paragraph."""
    if depth > _DEEPEST:
        text = _SPACE.sub(" ", str(parent.text_content())).strip()
        return [text] if text else []
    found: list[str] = []
    inline = _collapsed(parent.text)
    for child in parent:
        if _holds_blocks(child):
            found += [_tidy(inline), *_block(child, depth + 1)]
            inline = ""
        else:
            inline += _inline(child, depth + 1)
        inline += _collapsed(child.tail)
    found.append(_tidy(inline))
    return [block for block in found if block]


def _holds_blocks(element: HtmlElement) -> bool:
    return any(node.tag in _BLOCKS for node in element.iter())


def _block(element: HtmlElement, depth: int) -> list[str]:
    """Render one block element; it may come to nothing, or to several blocks."""
    tag = element.tag
    if tag == "pre":
        return _code_block(element)
    if tag == "hr":
        return ["---"]
    if tag == "table" and element.find(".//table") is None:
        rows = _rows(element)
        if _is_all_in(chain.from_iterable(rows), element):
            return _table(rows, depth)
    if tag in ("ul", "ol") and _is_all_in(element, element):
        return _list(element, depth)
    return _wrapped(tag, _blocks(element, depth))


def _is_all_in(parts: Iterable[HtmlElement], whole: HtmlElement) -> bool:
    """Say whether all text of an element is in the parts that its layout has a place for."""

    def letters(element: HtmlElement) -> int:
        return sum(map(len, str(element.text_content()).split()))

    return sum(map(letters, parts)) == letters(whole)


def _wrapped(tag: str, blocks: list[str]) -> list[str]:
    """Put the mark of an element on the blocks it holds."""
    text = "\n\n".join(blocks)
    if not text:
        return []
    if tag == "blockquote":
        return [_prefixed(text, "> ", "> ")]
    if tag == "dd":
        return [_prefixed(text, ": ", "  ")]
    if tag in _HEADINGS:
        return [f"{_HEADINGS[tag]} {' '.join(text.split())}"]
    return blocks


def _code_block(element: HtmlElement) -> list[str]:
    code = _verbatim(element).removesuffix("\n")
    if not code.strip():
        return []
    classes = " ".join([element.get("class", ""), *(e.get("class", "") for e in element[:1])])
    language = re.search(r"\blang(?:uage)?-([\w+#.-]+)", classes)
    name = language[1] if language and language[1] not in ("none", "default") else ""
    fence = "`" * max(3, _longest_backticks(code) + 1)
    return [f"{fence}{name}\n{code}\n{fence}"]


def _list(element: HtmlElement, depth: int) -> list[str]:
    start = element.get("start", "1")
    number = int(start) if re.fullmatch(r"\d{1,9}", start, re.ASCII) else 1
    items: list[str] = []
    loose = any(child.tag == "p" for item in element for child in item)
    for item in element:
        marker = f"{number}. " if element.tag == "ol" else "- "
        blocks = _block(item, depth + 1) if _holds_blocks(item) else [_inline(item, depth + 1)]
        text = ("\n\n" if loose else "\n").join(blocks)
        if text.strip():
            items.append(_prefixed(text, marker, " " * len(marker)))
            number += 1
    return [("\n\n" if loose else "\n").join(items)] if items else []


def _rows(table: HtmlElement) -> list[list[HtmlElement]]:
    """Give the cells of each row of a table."""
    parts = [[part] if part.tag == "tr" else part for part in table if part.tag in _ROW_PLACES]
    rows = [row for row in chain.from_iterable(parts) if row.tag == "tr"]
    cells = [[cell for cell in row if cell.tag in ("td", "th")] for row in rows]
    return [row for row in cells if row]


def _table(cells: list[list[HtmlElement]], depth: int) -> list[str]:
    rows = []
    for row in cells:
        texts = [" ".join(_blocks(cell, depth + 1)) for cell in row]
        rows.append([" ".join(text.split()).replace("|", r"\|") for text in texts])
    if not rows:
        return []
    width = max(map(len, rows))
    if width * len(rows) > _MOST_CELLS:
        return ["\n".join(" ".join(row) for row in rows)]
    lines = [f"| {' | '.join(row + [''] * (width - len(row)))} |" for row in rows]
    return ["\n".join([lines[0], f"|{' --- |' * width}", *lines[1:]])]


def _inline(element: HtmlElement, depth: int) -> str:
    """Render an element inside a line."""
    tag = element.tag
    if tag == "br":
        return "\n"
    if tag == "img":
        return _link(_tidy(element.get("alt", "")), element.get("src", ""), "!")
    if tag in ("code", "tt", "samp"):
        return _inline_code(_verbatim(element))
    text = "" if tag in _DROPPED else _inline_content(element, depth)
    if tag == "a":
        return _around(text, lambda inner: _link(inner, element.get("href", "")))
    before, after = _MARKS.get(tag, ("", ""))
    return _around(text, lambda inner: f"{before}{inner}{after}")


def _inline_content(element: HtmlElement, depth: int) -> str:
    if depth > _DEEPEST:
        return _collapsed(str(element.text_content()))
    parts = [_collapsed(element.text)]
    for child in element:
        parts += [_inline(child, depth + 1), _collapsed(child.tail)]
    return "".join(parts)


def _around(text: str, mark: Callable[[str], str]) -> str:
    """Mark a text up, leaving the white space at its ends outside, as Markdown asks for."""
    inner = text.strip()
    if not inner:
        return text
    before, _, after = text.partition(inner)
    return f"{before}{mark(inner)}{after}"


def _link(text: str, url: str, bang: str = "") -> str:
    url = url.strip()
    if not url or not _SAFE_URL.match(url) or not url.isprintable():
        return text
    if not bang and text == url:
        return f"<{url}>"
    target = f"<{url}>" if re.search(r"[\s()]", url) else url
    return f"{bang}[{text}]({target})"


def _inline_code(code: str) -> str:
    code = re.sub(r"\r?\n", " ", code)
    if not code:
        return ""
    fence = "`" * (_longest_backticks(code) + 1)
    pad = " " if code.startswith("`") or code.endswith("`") else ""
    return f"{fence}{pad}{code}{pad}{fence}"


def _verbatim(element: HtmlElement) -> str:
    """Give the text of an element as it stands, with a line break for each `<br>`."""
    parts = []
    for event, node in lxml.etree.iterwalk(element, events=("start", "end")):
        if event == "start":
            parts.append("\n" if node.tag == "br" else node.text or "")
        elif node is not element:
            parts.append(node.tail or "")
    return "".join(parts)


def _longest_backticks(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def _collapsed(text: str | None) -> str:
    return _SPACE.sub(" ", text or "")


def _tidy(text: str) -> str:
    """Strip each line of a run of inline content, and the run."""
    return re.sub(r" *\n *", "\n", text).strip(" \n")


def _prefixed(text: str, first: str, others: str) -> str:
    lines = text.split("\n")
    rest = [f"{others}{line}" if line else others.rstrip() for line in lines[1:]]
    return "\n".join([f"{first}{lines[0]}", *rest])
