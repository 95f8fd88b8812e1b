"""`freshstack show`, `explain`, `diagnose`, `diff`: what is in a collection, and how it came about."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from freshstack_dspy.cli.command import Outcome, command
from freshstack_dspy.cli.options import CollectionArgument, SlicesOption, slices_named
from freshstack_dspy.pages.page import Page, Text
from freshstack_dspy.pages.shown import Shown

if TYPE_CHECKING:
    from freshstack_dspy.lm.store import Recorded


@command
def show(
    collection: CollectionArgument,
    query: Annotated[str | None, typer.Argument(help="Id of a query.")] = None,
    slices: SlicesOption = None,
) -> Page:
    """List the queries, or one query with its nuggets and chunks."""
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.views.queries import queries_page, query_page

    loaded = Collection.load(collection)
    if query is None:
        return queries_page(loaded, slices_named(slices) or "all")
    return query_page(loaded, query)


@command
def explain(
    collection: CollectionArgument,
    query: Annotated[str, typer.Argument(help="Id of a query; `freshstack show` lists them.")],
    chunk: Annotated[str, typer.Argument(help="Id of a chunk that was pooled or judged for it.")],
    config: Annotated[
        Path | None,
        typer.Option(help="The build's TOML file: its [cache] says where replies are recorded."),
    ] = None,
) -> Outcome:
    """Say what found a chunk for a query, who judged it, and why."""
    from freshstack_dspy.collection.explain import explain as explain_pair

    with ExitStack() as opened:
        replies: Sequence[Recorded | None] = ()
        if config is not None:
            from freshstack_dspy.config import load_config
            from freshstack_dspy.recipes.session import open_replies

            replies = opened.enter_context(open_replies(load_config(config), "replay"))
        explanation = explain_pair(collection, query, chunk, replies=replies)
    hint = "--config BUILD.toml shows the call; with --json also its prompt and reply"
    if config:
        hint = f"no reply found where {config} says"
    missing = any(call.reply is None for call in explanation.calls)
    return Outcome(explanation, hints=[Text(hint)] if missing else [])


@command
def diagnose(collection: CollectionArgument) -> Shown:
    """Say what each technique and retriever gave to the pool, and what it may lack."""
    from freshstack_dspy.collection.collection import Collection

    diagnosis = Collection.load(collection).diagnose()
    about = diagnosis.about.model_copy(update={"path": collection})
    return diagnosis.model_copy(update={"about": about})


@command
def diff(
    before: Annotated[Path, typer.Argument(help="Folder of a collection.")],
    after: Annotated[Path, typer.Argument(help="Folder of another, or of a later state of it.")],
    limit: Annotated[
        int, typer.Option(min=0, help="List at most so many nuggets and labels of each kind.")
    ] = 5,
) -> Page:
    """Show which queries, nuggets, labels and evidence differ between two collections."""
    from freshstack_dspy.collection.collection import Collection

    difference = Collection.load(before).diff(after)
    return difference.page(f"{before} → {after}", limit)
