"""`freshstack rejudge`: another judge on the same pairs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from freshstack_dspy.cli.asking import (
    CacheOption,
    JudgingOption,
    LogOption,
    ModeOption,
    RequestsOption,
    judging,
)

if TYPE_CHECKING:
    from freshstack_dspy.recipes.growing.rejudging import Rejudged


def rejudge(
    collection: Annotated[Path, typer.Argument(help="Folder of a collection.")],
    config: JudgingOption,
    out: Annotated[Path, typer.Option(help="Folder of the new collection; nothing stands there.")],
    changes: Annotated[
        Path | None,
        typer.Option(help="File of pairs with another label; by default OUT.changes.jsonl."),
    ] = None,
    mode: ModeOption = "live",
    requests: RequestsOption = None,
    cache: CacheOption = None,
    log: LogOption = None,
) -> None:
    """Judge all judged pairs again; say how far the labels agree."""
    from freshstack_dspy.cli.outputs import check_collection, check_inputs
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.collection.diff import write_changes
    from freshstack_dspy.config import load_judging, with_bundles
    from freshstack_dspy.recipes.growing.rejudging import rejudge as judge_again

    settings = with_bundles(load_judging(config), cache or ())
    path = changes or out.with_name(f"{out.name}.changes.jsonl")
    for output in (path, requests, log):
        check_inputs(output, config, *settings.cache.bundles, settings.cache.path)
        check_collection(output, collection)
        check_collection(output, out)
    standing = Collection.load(collection)
    with judging(settings, config, mode, requests, log) as asking:
        rejudged = judge_again(standing, asking, out)
    write_changes(rejudged.difference, path)
    _say(rejudged, standing.manifest.model, out, path)


def _say(rejudged: "Rejudged", before: str, out: Path, changes: Path) -> None:
    from rich.table import Table

    from freshstack_dspy.cli.lines import say
    from freshstack_dspy.cli.people import metric as figure
    from freshstack_dspy.cli.tables import show
    from freshstack_dspy.collection.manifest import NO_MODEL

    agreement, manifest = rejudged.agreement, rejudged.collection.manifest
    table = Table()
    for column in ("label", "before", "now", "precision", "recall"):
        table.add_column(column, justify="right")
    for one in agreement.classes:
        table.add_row(
            str(one.label),
            f"{one.by_person:,}",
            f"{one.by_judge:,}",
            *(
                "–" if found.value is None else f"{found.value:.3f}"
                for found in (one.precision, one.recall)
            ),
        )
    show(f"{manifest.model} against the labels before, {agreement.pairs:,} pairs", table)
    if agreement.on_support:
        say("the scales differ, so labels are compared as support (1) or none (0)")
    figures = [("same label", agreement.exact), ("kappa", agreement.kappa)]
    if agreement.weighted:
        figures += [(f"kappa, {name} weights", found) for name, found in agreement.weighted.items()]
        figures.append(("kappa of support or none", agreement.on_support_kappa))
    for name, found in figures:
        say(f"{name}: {figure(found)}")
    unlabelled = manifest.counts.unlabelled - rejudged.textless
    if rejudged.textless:
        say(f"{rejudged.textless:,} pairs were not asked about, for their chunk has no text")
    if unlabelled:
        say(f"{unlabelled:,} pairs failed; judge again to retry them")
    changed = rejudged.difference.judgments.changed
    by = "" if before == NO_MODEL else f" by {before}"
    say(f"{changed:,} pairs have another label than before{by}: {changes}")
    say(f"{out}: content {manifest.content_hash}")
