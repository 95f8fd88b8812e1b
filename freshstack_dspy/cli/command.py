"""What makes a function a command, and the options and helpers that commands share.

Its positional parameters are the arguments and its keyword-only ones the options; the section `Args:`
of its docstring, or `HELP` for those that several commands share, is their help. What it returns is
printed in the form that is asked for, without control characters, so that no text of others (names of
runs, questions, files) moves the cursor.
"""

import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args, get_origin

import typer

from freshstack_dspy.pages.data import page_csv, page_json, page_latex
from freshstack_dspy.pages.html import html_document
from freshstack_dspy.pages.markdown import page_markdown
from freshstack_dspy.pages.page import Page, Span, Text, one_line
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.pages.terminal import page_text

if TYPE_CHECKING:
    from freshstack_dspy.config import Role
    from freshstack_dspy.progress import ProgressBars
    from freshstack_dspy.recipes.opening import SessionOptions
    from freshstack_dspy.recipes.session import Session
    from freshstack_dspy.stored.contents import Slices

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


class Written(Outcome):
    """The outcome of a command that writes files, whose page is a few lines."""


def wrote(files: Path | Sequence[Path], *lines: str | Text, **about: Any) -> Written:
    """Say what was written; as data it is the files as `written`, and what is said about them."""
    paths = [files] if isinstance(files, Path) else files
    texts = tuple(Text(line) if isinstance(line, str) else line for line in lines)
    return Written(Page("", texts, {"written": [str(path) for path in paths], **about}))


def command(run: Callable[..., Any]) -> Callable[..., None]:
    """Make a command of a function.

    Each has `--json`, and `--format` unless it has one of its own or only says what it wrote; they
    print what it returns. One that returns None has printed it. A parameter `form` is given the form: None on a screen.
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
    if "format" not in parameters and signature.return_annotation is not Written:
        parameters["as_form"] = _option("as_form", _FORMAT, None)
    parameters["as_json"] = _option("as_json", _JSON, default=False)

    @wraps(run)
    def call(*, as_form: Form | None = None, as_json: bool = False, **words: Any) -> None:
        form: Form | None = "json" if as_json else as_form
        if "form" in signature.parameters:
            words["form"] = form
        for name, group in groups.items():
            words[name] = group(**{field: words.pop(field) for field in group._fields})
        with _warnings_printed():
            returned = run(**words)
            if returned is not None:
                _show(returned if isinstance(returned, Outcome) else Outcome(returned), form)

    call.__doc__ = about
    call.__signature__ = inspect.Signature([*parameters.values()])  # type: ignore[attr-defined]
    call.__annotations__ = {name: each.annotation for name, each in parameters.items()}
    return call


@contextmanager
def _warnings_printed() -> Iterator[None]:
    """Print warnings for users below what is done, each once."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("ignore")  # a framework may have many about itself
        warnings.simplefilter("always", UserWarning)
        # Pydantic warns of LiteLLM's types in the first call of each kind.
        warnings.filterwarnings("ignore", r"Items? .* using the `ReadOnly` qualifier", UserWarning)
        try:
            yield
        finally:
            for line in dict.fromkeys(str(each.message) for each in warned):
                complain(f"warning: {line}")


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


def complain(text: str) -> None:
    """Print one line on standard error."""
    print(one_line(text), file=sys.stderr)


# What several commands share


AtLeastOne = Annotated[int, typer.Option(min=1)]
FromZero = Annotated[int, typer.Option(min=0)]
Matters = Annotated[float, typer.Option(metavar="DIFFERENCE")]
MATTERS = 0.02
"""As `records.MATTERS`, whose module takes long to import for a list of commands."""
Share = Annotated[float, typer.Option(metavar="SHARE", min=0, max=1)]
Mode = Literal["live", "replay", "defer", "rerecord"]
Nuggets = Literal["supported", "all"]
Technique = Literal["question", "sub_questions", "closed_book_answer", "answer", "nuggets"]
Conventions = Literal["ours", "trec_eval", "ndeval"]
UnknownIds = Literal["error", "drop"]
Measures = Annotated[list[str] | None, typer.Option("--measure", "-m")]
SlicesNamed = Annotated[list[str] | None, typer.Option(metavar="NAME")]


class Asking(NamedTuple):
    """How a model is asked.

    Args:
        mode: live: ask for what is not recorded. replay: recorded replies only, no network. defer:
            write missing requests to a file. rerecord: ask everything again.
        failed: With --mode rerecord: ask again only for what failed. With --mode defer: for that too.
    """

    mode: Mode = "live"
    failed: bool = False
    log: Path | None = None


