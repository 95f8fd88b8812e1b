"""What HTML pages and PDFs say, without what is around it."""

import hashlib
import importlib.util
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import lxml.etree
import lxml.html

from freshstack_dspy.corpus.tree import Skip
from freshstack_dspy.html import html_to_markdown

_SECONDS = 120
_PDF_PROGRAM = Path(__file__).with_name("pdf_program.py")
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

    Nothing that the page names is loaded.
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


def pdf_text(data: bytes, most: int) -> str | Skip:
    """Give the text of a PDF; each page ends with an empty line and a form feed.

    It is read in a process of its own, with bounds on time, memory and the characters of its text.
    """
    if importlib.util.find_spec("pypdf") is None:
        return _unreadable("a PDF; to read it: pip install 'freshstack_dspy[pages]'")
    # A build reads its corpora twice, and each PDF takes a second.
    kept = Path(_texts_of_pdfs().name, hashlib.sha256(b"%d " % most + data).hexdigest())
    if not kept.exists():
        kept.write_text(json.dumps(_extracted(data, most)), encoding="utf-8")
    answer = json.loads(kept.read_bytes())
    return _unreadable(answer["reason"]) if "reason" in answer else str(answer["text"])


@cache
def _texts_of_pdfs() -> TemporaryDirectory[str]:
    """Where the texts of PDFs are kept until this process ends."""
    return TemporaryDirectory(prefix="freshstack-pdf-")


def _extracted(data: bytes, most: int) -> dict[str, str]:
    command = [sys.executable, "-P", "-W", "ignore", str(_PDF_PROGRAM), str(most), str(_SECONDS)]
    try:
        done = subprocess.run(  # noqa: S603 - no shell, and words of our own
            command, input=data, capture_output=True, timeout=2 * _SECONDS, check=False
        )
        answer: dict[str, str] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {"reason": f"a PDF that takes more than {_SECONDS} seconds"}
    except ValueError:
        return {"reason": "a PDF that takes too much memory or time"}
    return answer


def _unreadable(reason: str) -> Skip:
    return Skip("unreadable", reason)
