"""Options that several commands have, and the session of those that ask a model."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from freshstack_dspy.config import BuildConfig
    from freshstack_dspy.progress import ProgressBars
    from freshstack_dspy.recipes.opening import SessionOptions
    from freshstack_dspy.recipes.session import Session
    from freshstack_dspy.stored.slices import Slices

CollectionArgument = Annotated[Path, typer.Argument(help="Folder of a collection.")]
ConfigArgument = Annotated[
    Path, typer.Argument(help="TOML file of a build; `freshstack init` writes an example.")
]
RunsArgument = Annotated[
    list[Path], typer.Argument(help="Run files, in TREC's format, or of searches with chunk ids.")
]

ModeName = Literal["live", "replay", "defer", "rerecord"]
ModeOption = Annotated[
    ModeName,
    typer.Option(
        help="live: ask for what is not recorded. replay: recorded replies only, no network. "
        "defer: write missing requests to a file. rerecord: ask everything again."
    ),
]
FailedOption = Annotated[
    bool, typer.Option("--failed", help="With --mode rerecord: ask again only for what failed.")
]
EngineName = Literal["local", "ray"]
EngineOption = Annotated[
    EngineName | None,
    typer.Option(help="Where it is done, in place of [engine] name: here, or over a cluster."),
]
PlanOption = Annotated[
    bool, typer.Option("--plan", help="Say what it would ask for and cost; nothing is sent.")
]
LogOption = Annotated[
    Path | None, typer.Option(help="Append one JSON line for each request to this file.")
]

SlicesOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Which queries: supported, those with a supported nugget; all; answerable, those whose "
        "every nugget is (the paper's filter); partly_supported, unanswerable, undetermined or "
        "without_nuggets; may be repeated.",
    ),
]
NuggetsName = Literal["supported", "all"]
NuggetsOption = Annotated[
    NuggetsName,
    typer.Option(
        help="Which nuggets of a query: those that the corpus supports, or all, of which the "
        "unsupported are never found."
    ),
]
ConventionsName = Literal[
    "ours", "trec_eval", "ndeval", "ndeval-traditional", "pyndeval", "freshstack"
]
ConventionsOption = Annotated[
    ConventionsName,
    typer.Option(help="Whose rules for ties, absent and empty queries, and rounding."),
]
OutOption = Annotated[Path | None, typer.Option(help="File or folder to write.")]
ReplaceOption = Annotated[bool, typer.Option("--replace", help="Replace what is at --out.")]


def slices_named(given: list[str] | None) -> "Slices":
    """Give the slices that an option names: one as its name; they are checked where they are read."""
    named: Any = given[0] if given and len(given) == 1 else given
    return named  # type: ignore[no-any-return]


def one_of(names: Callable[[], Sequence[str]]) -> Callable[[str], str]:
    """Check an option's name among those of ours and of installed packages."""

    def check(name: str) -> str:
        if name not in (known := names()):
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(known)}.")
        return name

    return check


def at_engine(config: "BuildConfig", name: EngineName | None) -> "BuildConfig":
    """Put the engine that an option names in place of the configuration's."""
    if name is None:
        return config
    return config.model_copy(update={"engine": config.engine.model_copy(update={"name": name})})


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
def asking(
    mode: ModeName, log: Path | None = None, *, failed: bool = False
) -> Iterator[tuple["SessionOptions", "ProgressBars"]]:
    """Show progress, and write each request as a line of JSON to a log; give a session's options."""
    from freshstack_dspy.lm.events import event_log
    from freshstack_dspy.progress import ProgressBars

    with ProgressBars() as bars, event_log(log) if log else nullcontext() as callback:
        yield {"mode": mode, "failed": failed, "progress": bars, "callback": callback}, bars


@contextmanager
def judging(
    config: Path,
    mode: ModeName = "live",
    *,
    failed: bool = False,
    log: Path | None = None,
    out: Path | None = None,
    searching: bool = False,
) -> Iterator["Session"]:
    """Open a session for a configuration's model, and its embedders if searching, with progress.

    Another process is kept from asking for the same `out`.
    """
    from freshstack_dspy.config import load_judging
    from freshstack_dspy.files import only_writer
    from freshstack_dspy.lm.telemetry import span
    from freshstack_dspy.recipes.opening import open_session

    settings = load_judging(config)
    with (
        only_writer(out, " ".join(["freshstack", *sys.argv[1:2]]))
        if out is not None
        else nullcontext(),
        asking(mode, log, failed=failed) as (options, _),
        span(sys.argv[1]),
        open_session(settings, searching=searching, **options) as session,
    ):
        yield session
