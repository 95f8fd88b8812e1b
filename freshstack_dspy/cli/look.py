"""`freshstack show`, `explain`, `diagnose`, `diff`: what is in a collection, and how it came about."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from freshstack_dspy.cli.options import (
    CollectionArgument,
    FormatOption,
    JsonOption,
    SlicesOption,
    slices_named,
)
from freshstack_dspy.cli.printing import present, say_wrapped

if TYPE_CHECKING:
    from freshstack_dspy.lm.store import Recorded


def show(
    collection: CollectionArgument,
    query: Annotated[str | None, typer.Argument(help="Id of a query.")] = None,
    slices: SlicesOption = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the queries, or one query with its nuggets and chunks."""
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.collection.query_pages import queries_page, query_page

    loaded = Collection.load(collection)
    page = (
        queries_page(loaded, slices_named(slices) or "all")
        if query is None
        else query_page(loaded, query)
    )
    present(page, form, as_json=as_json)


def explain(
    collection: CollectionArgument,
    query: Annotated[str, typer.Argument(help="Id of a query; `freshstack show` lists them.")],
    chunk: Annotated[str, typer.Argument(help="Id of a chunk that was pooled or judged for it.")],
    config: Annotated[
        Path | None,
        typer.Option(help="The build's TOML file: its [cache] says where replies are recorded."),
    ] = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what found a chunk for a query, who judged it, and why."""
    from freshstack_dspy.collection.explain import explain as explain_pair

    with ExitStack() as opened:
        replies: Sequence[Recorded | None] = ()
        if config is not None:
            from freshstack_dspy.config import load_config
            from freshstack_dspy.recipes.session import open_replies

            replies = opened.enter_context(open_replies(load_config(config), "replay"))
        found = explain_pair(collection, query, chunk, replies=replies)
    present(found.page(), form, as_json=as_json)
    if form is None and not as_json and any(call.reply is None for call in found.calls):
        missing = f"no reply found where {config} says"
        shown = "--config BUILD.toml shows the call; with --json also its prompt and reply"
        say_wrapped(missing if config else shown)


def diagnose(
    collection: CollectionArgument, form: FormatOption = None, as_json: JsonOption = False
) -> None:
    """Say what each technique and retriever gave to the pool, and what it may lack."""
    from freshstack_dspy.collection.collection import Collection

    found = Collection.load(collection).diagnose()
    about = found.about.model_copy(update={"path": collection})
    present(found.model_copy(update={"about": about}).page(), form, as_json=as_json)


def diff(
    before: Annotated[Path, typer.Argument(help="Folder of a collection.")],
    after: Annotated[Path, typer.Argument(help="Folder of another, or of a later state of it.")],
    limit: Annotated[
        int, typer.Option(min=0, help="List at most so many nuggets and labels of each kind.")
    ] = 5,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which queries, nuggets, labels and evidence differ between two collections."""
    from freshstack_dspy.collection.collection import Collection

    found = Collection.load(before).diff(after)
    present(found.page(f"{before} → {after}", limit), form, as_json=as_json)
