"""The options that several commands share, and the session of those that ask a model."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

if TYPE_CHECKING:
    from freshstack_dspy.progress import ProgressBars
    from freshstack_dspy.recipes.opening import SessionOptions
    from freshstack_dspy.recipes.session import Session
    from freshstack_dspy.stored.contents import Slices

AtLeastOne = Annotated[int, typer.Option(min=1)]
FromZero = Annotated[int, typer.Option(min=0)]
Share = Annotated[float, typer.Option(metavar="SHARE", min=0, max=1)]
Mode = Literal["live", "replay", "defer", "rerecord"]
Nuggets = Literal["supported", "all"]
Conventions = Literal["ours", "trec_eval", "ndeval"]
UnknownIds = Literal["error", "drop"]
Measures = Annotated[list[str] | None, typer.Option("--measure", "-m")]
SlicesNamed = Annotated[list[str] | None, typer.Option(metavar="NAME")]


class Asking(NamedTuple):
    """How a model is asked.

    Args:
        mode: live: ask for what is not recorded. replay: recorded replies only, no network. defer:
            write missing requests to a file. rerecord: ask everything again.
        failed: With --mode rerecord: ask again only for what failed.
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
        raise ConfigError(f"{out} is a folder, and a file is wanted")
    check_writable(out)


@contextmanager
def asking(how: Asking) -> Iterator[tuple["SessionOptions", "ProgressBars"]]:
    """Show progress, and write each request as a line of JSON to a log; give a session's options."""
    from freshstack_dspy.lm.events import event_log
    from freshstack_dspy.progress import ProgressBars

    log = event_log(how.log) if how.log else nullcontext()
    with ProgressBars() as bars, log as callback:
        yield (
            {"mode": how.mode, "failed": how.failed, "progress": bars, "callback": callback},
            bars,
        )


@contextmanager
def judging(config: Path, how: Asking, out: Path | None = None) -> Iterator["Session"]:
    """Open a session for a configuration's model, with progress.

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
        open_session(settings, searching=False, **options) as session,
    ):
        yield session
