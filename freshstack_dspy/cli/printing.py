"""What commands print: lines and pages, for a screen or to paste.

Texts of others (names of runs, questions, files) are shown on one line, without control
characters, so that nothing in them moves the cursor.
"""

import sys
from typing import Any, Literal

from freshstack_dspy.pages.data import page_csv, page_json, page_latex
from freshstack_dspy.pages.html import html_document
from freshstack_dspy.pages.markdown import page_markdown
from freshstack_dspy.pages.page import Page, one_line
from freshstack_dspy.pages.terminal import page_text, width, wrapped

PageFormat = Literal["markdown", "html", "latex", "csv"]


# Lines


def say(text: str) -> None:
    """Print one line."""
    print(one_line(text))


def say_wrapped(text: str) -> None:
    """Print a long text in as many lines as the screen takes; those after the first hang."""
    for line in wrapped(text, width()):
        print(line)


def complain(text: str) -> None:
    """Print one line on standard error."""
    print(one_line(text), file=sys.stderr)


# Pages


_WRITERS = {
    "markdown": page_markdown,
    "html": html_document,
    "latex": page_latex,
    "csv": page_csv,
}


def present(page: Page, form: PageFormat | None = None, *, as_json: bool = False) -> None:
    """Print a page: for the screen, as JSON, or in a format to paste elsewhere."""
    if as_json:
        print(page_json(page), end="")
    else:
        print(page_text(page) if form is None else _WRITERS[form](page), end="")


def show_json(value: Any) -> None:
    """Print a value as JSON: models, named tuples and dataclasses become objects."""
    present(Page("", data=value), as_json=True)
