"""`freshstack init`, `plan`, `build`, `extend`, `stale`, `refresh`, `rejudge` and `rechunk`."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from freshstack_dspy.cli.command import Outcome, command, say
from freshstack_dspy.cli.options import (
    CollectionArgument,
    ConfigArgument,
    EngineOption,
    FailedOption,
    LogOption,
    ModeOption,
    PlanOption,
    asking,
    at_engine,
    check_out,
)
from freshstack_dspy.pages.page import Page
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.progress import ProgressBars

if TYPE_CHECKING:
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.recipes.session import Session

JudgingOption = Annotated[
    Path, typer.Option(help="TOML file; its [model], [judge], [budget] and [cache] are used.")
]
KeepLabelsOption = Annotated[
    bool, typer.Option("--keep-labels", help="Keep labels that another judge made.")
]


def init(
    path: Annotated[Path, typer.Argument(help="File to write.")] = Path("build.toml"),
) -> None:
    """Write a commented example of a configuration."""
    from freshstack_dspy.files import write_file

    check_out(path)
    write_file(path, Path(__file__).with_name("example.toml").read_bytes())
    say(f"{path} written; name your questions and your corpus in it, then: freshstack plan {path}")


@command
def plan(config: ConfigArgument) -> Shown:
    """Say what a build would ask for and cost; nothing is sent."""
    with ProgressBars() as bars:
        from freshstack_dspy.recipes.plan import plan as plan_build

        return plan_build(config, progress=bars)


@command
def build(
    config: ConfigArgument,
    mode: ModeOption = "live",
    failed: FailedOption = False,
    engine: EngineOption = None,
    log: LogOption = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a collection built with other settings.")
    ] = False,
) -> Outcome:
    """Build a judged collection; run it again to resume.

    The exit code is 1 if something failed: the collection is written, and says what.
    """
    from freshstack_dspy.config import load_config
    from freshstack_dspy.recipes.build import UNCHANGED
    from freshstack_dspy.recipes.build import build as build_collection
    from freshstack_dspy.stored.counts import missing_of
    from freshstack_dspy.views.recipes import built_page

    settings = at_engine(load_config(config), engine)
    with asking(mode, log, failed=failed) as (options, bars):
        collection = build_collection(settings, replace=replace, **options)
    page = built_page(collection, settings.out, unchanged=UNCHANGED in bars.steps)
    return Outcome(page, code=int(bool(missing_of(collection))))


@command
def extend(
    collection: CollectionArgument,
    runs: Annotated[
        list[Path],
        typer.Argument(help="Run files, in TREC's format, or passages as JSON Lines."),
    ],
    config: JudgingOption,
    k: Annotated[int, typer.Option("--k", min=1, help="Results of each ranking to judge.")] = 20,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write; by default the collection's own.")
    ] = None,
    keep_labels: KeepLabelsOption = False,
    mode: ModeOption = "live",
    failed: FailedOption = False,
    log: LogOption = None,
    plan: PlanOption = False,
) -> Outcome | Shown:
    """Judge the unjudged chunks of runs, also of passages."""
    from freshstack_dspy.recipes.extend import extend as extend_collection
    from freshstack_dspy.recipes.extend import plan_extension

    if plan:
        with ProgressBars() as bars:
            return plan_extension(collection, runs, config, k=k, progress=bars)
    with asking(mode, log, failed=failed) as (options, _):
        extended = extend_collection(
            collection, runs, config, k=k, out=out, keep_labels=keep_labels, **options
        )
    return Outcome(extended.page(out or collection), code=int(bool(extended.failed)))


@command
def stale(
    config: ConfigArgument,
    fail_over: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            min=0,
            max=1,
            help="Exit with 1 where a larger share of the labels of support is stale.",
        ),
    ] = None,
    keep_labels: KeepLabelsOption = False,
    limit: Annotated[int, typer.Option(min=0, help="List at most so many nuggets of a kind.")] = 10,
) -> Outcome:
    """Say which labels new documents and questions make stale; nothing is sent."""
    with ProgressBars() as bars:
        from freshstack_dspy.recipes.stale import stale as find_stale

        report = find_stale(config, keep_labels=keep_labels, progress=bars)
    if fail_over is None or report.share <= fail_over:
        return Outcome(report.page(limit))
    fault = (
        f"failed: {report.share:.4g} of the labels of support are stale, over {fail_over:g} "
        f"(--fail-over); type: freshstack refresh {config}"
    )
    return Outcome(report.page(limit), complaints=[fault], code=1)


@command
def refresh(
    config: ConfigArgument,
    keep_labels: KeepLabelsOption = False,
    mode: ModeOption = "live",
    failed: FailedOption = False,
    log: LogOption = None,
) -> Outcome:
    """Take in new questions and files; reuse every judgment of unchanged content."""
    from freshstack_dspy.config import load_config
    from freshstack_dspy.recipes.refresh import refresh as refresh_collection
    from freshstack_dspy.stored.counts import missing_of

    settings = load_config(config)
    changes = _changes_file(settings.out)
    with asking(mode, log, failed=failed) as (options, _):
        refreshed = refresh_collection(
            settings, keep_labels=keep_labels, difference_file=changes, **options
        )
    missing = missing_of(refreshed.collection)
    return Outcome(refreshed.page(settings.out, changes), code=int(bool(missing)))


def _changes_file(out: Path) -> Path:
    """Next to a collection; here, where that folder cannot be written."""
    name = f"{out.name}.changes.jsonl"
    return out.with_name(name) if os.access(out.absolute().parent, os.W_OK) else Path(name)


@command
def rejudge(
    collection: CollectionArgument,
    config: JudgingOption,
    out: Annotated[Path | None, typer.Option(help="Folder of the new collection.")] = None,
    sample: Annotated[
        int | None,
        typer.Option(min=1, help="Judge so many chunks one by one, and write nothing."),
    ] = None,
    mode: ModeOption = "live",
    failed: FailedOption = False,
    log: LogOption = None,
    plan: PlanOption = False,
) -> Outcome | Shown:
    """Judge all judged pairs again, or a sample; say how far the labels agree."""
    from freshstack_dspy.collection.diff import write_changes
    from freshstack_dspy.config import load_judging
    from freshstack_dspy.recipes.rejudge import plan_rejudging
    from freshstack_dspy.recipes.rejudge import rejudge as judge_again

    settings = load_judging(config)
    if plan:
        with ProgressBars() as bars:
            return plan_rejudging(collection, settings, sample=sample, progress=bars)
    with asking(mode, log, failed=failed) as (options, _):
        rejudged = judge_again(collection, settings, out, sample=sample, **options)
    changes = None
    if out is not None and rejudged.difference is not None:
        changes = _changes_file(out)
        write_changes(rejudged.difference, changes)
    return Outcome(rejudged.page(out, changes), code=int(rejudged.failed > rejudged.textless))


@command
def rechunk(
    collection: CollectionArgument,
    max_tokens: Annotated[int, typer.Option(help="The most tokens in a chunk.")],
    out: Annotated[Path, typer.Option(help="New folder to write.")],
) -> Page:
    """Cut a collection's files anew; labels follow their evidence, and no model is asked."""
    from freshstack_dspy.collection.rechunk import rechunk as rechunk_collection

    check_out(out, folder=True)
    return rechunk_collection(collection, max_tokens, out).page(out)


def plan_asking(
    config: Path, collection: "Collection", ask: "Callable[[Session], object]"
) -> Shown:
    """Plan what a function would ask for that asks about the queries of a collection."""
    from freshstack_dspy.config import load_judging
    from freshstack_dspy.recipes.plan import plan_asking as plan

    with ProgressBars() as bars:
        return plan(
            load_judging(config),
            ask,
            name=collection.name,
            queries=len(collection.qrels().nuggets),
            progress=bars,
        )
