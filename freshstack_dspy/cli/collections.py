"""`freshstack build`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

CollectionArgument = Annotated[Path, typer.Argument(help="Folder of a collection.")]
ModeName = Literal["live", "replay", "defer", "rerecord"]


def build(
    config: Annotated[Path, typer.Argument(help="TOML file; `freshstack init` writes an example.")],
    mode: Annotated[
        ModeName,
        typer.Option(
            help="live: ask for what is not recorded. replay: recorded replies only, no network. "
            "defer: write missing requests to a file. refresh: ask everything again."
        ),
    ] = "live",
    requests: Annotated[
        Path | None, typer.Option(help="With defer: the file of missing requests.")
    ] = None,
    cache: Annotated[
        list[Path] | None,
        typer.Option(help="Bundle of recorded replies to read too; may be repeated."),
    ] = None,
    save_replies: Annotated[
        Path | None, typer.Option(help="Write the replies that were used to this bundle.")
    ] = None,
    log: Annotated[
        Path | None, typer.Option(help="Append one JSON line for each request to this file.")
    ] = None,
    trace: Annotated[
        bool, typer.Option("--trace", help="One OpenTelemetry span for each request.")
    ] = False,
) -> None:
    """Build a judged collection; run it again to resume."""
    from freshstack_dspy.cli.asking import typed
    from freshstack_dspy.cli.bars import Bars
    from freshstack_dspy.cli.listening import listening
    from freshstack_dspy.cli.outputs import check_collection, check_inputs, inputs_of
    from freshstack_dspy.cli.tables import build_summary
    from freshstack_dspy.config import load_config, with_bundles
    from freshstack_dspy.recipes.build import NOTHING_TO_DO
    from freshstack_dspy.recipes.build import build as build_collection

    settings = with_bundles(load_config(config), cache or ())
    for output in (save_replies, requests, log):
        check_inputs(output, config, *inputs_of(settings))
        check_collection(output, settings.out)
    with typed(config), Bars() as bars, listening(log, trace=trace) as callback:
        collection = build_collection(
            settings,
            mode=mode,
            progress=bars,
            requests_file=requests,
            replies_file=save_replies,
            callback=callback,
        )
    build_summary(collection, settings.out, unchanged=NOTHING_TO_DO in bars.steps)
