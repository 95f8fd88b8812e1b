"""`freshstack validate`: all that is wrong with a collection or an export."""

from pathlib import Path
from typing import Annotated, Literal

import typer

ValidatedName = Literal[
    "collection", "freshstack", "beir", "mteb", "trec", "hf", "crux", "nuggetizer"
]


def validate(
    path: Annotated[Path, typer.Argument(help="Folder of a collection or of an export.")],
    format: Annotated[  # noqa: A002  the option's name is the user's word
        ValidatedName | None, typer.Option(help="What it is; by default what its files say.")
    ] = None,
) -> None:
    """Check every reference, count and hash; list all faults."""
    from freshstack_dspy.cli.lines import say
    from freshstack_dspy.collection.validate import validate as find

    report = find(path, format)
    for finding in report.findings:
        kind = "fault" if finding.is_fault else "warning"
        say(f"{kind}: {finding.place}: {finding.message}")
    counts = ", ".join(f"{number:,} {name}" for name, number in report.counts.items() if number)
    found = ", ".join(
        f"{len(each)} {kind}{'' if len(each) == 1 else 's'}"
        for kind, each in (("fault", report.faults), ("warning", report.warnings))
        if each
    )
    if report.faults:
        say(f"{path}: {found} in this {report.format}: {counts}")
        raise typer.Exit(1)
    say(f"{path}: ok{f' with {found}' if found else ''}, {report.format}: {counts}")
