"""Options that several commands have: each means the same wherever it stands."""

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

CollectionArgument = Annotated[Path, typer.Argument(help="Folder of a collection.")]
ConfigArgument = Annotated[
    Path, typer.Argument(help="TOML file of a build; `freshstack init` writes an example.")
]
RunsArgument = Annotated[list[Path], typer.Argument(help="Run files, in TREC's format.")]

ModeName = Literal["live", "replay", "defer", "rerecord"]
ModeOption = Annotated[
    ModeName,
    typer.Option(
        help="live: ask for what is not recorded. replay: recorded replies only, no network. "
        "defer: write missing requests to a file. rerecord: ask everything again."
    ),
]
RequestsOption = Annotated[
    Path | None, typer.Option(help="With defer: the file of missing requests.")
]
RepliesOption = Annotated[
    list[Path] | None,
    typer.Option("--replies", help="Bundle of recorded replies to read too; may be repeated."),
]
LogOption = Annotated[
    Path | None, typer.Option(help="Append one JSON line for each request to this file.")
]

SlicesName = Literal["supported", "all", "answerable", "partly_supported", "unanswerable"]
SlicesOption = Annotated[
    SlicesName,
    typer.Option(
        help="Which queries: those with a supported nugget, all, those whose every nugget is "
        "supported (answerable, the paper's filter), or those of another slice."
    ),
]
KOption = Annotated[int | None, typer.Option("--k", min=1, help="Cut-off: look at the top k.")]
LimitOption = Annotated[int | None, typer.Option(min=1, help="Show or take at most so many.")]
ConventionsName = Literal["ours", "trec_eval", "ndeval", "pyndeval", "freshstack"]
ConventionsOption = Annotated[
    ConventionsName,
    typer.Option(help="Whose rules for ties, absent and empty queries, and rounding."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]
FormatOption = Annotated[
    Literal["markdown", "latex", "csv"] | None,
    typer.Option("--format", help="Print the table to be pasted elsewhere."),
]
OutOption = Annotated[Path | None, typer.Option(help="File or folder to write.")]
ReplaceOption = Annotated[bool, typer.Option("--replace", help="Replace what is at --out.")]


def check_out(out: Path | None, *, replace: bool = False) -> None:
    """Check that an output can be written, before anything is read or paid for.

    Raises:
        ConfigError: Something is there and is not to be replaced, or its folder does not exist or
            cannot be written.
    """
    from freshstack_dspy.errors import ConfigError

    if out is None:
        return
    if out.exists() and not replace:
        raise ConfigError(f"{out} exists; add --replace, or name another --out")
    folder = next(parent for parent in out.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ConfigError(f"{out} cannot be written: {folder} is no folder that can be written")
