"""What makes a function a command: it returns a result, which is printed in the form that is asked for.

Texts of others (names of runs, questions, files) are printed without control characters, so that
nothing in them moves the cursor.
"""

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Annotated, Any, Literal, NamedTuple

import typer

from freshstack_dspy.pages.data import page_csv, page_json, page_latex
from freshstack_dspy.pages.html import html_document
from freshstack_dspy.pages.markdown import page_markdown
from freshstack_dspy.pages.page import Page, Span, Text, one_line
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.pages.terminal import page_text, width, wrapped

Form = Literal["markdown", "html", "latex", "csv", "json"]
_WRITERS: dict[Form | None, Callable[[Page], str]] = {
    None: page_text,
    "markdown": page_markdown,
    "html": html_document,
    "latex": page_latex,
    "csv": page_csv,
    "json": page_json,
}
_FORMAT = Annotated[
    Literal["markdown", "html", "latex", "csv"] | None,
    typer.Option("--format", help="Print it to be pasted elsewhere; of csv and latex the tables."),
]
_JSON = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]


class Outcome(NamedTuple):
    """What a command shows, and how it ends."""

    shown: Page | Shown
    hints: Sequence[Text] = ()
    """Below the page, on a screen alone."""
    complaints: Sequence[str] = ()
    """Lines on standard error."""
    code: int = 0
    """The exit code."""


def command(run: Callable[..., Outcome | Page | Shown]) -> Callable[..., None]:
    """Make a command of a function: with `--format` and `--json`, which print what it returns.

    A function that has a parameter `form` is given the form: None on a screen. One that has a
    `--format` of its own has `--json` alone.
    """
    signature = inspect.signature(run)
    given = dict(signature.parameters)
    takes_form = given.pop("form", None) is not None
    added = {"as_json": _JSON} if "format" in given else {"as_form": _FORMAT, "as_json": _JSON}
    options = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None if name == "as_form" else False,
            annotation=annotation,
        )
        for name, annotation in added.items()
    ]

    @wraps(run)
    def call(*, as_form: Form | None = None, as_json: bool = False, **words: Any) -> None:
        form = "json" if as_json else as_form
        returned = run(**words, **({"form": form} if takes_form else {}))
        outcome = returned if isinstance(returned, Outcome) else Outcome(returned)
        shown = outcome.shown
        page = shown if isinstance(shown, Page) else shown.page()
        if form is None:
            page = replace(page, parts=(*page.parts, *outcome.hints))
        print(_WRITERS[form](page), end="")
        for line in outcome.complaints:
            complain(line)
        raise typer.Exit(outcome.code)

    call.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*given.values(), *options], return_annotation=None
    )
    kept = {name: kind for name, kind in run.__annotations__.items() if name in given}
    call.__annotations__ = {**kept, **added}
    return call


def to_type(what: str, typed: str) -> Text:
    """Give a hint that ends in a command to be typed, which is not broken."""
    return Text((f"{what}: ", Span(typed, "code")))


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
