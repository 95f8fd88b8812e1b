"""`freshstack extend` and `freshstack refresh`: a collection grows, and what was judged stays."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from freshstack_dspy.cli.asking import (
    CacheOption,
    JudgingOption,
    LogOption,
    ModeOption,
    RequestsOption,
    judging,
    typed,
)

if TYPE_CHECKING:
    from freshstack_dspy.collection.diff import Difference
    from freshstack_dspy.recipes.growing.extending import Extended
    from freshstack_dspy.recipes.growing.run_holes import Look

_LISTED = 10
"""Ids that are listed where there may be many."""


def extend(
    collection: Annotated[Path, typer.Argument(help="Folder of a collection.")],
    runs: Annotated[list[Path], typer.Argument(help="TREC run files over its queries.")],
    config: JudgingOption,
    depth: Annotated[int, typer.Option(min=1, help="Chunks of each ranking that are judged.")] = 20,
    unknown: Annotated[
        Literal["refuse", "skip"],
        typer.Option(help="What becomes of chunks that the corpus lacks."),
    ] = "refuse",
    out: Annotated[
        Path | None, typer.Option(help="Folder to write; by default the collection's own.")
    ] = None,
    mode: ModeOption = "live",
    requests: RequestsOption = None,
    cache: CacheOption = None,
    log: LogOption = None,
) -> None:
    """Judge the holes of runs: what they rank high and nobody has judged yet."""
    from freshstack_dspy.cli.outputs import check_collection, check_inputs
    from freshstack_dspy.config import load_judging, with_bundles
    from freshstack_dspy.recipes.growing.extending import check_scale, check_standing
    from freshstack_dspy.recipes.growing.extending import extend as extend_collection
    from freshstack_dspy.recipes.growing.run_holes import look

    settings = with_bundles(load_judging(config), cache or ())
    for output in (requests, log):
        check_inputs(output, config, *runs, *settings.cache.bundles, settings.cache.path)
        check_collection(output, collection)
    looked = look(collection, runs, depth=depth, unknown=unknown)
    check_scale(looked, settings.judge.graded)
    check_standing(looked, out)
    _say_look(looked)
    with judging(settings, config, mode, requests, log) as asking:
        extended = extend_collection(looked, asking, out)
    _say_extended(looked, extended, out or collection)


def refresh(
    config: Annotated[Path, typer.Argument(help="TOML file whose out holds a collection.")],
    retire: Annotated[
        list[str] | None,
        typer.Option(help="Id of a question to leave out from now on; may be repeated."),
    ] = None,
    difference: Annotated[
        Path | None,
        typer.Option(help="File of all changes, a JSON line each; by default OUT.changes.jsonl."),
    ] = None,
    keep_labels: Annotated[
        bool, typer.Option("--keep-labels", help="Keep labels that another judge made.")
    ] = False,
    mode: ModeOption = "live",
    requests: RequestsOption = None,
    cache: CacheOption = None,
    log: LogOption = None,
) -> None:
    """Take in new questions and files; keep every judgment of what did not change."""
    from freshstack_dspy.cli.bars import Bars
    from freshstack_dspy.cli.listening import listening
    from freshstack_dspy.cli.outputs import check_collection, check_inputs, inputs_of
    from freshstack_dspy.cli.tables import build_summary
    from freshstack_dspy.config import load_config, with_bundles
    from freshstack_dspy.recipes.growing.refreshing import refresh as refresh_collection
    from freshstack_dspy.recipes.growing.refreshing import retire as without

    settings = with_bundles(load_config(config), cache or ())
    changes = difference or settings.out.with_name(f"{settings.out.name}.changes.jsonl")
    for output in (changes, requests, log):
        check_inputs(output, config, *inputs_of(settings))
        check_collection(output, settings.out)
    with typed(config), Bars() as bars, listening(log, trace=False) as callback:
        refreshed = refresh_collection(
            without(settings, retire or ()),
            mode=mode,
            progress=bars,
            requests_file=requests,
            difference_file=changes,
            keep_labels=keep_labels,
            callback=callback,
        )
    build_summary(refreshed.collection, settings.out, unchanged=not refreshed.changed)
    _say_difference(refreshed.difference, changes, changed=refreshed.changed)
    if refreshed.changed:
        typer.echo(f"{refreshed.calls:,} calls for this refresh; above are those before it too")
    if left := sorted(set(retire or ()) - set(settings.queries.retired)):
        typer.echo(
            f"retired for this refresh alone: {', '.join(left)}; the next one takes them in again "
            f"unless {config} says so in [queries] retired"
        )


def _say_look(looked: "Look") -> None:
    """Say what of a run could not be taken in."""
    from freshstack_dspy.cli.lines import say
    from freshstack_dspy.recipes.growing.run_holes import holes

    for run in looked.runs:
        if run.foreign:
            say(
                f"{run.name}: {len(run.foreign)} of its queries are not in the collection or have "
                f"no nuggets: {_listed(run.foreign)}"
            )
        if run.absent:
            say(
                f"{run.name}: nothing for {len(run.absent)} queries: {_listed(run.absent)} "
                "(freshstack retrieve takes them in with --slices all)"
            )
        if run.unknown:
            ids = [f"{one.chunk_id} for {one.query_id}" for one in run.unknown]
            say(f"{run.name}: {len(ids)} chunks passed over, not in the corpus: {_listed(ids)}")
    pairs = sum(map(len, holes(looked).values()))
    say(f"holes in the top {looked.depth}: {pairs:,} chunks of queries")


def _say_extended(looked: "Look", extended: "Extended", path: Path) -> None:
    from freshstack_dspy.cli.lines import say

    if not extended.changed:
        say(f"{path}: nothing to add, so nothing was written")
        return
    for run, judged in extended.judged.items():
        say(f"{run}: {judged:,} pairs judged in its top {looked.depth}")
    before, after = looked.collection.manifest.counts, extended.collection.manifest.counts
    say(f"judged chunks of queries: {before.pool:,}, now {after.pool:,}")
    say(f"supported pairs: {before.supported:,}, now {after.supported:,}")
    say("slices: " + ", ".join(f"{n} {name}" for name, n in after.slices.items()))
    if extended.failed:
        say(f"{extended.failed:,} pairs failed; extend again to retry them")
    say(f"{path}: content {extended.collection.manifest.content_hash}")


def _say_difference(found: "Difference", path: Path, *, changed: bool) -> None:
    from rich.table import Table

    from freshstack_dspy.cli.lines import say
    from freshstack_dspy.cli.tables import show

    if not changed:
        say("nothing differs, so nothing was written")
        return
    table = Table()
    table.add_column("")
    for column in ("kept", "added", "dropped", "changed"):
        table.add_column(column, justify="right")
    for name in ("queries", "nuggets", "chunks", "pool", "judgments"):
        tally = getattr(found, name)
        numbers = (tally.kept, tally.added, tally.dropped, tally.changed)
        table.add_row(name, *(f"{number:,}" for number in numbers))
    show("difference", table)
    say(f"in another slice than before: {found.resliced} queries; all changes: {path}")


def _listed(ids: "list[str] | tuple[str, ...]") -> str:
    more = f" and {len(ids) - _LISTED} more" if len(ids) > _LISTED else ""
    return ", ".join(ids[:_LISTED]) + more
