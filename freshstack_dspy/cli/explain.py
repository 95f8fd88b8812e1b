"""`freshstack explain`: the path of the judgments of a query and a chunk."""

from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from freshstack_dspy.lm.store import Recorded


def explain(
    collection: Annotated[Path, typer.Argument(help="Folder of a collection.")],
    query: Annotated[str, typer.Argument(help="Id of a query.")],
    chunk: Annotated[str, typer.Argument(help="Id of a chunk that was pooled or judged for it.")],
    config: Annotated[
        Path | None,
        typer.Option(help="The build's TOML file: its [cache] says where replies are recorded."),
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="JSON Lines of human labels, to show beside.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON.")] = False,
) -> None:
    """Say what pooled a chunk for a query, who judged it, and what was said.

    It reads what is recorded: no index, no model.
    """
    import json

    from freshstack_dspy.calibration.labels import read_labels
    from freshstack_dspy.cli.explanation_lines import print_explanation
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.collection.explain import explain as explain_pair

    loaded = Collection.load(collection)
    said = read_labels(labels) if labels else ()
    with ExitStack() as opened:
        replies = _recorded(config, opened) if config else ()
        explanation = explain_pair(loaded, query, chunk, replies=replies, labels=said)
    if as_json:
        print(json.dumps(explanation.model_dump(mode="json"), indent=2))
    else:
        print_explanation(explanation)


def _recorded(config: Path, opened: ExitStack) -> "tuple[Recorded, ...]":
    """The store of a build, where there is one, and its bundles; nothing is written."""
    from freshstack_dspy.config import load_config
    from freshstack_dspy.lm.bundle import Bundles
    from freshstack_dspy.lm.store import ReplyStore, holds_store

    cache = load_config(config).cache
    recorded: list[Recorded] = []
    if holds_store(cache.path):
        recorded.append(opened.enter_context(closing(ReplyStore(cache.path, read_only=True))))
    recorded.append(opened.enter_context(closing(Bundles(cache.bundles))))
    return tuple(recorded)
