"""`freshstack synthesize` and `decontextualize`: programs over documents alone."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from freshstack_dspy.cli.lines import complain
from freshstack_dspy.cli.models import ConfigOption, ModelOption, opened_model
from freshstack_dspy.cli.outputs import check_inputs

if TYPE_CHECKING:
    from freshstack_dspy.recipes.documents import Harvest

DocumentsArgument = Annotated[Path, typer.Argument(help="A file or a folder.")]
OutOption = Annotated[Path, typer.Option(help="JSON Lines file to write.")]
LimitOption = Annotated[int, typer.Option(min=1, max=20, help="Most for each piece of a document.")]


def synthesize(
    path: DocumentsArgument,
    out: OutOption,
    limit: LimitOption = 3,
    examples: Annotated[
        Path | None, typer.Option(help="Questions whose style to follow: one a line, or .jsonl.")
    ] = None,
    config: ConfigOption = None,
    model: ModelOption = None,
) -> None:
    """Make questions with answers from documents, as [queries] source = "jsonl" reads them."""
    from freshstack_dspy.cli.bars import Bars
    from freshstack_dspy.recipes.documents import synthesize as from_documents
    from freshstack_dspy.recipes.synthesis import read_style

    check_inputs(out, path, examples, config)
    style = read_style(examples) if examples else []
    with opened_model(config, model) as lm, Bars() as bars:
        harvest = from_documents(path, lm, limit=limit, style_examples=style, progress=bars)
    _write(harvest, out, "questions")


def decontextualize(
    path: DocumentsArgument,
    out: OutOption,
    limit: LimitOption = 3,
    config: ConfigOption = None,
    model: ModelOption = None,
) -> None:
    """Break documents into passages that stand on their own."""
    from freshstack_dspy.cli.bars import Bars
    from freshstack_dspy.recipes.documents import decontextualize as from_documents

    check_inputs(out, path, config)
    with opened_model(config, model) as lm, Bars() as bars:
        harvest = from_documents(path, lm, limit=limit, progress=bars)
    _write(harvest, out, "passages")


def _write(harvest: "Harvest", out: Path, what: str) -> None:
    from freshstack_dspy.errors import CollectionError

    text = "".join(record.model_dump_json() + "\n" for record in harvest.records)
    try:
        out.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise CollectionError(f"{out}: cannot be written: {error}") from None
    typer.echo(f"{out}: {len(harvest.records)} {what}")
    for failure in harvest.failures:
        place = f"{failure.path} {failure.start_byte}–{failure.end_byte}"
        complain(f"failed: {place}: {failure.status}: {failure.message}")
    if harvest.skipped:
        first = harvest.skipped[0]
        complain(f"{len(harvest.skipped)} files skipped, as {first.path}: {first.reason}")
