"""`freshstack export`, `push`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

if TYPE_CHECKING:
    from freshstack_dspy.records import SliceName

CollectionArgument = Annotated[Path, typer.Argument(help="Folder of a collection.")]
FormatName = Literal["freshstack", "beir", "mteb", "trec", "hf", "crux", "nuggetizer"]
SlicesOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="<slice>",
        help="Queries of this slice: answerable, partly_supported, unanswerable or undetermined; "
        "may be repeated. By default those evaluated.",
    ),
]


def export(
    collection: CollectionArgument,
    out: Annotated[Path, typer.Option(help="Folder to write; empty, or not there yet.")],
    format: Annotated[  # noqa: A002  the option's name is the user's word
        FormatName, typer.Option(help="The layout to write.")
    ] = "freshstack",
    slices: SlicesOption = None,
) -> None:
    """Export a collection to another tool's layout."""
    from freshstack_dspy.cli.outputs import check_collection
    from freshstack_dspy.cli.printing import complain
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.collection.exports.export import export_collection
    from freshstack_dspy.collection.layouts import EXPORT_FILE, IDS_FILE, JUDGED_CHUNKS
    from freshstack_dspy.collection.slices import left_out

    check_collection(out, collection)
    loaded = Collection.load(collection)
    chosen = cast("list[SliceName] | None", slices)
    export_collection(loaded, format, out, slices=chosen)
    if line := left_out(loaded, chosen):
        complain(f"exported: {line}")
    counts = json.loads((out / EXPORT_FILE).read_bytes())["counts"]
    typer.echo(
        f"{out}: {counts['queries']:,} queries and {counts['chunks']:,} "
        f"{'judged ' * (format in JUDGED_CHUNKS)}chunks in the {format} layout"
    )
    if format in JUDGED_CHUNKS:
        typer.echo(
            f"the other chunks of the corpus, which has {len(loaded.corpus.rows):,}, are left out: "
            "the format holds judged chunks alone"
        )
    if format == "crux":
        passages = len(json.loads((out / IDS_FILE).read_bytes())["chunks"])
        typer.echo(
            f"its {passages:,} passages are these chunks: a chunk stands once for each query that it was judged "
            "for"
        )
    if (out / IDS_FILE).exists():
        typer.echo(f"{out / IDS_FILE}: ids that had to change, and what they were")


def push(
    collection: CollectionArgument,
    repo_id: Annotated[str, typer.Argument(help="Data set on the hub, as owner/name.")],
    private: Annotated[
        bool, typer.Option("--private", help="Only its owner may see it, if it is new.")
    ] = False,
    update: Annotated[
        bool, typer.Option("--update", help="Replace what is in a data set that exists.")
    ] = False,
    slices: SlicesOption = None,
) -> None:
    """Upload a collection to the Hugging Face hub; the token is read from HF_TOKEN."""
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.collection.exports.hub import push_collection

    loaded = Collection.load(collection)
    chosen = cast("list[SliceName] | None", slices)
    address = push_collection(loaded, repo_id, private=private, update=update, slices=chosen)
    typer.echo(f"{address}: {loaded.name} pushed, content hash {loaded.manifest.content_hash}")
