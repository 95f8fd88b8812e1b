"""What makes a function a command.

Its positional parameters are the arguments and its keyword-only ones the options; the section `Args:`
of its docstring, or `options.HELP` for those that several commands share, is their help. What it
returns is printed in the form that is asked for, without control characters, so that no text of others
(names of runs, questions, files) moves the cursor.
"""

import inspect
import re
import sys
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import wraps
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import typer

from freshstack_dspy.cli.options import HELP
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
    typer.Option("--format", help="Print it in this form; csv and latex have the tables alone."),
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


def command(run: Callable[..., Any]) -> Callable[..., None]:
    """Make a command of a function.

    One that returns something has `--format` and `--json`, which print it; one that has a
    `--format` of its own has `--json` alone. A parameter `form` is given the form: None on a screen.
    The fields of a parameter that is a named tuple are options, each of its own.
    """
    signature = inspect.signature(run)
    about, own = _documented(run)
    groups = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if hasattr(parameter.annotation, "_fields")
    }
    of_groups = {
        name: text for group in groups.values() for name, text in _documented(group)[1].items()
    }
    helps = HELP | of_groups | own
    parameters = {
        each.name: _declared(each, helps)
        for name, parameter in signature.parameters.items()
        if name != "form"
        for each in (_fields(groups[name]) if name in groups else [parameter])
    }
    prints = signature.return_annotation is not None
    if prints and "format" not in parameters:
        parameters["as_form"] = _option("as_form", _FORMAT, None)
    if prints:
        parameters["as_json"] = _option("as_json", _JSON, default=False)

    @wraps(run)
    def call(*, as_form: Form | None = None, as_json: bool = False, **words: Any) -> None:
        form: Form | None = "json" if as_json else as_form
        if "form" in signature.parameters:
            words["form"] = form
        for name, group in groups.items():
            words[name] = group(**{field: words.pop(field) for field in group._fields})
        returned = run(**words)
        if returned is not None:
            _show(returned if isinstance(returned, Outcome) else Outcome(returned), form)

    call.__doc__ = about
    call.__signature__ = inspect.Signature([*parameters.values()])  # type: ignore[attr-defined]
    call.__annotations__ = {name: each.annotation for name, each in parameters.items()}
    return call


def _documented(run: Any) -> tuple[str, dict[str, str]]:
    """What a docstring says first, and of each argument."""
    about, _, rest = inspect.cleandoc(run.__doc__ or "").partition("\n\nArgs:\n")
    arguments = re.findall(r"^    (\w+): (.*(?:\n     .*)*)", rest, re.MULTILINE)
    return about, {name: " ".join(text.split()) for name, text in arguments}


def _fields(group: Any) -> list[inspect.Parameter]:
    """The fields of a named tuple, as keyword-only parameters."""
    return [
        _option(name, kind, group._field_defaults.get(name, inspect.Parameter.empty))
        for name, kind in group.__annotations__.items()
    ]


def _declared(parameter: inspect.Parameter, helps: dict[str, str]) -> inspect.Parameter:
    """Give a parameter its declaration for Typer: with its help, and a flag without a `--no-`."""
    name, kind, declared = parameter.name, parameter.annotation, None
    optional = [each for each in get_args(kind) if get_origin(each) is Annotated]
    if get_origin(kind) is Annotated:
        kind, declared = get_args(kind)
    elif optional:  # Annotated[int, …] | None
        kind, declared = get_args(optional[0])
        kind |= None
    if declared is None and parameter.kind is not parameter.KEYWORD_ONLY:
        declared = typer.Argument()
    elif declared is None:
        declared = typer.Option(*([f"--{name.replace('_', '-')}"] if kind is bool else []))
    declared = copy(declared)
    declared.help = helps[name]
    return _option(name, Annotated[kind, declared], parameter.default)


def _option(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _show(outcome: Outcome, form: Form | None) -> None:
    """Print what a command returned, and end it."""
    shown = outcome.shown
    page = shown if isinstance(shown, Page) else shown.page()
    if form is None:
        page = replace(page, parts=(*page.parts, *outcome.hints))
    print(_WRITERS[form](page), end="")
    for line in outcome.complaints:
        complain(line)
    raise typer.Exit(outcome.code)


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
