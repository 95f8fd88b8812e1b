"""`freshstack synthesize` and `decontextualize`: programs over documents alone."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from freshstack_dspy.cli.options import ReplaceOption, check_out

if TYPE_CHECKING:
    from freshstack_dspy.recipes.documents import Harvest

DocumentsArgument = Annotated[Path, typer.Argument(help="A file or a folder.")]
ConfigOption = Annotated[Path, typer.Option(help="TOML file; its [model], [budget] and [cache].")]
LinesOption = Annotated[Path, typer.Option(help="JSON Lines file to write.")]
EachOption = Annotated[
    int, typer.Option("--limit", min=1, max=20, help="Most for each piece of a document.")
]


def synthesize(
    path: DocumentsArgument,
    config: ConfigOption,
    out: LinesOption,
    limit: EachOption = 3,
    examples: Annotated[
        Path | None, typer.Option(help="Questions whose style to follow: one a line, or .jsonl.")
    ] = None,
    replace: ReplaceOption = False,
) -> None:
    """Make questions with answers from documents."""
    from freshstack_dspy.cli.options import judging
    from freshstack_dspy.config import load_judging
    from freshstack_dspy.recipes.documents import synthesize as from_documents
    from freshstack_dspy.recipes.synthesis import read_style

    check_out(out, replace=replace)
    style = read_style(examples) if examples else []
    with judging(load_judging(config)) as session:
        harvest = from_documents(session, path, limit=limit, style_examples=style)
    _write(harvest, out, "questions")


def decontextualize(
    path: DocumentsArgument,
    config: ConfigOption,
    out: LinesOption,
    limit: EachOption = 3,
    replace: ReplaceOption = False,
) -> None:
    """Break documents into passages that stand on their own."""
    from freshstack_dspy.cli.options import judging
    from freshstack_dspy.config import load_judging
    from freshstack_dspy.recipes.documents import decontextualize as from_documents

    check_out(out, replace=replace)
    with judging(load_judging(config)) as session:
        harvest = from_documents(session, path, limit=limit)
    _write(harvest, out, "passages")


def _write(harvest: "Harvest", out: Path, what: str) -> None:
    from freshstack_dspy.cli.printing import complain, say

    lines = (record.model_dump_json() + "\n" for record in harvest.records)
    out.write_text("".join(lines), encoding="utf-8", newline="\n")
    say(f"{out}: {len(harvest.records)} {what}")
    for failure in harvest.failures:
        place = f"{failure.path} {failure.start_byte}–{failure.end_byte}"
        complain(f"failed: {place}: {failure.status}: {failure.message}")
    if harvest.skipped:
        first = harvest.skipped[0]
        complain(f"{len(harvest.skipped)} files skipped, as {first.path}: {first.reason}")
