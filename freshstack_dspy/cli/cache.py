"""`freshstack cache`: recorded replies, handed on as bundles, taken in and checked."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from freshstack_dspy.lm.bundle import VerifyReport

app = typer.Typer(help="Recorded replies: bundles out and in, and a check.", no_args_is_help=True)

ConfigArgument = Annotated[Path, typer.Argument(help="The build's TOML file.")]


@app.command("export")
def export_cache(
    config: ConfigArgument,
    out: Annotated[
        Path, typer.Option(help="Bundle to write; compressed if its name ends in .zst.")
    ],
) -> None:
    """Write the replies that the built collection used, and no others, as a bundle.

    With it `freshstack build CONFIG --mode replay` needs nothing else.
    """
    from freshstack_dspy.cli.outputs import check_collection, check_inputs, inputs_of
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.config import load_config
    from freshstack_dspy.errors import ConfigError
    from freshstack_dspy.lm.bundle import Bundles, write_bundle
    from freshstack_dspy.lm.store import Recorded, ReplyStore, holds_store
    from freshstack_dspy.recipes.corpus import asks_models
    from freshstack_dspy.recipes.used_replies import used_replies

    settings = load_config(config)
    if asks_models(settings):
        raise ConfigError(
            "the vectors and scores of [[embedder]] and [reranker] belong to what a replay needs, and "
            "only a build knows which it used; write them with: "
            f"freshstack build {config} --mode replay --save-replies {out}"
        )
    cache = settings.cache
    check_inputs(out, config, *inputs_of(settings))
    check_collection(out, settings.out)
    collection = Collection.load(settings.out)
    with ExitStack() as opened:
        recorded: list[Recorded] = []
        if holds_store(cache.path):
            recorded.append(opened.enter_context(closing(ReplyStore(cache.path, read_only=True))))
        recorded.append(opened.enter_context(closing(Bundles(cache.bundles))))
        written = write_bundle(used_replies(collection, recorded), out)
    typer.echo(f"{out}: {written} replies")


@app.command("import")
def import_cache(
    bundle: Annotated[Path, typer.Argument(help="Recorded replies: JSON Lines, or .zst.")],
    config: ConfigArgument,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Take the bundle's reply where the store has another; both are kept."
        ),
    ] = False,
) -> None:
    """Take the replies of a bundle into the build's store.

    Where the store has another reply to a request, it keeps it, and the exit code is 1.
    """
    from freshstack_dspy.config import load_config
    from freshstack_dspy.lm.bundle import Bundle, merge_bundle
    from freshstack_dspy.lm.store import ReplyStore

    settings = load_config(config)
    with closing(Bundle(bundle)) as replies, closing(ReplyStore(settings.cache.path)) as store:
        report = merge_bundle(replies, store, replace=replace)
    typer.echo(str(report))
    if report.conflicts:
        raise typer.Exit(1)


@app.command("verify")
def verify_cache(
    path: Annotated[
        Path, typer.Argument(help="A store's folder, a bundle, or a build's TOML file for its own.")
    ],
) -> None:
    """Check every recorded reply; the exit code is 1 if one is damaged."""
    from freshstack_dspy.cli.lines import complain, say

    damaged = 0
    for report in _reports(path):
        damaged += len(report.damaged)
        say(str(report))
        for found in report.damaged[:100]:
            complain(f"{found.entry}: {found.reason}")
    if damaged:
        raise typer.Exit(1)


def _reports(path: Path) -> "Iterator[VerifyReport]":
    from freshstack_dspy.config import load_config
    from freshstack_dspy.lm.bundle import verify_bundle, verify_store
    from freshstack_dspy.lm.store import holds_store

    if path.suffix == ".toml":
        cache = load_config(path).cache
        if holds_store(cache.path) or not cache.bundles:
            yield verify_store(cache.path)
        for bundle in cache.bundles:
            yield verify_bundle(bundle)
    elif path.is_dir():
        yield verify_store(path)
    else:
        yield verify_bundle(path)
