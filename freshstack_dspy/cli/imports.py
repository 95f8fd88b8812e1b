"""`freshstack import`: the collections of others."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

if TYPE_CHECKING:
    from freshstack_dspy.collection.imports.importing import ImportFormat

MissingName = Literal["refuse", "drop"]


def import_(
    format: Annotated[  # noqa: A002  a word of export gets an answer, so any is taken here
        str,
        typer.Argument(metavar="<freshstack|beir|crux|nuggetizer>", help="The layout to read."),
    ],
    path: Annotated[Path, typer.Argument(help="Folder or file of the other's collection.")],
    out: Annotated[Path, typer.Option(help="Folder of the new collection.")],
    name: Annotated[
        str | None, typer.Option(help="Of the new collection; by default that of PATH.")
    ] = None,
    corpus: Annotated[
        Path | None, typer.Option(help="File or folder of the corpus, if not in PATH.")
    ] = None,
    threshold: Annotated[
        int | None, typer.Option(min=1, help="The lowest label that counts as support.")
    ] = None,
    missing: Annotated[
        MissingName,
        typer.Option(
            help="Judgments of a query or document that is not there. refuse: stop. drop: leave "
            "them out, and list the ids in skipped.jsonl."
        ),
    ] = "refuse",
    split: Annotated[
        str | None, typer.Option(help="Of beir: which qrels, where there are several.")
    ] = None,
) -> None:
    """Make a collection of another's, to evaluate on, extend or judge again."""
    from freshstack_dspy.cli.lines import say
    from freshstack_dspy.cli.outputs import check_inputs
    from freshstack_dspy.collection.imports.foreign import NO_TEXT
    from freshstack_dspy.collection.imports.importing import import_collection
    from freshstack_dspy.collection.manifest import baseline_warning

    check_inputs(out, path, corpus)
    collection = import_collection(
        cast("ImportFormat", format),
        path,
        out,
        name=name,
        corpus=corpus,
        threshold=threshold,
        missing=missing,
        split=split,
    )
    counts, scale = collection.manifest.counts, collection.manifest.scale
    say(f"{collection.name}: {out}")
    say(
        f"{counts.queries:,} queries, {counts.nuggets:,} nuggets, {counts.chunks:,} chunks, "
        f"{counts.judgments - counts.unlabelled:,} labels ({counts.supported:,} of support, which "
        f"is {scale.threshold} or more on the scale {scale.name})"
        + (f", {counts.unlabelled:,} judgments without a label" if counts.unlabelled else "")
    )
    say("slices: " + ", ".join(f"{n:,} {name}" for name, n in counts.slices.items()))
    for reason, number in counts.rejected.items():
        say(f"left out: {number:,} queries {reason}")
    failed = sum(n for statuses in counts.failures.values() for n in statuses.values())
    if failed:
        say(f"{failed:,} failures; see {out / 'failures.jsonl'}")
    lacking = collection.read_skipped()
    if textless := sum(file.reason == NO_TEXT for file in lacking):
        say(f"{textless:,} chunks have no text; see {out / 'skipped.jsonl'}")
    if dropped := len(lacking) - textless:
        say(f"{dropped:,} ids that judgments name are not there; see {out / 'skipped.jsonl'}")
    if nameless := sum(not query.text for query in collection.queries):
        say(f"queries without a text: {nameless:,}")
    if warning := baseline_warning(collection.manifest):
        say(warning.strip("*"))
    say(f"content {collection.manifest.content_hash}")