HELP = {
    "collection": "Folder of a collection.",
    "judgments": "Folder of a collection, or a file of TREC or BEIR qrels.",
    "config": "TOML file of a build; `freshstack init` writes an example.",
    "runs": "Run files, in TREC's format, or passages or searches as JSON Lines.",
    "out": "File or folder to write.",
    "replace": "Replace what is at --out.",
    "log": "Append one JSON line for each request to this file.",
    "plan": "Say what it would ask for and cost; nothing is sent.",
    "keep_labels": "Keep labels that another judge made.",
    "slices": "Which queries: supported, those with a supported nugget; all; answerable, those whose "
    "every nugget is (the paper's filter); partly_supported, unanswerable, undetermined or "
    "without_nuggets; may be repeated.",
    "nuggets": "Which nuggets of a query: those that the corpus supports, or all, of which the "
    "unsupported are never found.",
    "measure": "A measure, e.g. alpha_nDCG@10, Coverage@20, AP, Recall@2000tok; may be repeated.",
    "by": "Also by group: tag, slice, date, date=2024-06-30, cutoff, contamination, difficulty, "
    "origin, language, cross_language, query, a column of the questions' table, or a CSV or TSV "
    "file of query_id and group; may be repeated.",
    "matters": "The smallest difference of means that matters to a decision between two runs.",
    "covered": "With runs of passages: the share of the evidence for a nugget, above 0, that a passage "
    "must hold to support it.",
    "unknown_ids": "What to do if a run has chunk ids that the corpus lacks.",
    "exclude_contaminated": "Leave out queries if the model knows this share of their nuggets "
    "without the corpus, e.g. 0.5.",
    "labels": "People's labels: also estimate the values had people made all labels; may be repeated.",
}
"""The help of arguments and options that commands share; a docstring says what is otherwise."""


def slices_named(given: list[str] | None) -> "Slices":
    """Give the slices that an option names: one as its name; they are checked where they are read."""
    named: Any = given[0] if given and len(given) == 1 else given
    return named  # type: ignore[no-any-return]


def names_of(runs: Sequence[Path]) -> list[str]:
    """Name runs by their files; those of one name by their paths."""
    names = [path.name for path in runs]
    return [path.name if names.count(path.name) == 1 else str(path) for path in runs]


def name_in(names: Callable[[], Sequence[str]]) -> Any:
    """Give an option that takes a name among ours and those of installed packages."""

    def check(name: str) -> str:
        if name not in (known := names()):
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(known)}.")
        return name

    return typer.Option(metavar="NAME", callback=check)


def check_out(out: Path | None, *, replace: bool | None = None, folder: bool = False) -> None:
    """Check that an output can be written, before anything is read or paid for.

    Args:
        out: The file or folder.
        replace: Whether one that exists is replaced; None: there is no such option.
        folder: Whether it is a folder.

    Raises:
        ConfigError: Something is there and is not to be replaced, or its folder does not exist or
            cannot be written.
    """
    from freshstack_dspy.errors import ConfigError
    from freshstack_dspy.files import check_writable

    if out is None:
        return
    if out.exists() and not replace:
        hint = "name another" if replace is None else "add --replace, or name another --out"
        raise ConfigError(f"{out} exists; {hint}")
    if out.is_dir() and not folder:
        raise ConfigError(f"{out} is a folder; name a file")
    check_writable(out)


@contextmanager
def asking(how: Asking) -> Iterator[tuple["SessionOptions", "ProgressBars"]]:
    """Show progress, and write each request as a line of JSON to a log; give a session's options.

    Where requests are deferred, the command is kept beside them, to be repeated.
    """
    from freshstack_dspy.errors import DeferredError
    from freshstack_dspy.lm.batch.deferred import keep_command
    from freshstack_dspy.lm.events import event_log
    from freshstack_dspy.progress import ProgressBars

    log = event_log(how.log) if how.log else nullcontext()
    with ProgressBars() as bars, log as callback:
        try:
            yield (
                {"mode": how.mode, "failed": how.failed, "progress": bars, "callback": callback},
                bars,
            )
        except DeferredError as error:
            if error.file is not None:
                keep_command(error.file, ["freshstack", *sys.argv[1:]])
            raise


@contextmanager
def judging(
    config: Path,
    how: Asking,
    out: Path | None = None,
    roles: "Sequence[Role | None]" = ("judge",),
) -> Iterator["Session"]:
    """Open a session for the models of roles, with progress.

    Another process is kept from asking for the same `out`.
    """
    from freshstack_dspy.config import load_judging
    from freshstack_dspy.files import only_writer
    from freshstack_dspy.lm.telemetry import span
    from freshstack_dspy.recipes.opening import open_session

    settings = load_judging(config)
    by = f"freshstack {sys.argv[1]}"
    with (
        only_writer(out, by) if out is not None else nullcontext(),
        asking(how) as (options, _),
        span(sys.argv[1]),
        open_session(settings, searching=False, roles=roles, **options) as session,
    ):
        yield session
