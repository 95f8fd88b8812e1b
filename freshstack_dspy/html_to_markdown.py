"""HTML of a post → Markdown, with code exactly as it was written.

The result is for search and for language models: it reads as Markdown, and nothing in running
text is escaped, so that `snake_case` and `a < b` stay what they are.
"""

import re
from collections.abc import Callable
from typing import Any

from bs4 import BeautifulSoup, Tag
from bs4.element import CData, NavigableString
from markdownify import ATX, MarkdownConverter

_Markdownify: Any = MarkdownConverter  # its stubs leave most methods out
_SAFE_URL = re.compile(r"(?:https?:|mailto:|ftp:|[^:]*$|[^:]*[/?#])", re.IGNORECASE)
_COMMENT_END = re.compile(r"--\s*>")
_SECTION = re.compile(
    r"<!\[(?!(?:CDATA\[[^\]<]*\]\]|(?:if|else|endif)\b[^\]<>]*\])>)", re.IGNORECASE
)
_TEXT = (NavigableString, CData)  # but no comment
_LANGUAGE = re.compile(r"\blang(?:uage)?-(?!(?:none|default)\b)([\w+#.-]+)")


def html_to_markdown(html: str) -> str:
    """Convert the HTML of a post.

    Code blocks become fenced blocks whose text is the code, but for one closing line break; the
    fence is longer than any run of backticks inside. Links to anything but web, mail and relative
    addresses keep their text only. HTML that is nested too deeply, or has a number of thousands of
    digits, is reduced to its text.
    """
    soup = BeautifulSoup(_without_open_ends(html), "html.parser")
    try:
        text: str = _Converter().convert_soup(soup)
    except (RecursionError, ValueError):
        text = soup.get_text()
    return text.strip()


def _without_open_ends(html: str) -> str:
    """Write as text what begins a comment, a section or a tag and has no end.

    For each of them html.parser would read on to the end of the document, and find nothing.
    """
    html = _SECTION.sub("&lt;![", html)
    ends = [0, *(match.end() for match in _COMMENT_END.finditer(html))]
    html = html[: ends[-1]] + html[ends[-1] :].replace("<!--", "&lt;!--")
    end = html.rfind(">") + 1
    return html[:end] + html[end:].replace("<", "&lt;")


def _inline(mark: Callable[..., str]) -> Callable[..., str]:
    """Mark a text up, but not where it holds blocks: code would no longer begin its line."""
    return lambda self, el, text, parent_tags: (
        text if "\n\n" in text else mark(self, el, text, parent_tags)
    )


class _Converter(_Markdownify):  # type: ignore[misc]
    class Options:
        bullets = "-"
        heading_style = ATX
        sub_symbol = "<sub>"
        sup_symbol = "<sup>"
        table_infer_header = True
        wrap = True
        wrap_width = None  # no line is wrapped: line breaks in a paragraph become spaces

    def __init__(self) -> None:
        super().__init__()
        self._items: dict[int, int] = {}  # of each ordered list, the number of its next item

    def escape(self, text: str, parent_tags: set[str]) -> str:
        return text.replace("\xa0", " ")

    def process_text(self, el: Any, parent_tags: set[str]) -> str:
        text: str = super().process_text(el, parent_tags)
        follows_break = isinstance(el.previous_sibling, Tag) and el.previous_sibling.name == "br"
        return text.lstrip(" ") if follows_break and "pre" not in parent_tags else text

    convert_b = convert_strong = _inline(_Markdownify.convert_b)
    convert_em = convert_i = _inline(_Markdownify.convert_em)
    convert_del = convert_s = convert_strike = _inline(_Markdownify.convert_del)

    def convert_a(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return text if "_noformat" in parent_tags else _link(text, el.get("href"))

    def convert_img(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        source = el.get("src")
        alt = str(el.get("alt") or "")
        return f"!{_link(alt, source) or f'[]({source})'}" if _is_safe(source) else alt

    def convert_br(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return " " if "_inline" in parent_tags else "\n"

    def convert_code(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        if "_noformat" in parent_tags:
            return text
        code = re.sub(r"\r?\n", " ", _verbatim(el))
        fence = "`" * (_longest_backticks(code) + 1)
        pad = " " if code.startswith("`") or code.endswith("`") else ""
        return f"{fence}{pad}{code}{pad}{fence}" if code else ""

    def convert_li(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        parent, text = el.parent, text.strip()
        if parent is None or parent.name != "ol" or not text:
            item: str = super().convert_li(el, text, parent_tags)
            return item
        start = str(parent.get("start", ""))
        number = self._items.get(id(parent), int(start) if start.isdecimal() else 1)
        self._items[id(parent)] = number + 1
        bullet = f"{number}. "
        lines = (f"{' ' * len(bullet)}{line}" if line else "" for line in text.split("\n"))
        return bullet + "\n".join(lines)[len(bullet) :] + "\n"

    convert_samp = convert_tt = convert_code

    def convert_kbd(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f"<kbd>{text}</kbd>" if text.strip() else text

    def convert_pre(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        code = _verbatim(el).removesuffix("\n")
        if not code.strip():
            return ""
        classes = [el.get("class", ""), *(child.get("class", "") for child in el.find_all(limit=1))]
        language = _LANGUAGE.search(str(classes))
        fence = "`" * max(3, _longest_backticks(code) + 1)
        return f"\n\n{fence}{language[1] if language else ''}\n{code}\n{fence}\n\n"

    def convert_td(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        cell: str = super().convert_td(el, text.replace("|", r"\|"), parent_tags)
        return cell

    convert_th = convert_td

    def convert_template(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return ""


def _link(text: str, url: Any) -> str:
    """Write a link; white space at the ends of its text stays outside."""
    inner = text.strip()
    if not inner or "\n\n" in text or not _is_safe(url):
        return text
    before, _, after = text.partition(inner)
    url = str(url).strip()
    if inner == url:
        return f"{before}<{url}>{after}"
    target = f"<{url}>" if re.search(r"[\s()]", url) else url
    return f"{before}[{inner}]({target}){after}"


def _is_safe(url: Any) -> bool:
    text = str(url or "").strip()
    return bool(text) and text.isprintable() and _SAFE_URL.match(text) is not None


def _verbatim(element: Tag) -> str:
    """Give the text of an element as it is, with a line break for each `<br>`."""
    return "".join(
        "\n" if isinstance(each, Tag) else str(each)
        for each in element.descendants
        if (each.name == "br" if isinstance(each, Tag) else type(each) in _TEXT)
    )


def _longest_backticks(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
