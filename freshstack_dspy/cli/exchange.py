"""`freshstack export`, `import`, `validate`: to and from the layouts of other tools."""

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from freshstack_dspy.cli.options import (
    CollectionArgument,
    JsonOption,
    OutOption,
    ReplaceOption,
    SlicesOption,
)

ExportName = Literal["freshstack", "beir", "mteb", "trec", "hf", "crux", "nuggetizer"]
ImportName = Literal["freshstack", "beir", "crux", "nuggetizer"]


def export(
    collection: CollectionArgument,
    out: OutOption = None,
    format: Annotated[ExportName, typer.Option(help="The layout to write.")] = "freshstack",  # noqa: A002
    replace: ReplaceOption = False,
    slices: SlicesOption = "supported",
    push: Annotated[
        str | None,
        typer.Option(
            metavar="OWNER/NAME",
            help="With hf: upload to this data set of the Hugging Face hub, which is private if "
            "it is new; the token is read from HF_TOKEN.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Export a collection to another tool's layout."""
    from freshstack_dspy.cli.printing import complain, say, show_json
    from freshstack_dspy.collection.exports import export_collection, push_collection
    from freshstack_dspy.errors import ConfigError

    if (out is None) == (push is None) or (push and format != "hf"):
        raise ConfigError(
            "name a folder: --out FOLDER, or a data set: --format hf --push OWNER/NAME"
        )
    if push is not None:
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # read when the library is imported
        address = push_collection(collection, push, slices=slices, replace=replace)
        say(f"{address}: {collection} was pushed")
        return
    assert out is not None
    done = export_collection(collection, format, out, slices=slices, replace=replace)
    if as_json:
        show_json(done)
        return
    say(f"{out}: {done.counts['queries']:,} queries and {done.counts['chunks']:,} chunks")
    for line in done.left_out:
        complain(line)
    if (ids := out / "ids.json").exists():
        say(f"{ids}: ids that had to change, and what they were")


def import_(
    path: Annotated[Path, typer.Argument(help="Folder or file of a collection of others.")],
    format: Annotated[ImportName, typer.Option(help="Its layout; mteb is read as beir.")],  # noqa: A002
    out: Annotated[Path, typer.Option(help="Folder of the new collection, which has its name.")],
    replace: ReplaceOption = False,
    corpus: Annotated[
        Path | None, typer.Option(help="File or folder of the corpus, if not in PATH.")
    ] = None,
    threshold: Annotated[
        int | None, typer.Option(min=1, help="The lowest label that counts as support.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Of beir: which qrels, where there are several.")
    ] = None,
    unknown_ids: Annotated[
        Literal["error", "drop"],
        typer.Option(help="Judgments of queries or documents that do not exist: stop, or drop."),
    ] = "error",
) -> None:
    """Make a collection of another's, to evaluate on, extend or judge again."""
    from freshstack_dspy.cli.options import check_out
    from freshstack_dspy.cli.printing import complain, counted, labels_by, say
    from freshstack_dspy.collection.imports import NO_TEXT, import_collection

    check_out(out, replace=replace)
    collection = import_collection(
        format,
        path,
        out,
        corpus=corpus,
        threshold=threshold,
        split=split,
        unknown_ids=unknown_ids,
        replace=replace,
    )
    counts, scale = collection.manifest.counts, collection.manifest.scale
    say(
        f"{out}: {counted(counts.queries, 'query', 'queries')}, "
        f"{counted(counts.nuggets, 'nugget')}, {counted(counts.chunks, 'chunk')}, "
        f"{counted(counts.judgments - counts.unlabelled, 'label')}, {counts.supported:,} of "
        f"support ({scale.threshold} or more on the scale {scale.name})"
    )
    say("slices: " + ", ".join(f"{n:,} {name}" for name, n in counts.slices.items()))
    say(f"{labels_by(collection)}; content hash {collection.manifest.content_hash}")
    skipped = [file.reason for file in collection.skipped]
    failures = sum(n for statuses in counts.failures.values() for n in statuses.values())
    for number, what in (
        *((number, f"queries {reason}, left out") for reason, number in counts.rejected.items()),
        (counts.unlabelled, "judgments without a label"),
        (failures, "failures: failures.jsonl"),
        (skipped.count(NO_TEXT), "chunks without a text: skipped.jsonl"),
        (len(skipped) - skipped.count(NO_TEXT), "unknown ids were dropped: skipped.jsonl"),
        (sum(not query.text for query in collection.queries), "queries without a text"),
    ):
        if number:
            complain(f"{number:,} {what}")


def validate(
    path: Annotated[Path, typer.Argument(help="Folder of a collection or of an export.")],
    as_json: JsonOption = False,
) -> None:
    """Check every reference, count and hash; list all faults."""
    from freshstack_dspy.cli.printing import counted, say, show_json
    from freshstack_dspy.collection.validate import validate as find

    report = find(path)
    if as_json:
        show_json(report)
    else:
        for finding in report.findings:
            kind = "fault" if finding.is_fault else "warning"
            say(f"{kind}: {finding.place}: {finding.message}")
        found = [
            counted(len(each), kind)
            for each, kind in ((report.faults, "fault"), (report.warnings, "warning"))
            if each
        ]
        counts = ", ".join(f"{number:,} {name}" for name, number in report.counts.items() if number)
        say(f"{path}: {' and '.join(found) or 'ok'}, {report.format}: {counts}")
    if report.faults:
        raise typer.Exit(1)
