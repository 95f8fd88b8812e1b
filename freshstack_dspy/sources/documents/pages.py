"""HTML pages → Markdown: what a page says, without the menus around it."""

import re
from typing import Any

import lxml.etree
import lxml.html

from freshstack_dspy.sources.html_markdown import html_to_markdown

_MAIN = (
    "//main",
    "//*[@role='main']",
    "//article[count(//article)=1]",
    "//*[@id='content' or @id='main-content' or @id='main']",
    "//body",
)
_AROUND = (
    "//nav | //header[not(.//h1)] | //footer | //aside | //form | //script | //style | "
    "//noscript | //template | //head | //*[@role='navigation' or @role='search' or "
    "@role='banner' or @role='contentinfo'] | //a[contains(@class, 'headerlink')] | "
    "//*[@aria-hidden='true'] | //button"
)


def page_text(html: str) -> str:
    """Give the main part of a page as Markdown; its title, where it has no heading of its own.

    Args:
        html: A whole page, or a part of one. Nothing that it names is loaded.
    """
    parser = lxml.html.HTMLParser(remove_comments=True, remove_pis=True, no_network=True)
    without_declaration = re.sub(r"\A\s*<\?xml[^>]*\?>", "", html)
    if not without_declaration.strip():
        return ""
    try:
        root = lxml.html.document_fromstring(
            without_declaration, parser=parser, ensure_head_body=True
        )
    except lxml.etree.ParserError:  # nothing in it but comments
        return ""
    title = " ".join((root.findtext(".//title") or "").split())
    for element in root.xpath(_AROUND):
        if element.getparent() is not None:
            element.drop_tree()
    main = next(found for path in _MAIN if (found := root.xpath(path)))[0]
    markup: Any = lxml.html.tostring(main, encoding="unicode", with_tail=False)
    text = html_to_markdown(markup)
    if title and not main.xpath(".//h1"):
        return f"# {title}\n\n{text}".strip()
    return text
