"""`freshstack init`, `plan`, `build`, `extend`, `stale`, `refresh`, `rejudge` and `rechunk`."""

import os
from pathlib import Path
from typing import Literal

import freshstack_dspy as fs
from freshstack_dspy.cli.command import (
    Asking,
    AtLeastOne,
    FromZero,
    Outcome,
    Share,
    Written,
    asking,
    check_out,
    command,
    to_type,
    wrote,
)
from freshstack_dspy.pages.page import Page
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.progress import ProgressBars


@command
def init(
    path: Path | None = None,
    *,
    topic: Literal["langchain", "yolo", "laravel", "angular", "godot"] | None = None,
) -> Written:
    """Write a commented example of a configuration.

    Args:
        path: File to write; by default build.toml, or TOPIC.toml.
        topic: One of the FreshStack paper's, with its tags, repositories and settings.
    """
    from freshstack_dspy.files import write_file

    path = path or Path(f"{topic or 'build'}.toml")
    check_out(path)
    written = f"topics/{topic}.toml" if topic else "example.toml"
    write_file(path, (Path(__file__).parent / written).read_bytes())
    what = (
        "the folder of your dump of Stack Overflow" if topic else "your questions and your corpus"
    )
    return wrote(
        path, to_type(f"{path} written; name {what} in it, then", f"freshstack plan {path}")
    )


@command
def plan(config: Path) -> Shown:
    """Say what a build would ask for and cost; nothing is sent."""
    with ProgressBars() as bars:
        return fs.plan(config, progress=bars)


@command
def build(
    config: Path,
    *,
    engine: Literal["local", "ray"] | None = None,
    how: Asking,
    replace: bool = False,
) -> Outcome:
    """Build a judged collection; run it again to resume.

    The exit code is 1 if something failed: the collection is written, and says what.

    Args:
        engine: Where it is done, in place of [engine] name: here, or over a cluster.
        replace: Replace a collection built with other settings.
    """
    from freshstack_dspy.recipes.make import UNCHANGED
    from freshstack_dspy.stored.contents import missing_of
    from freshstack_dspy.views.recipes import built_page

    settings = fs.load_config(config)
    if engine is not None:
        chosen = settings.engine.model_copy(update={"name": engine})
        settings = settings.model_copy(update={"engine": chosen})
    with asking(how) as (options, bars):
        collection = fs.build(settings, replace=replace, **options)
    page = built_page(collection, settings.out, unchanged=UNCHANGED in bars.steps)
    return Outcome(page, code=int(bool(missing_of(collection))))


@command
def extend(
    collection: Path,
    runs: list[Path],
    *,
    config: Path,
    k: AtLeastOne = 20,
    out: Path | None = None,
    keep_labels: bool = False,
    how: Asking,
    plan: bool = False,
) -> Outcome | Shown:
    """Judge the unjudged chunks of runs, also of passages.

    Args:
        config: TOML file; its [model], [judge], [budget] and [cache] are used.
        k: Results of each ranking to judge.
        out: Folder to write; by default the collection's own.
    """
    from freshstack_dspy.recipes.extend import plan_extension

    if plan:
        with ProgressBars() as bars:
            return plan_extension(collection, runs, config, k=k, progress=bars)
    with asking(how) as (options, _):
        extended = fs.extend(
            collection, runs, config, k=k, out=out, keep_labels=keep_labels, **options
        )
    return Outcome(extended.page(out or collection), code=int(bool(extended.failed)))


@command
def stale(
    config: Path,
    *,
    fail_over: Share | None = None,
    keep_labels: bool = False,
    limit: FromZero = 10,
) -> Outcome:
    """Say which labels new documents and questions make stale; nothing is sent.

    Args:
        fail_over: Exit with 1 if a larger share of the labels of support is stale.
        limit: The most nuggets listed of each kind.
    """
    with ProgressBars() as bars:
        found = fs.stale(config, keep_labels=keep_labels, progress=bars)
    faults = []
    if fail_over is not None and found.share > fail_over:
        faults.append(
            f"failed: {found.share:.4g} of the labels of support are stale, over {fail_over:g} "
            f"(--fail-over); type: freshstack refresh {config}"
        )
    return Outcome(found.page(limit), complaints=faults, code=len(faults))


@command
def refresh(
    config: Path,
    *,
    keep_labels: bool = False,
    how: Asking,
) -> Outcome:
    """Take in new questions and files; reuse every judgment of unchanged content."""
    from freshstack_dspy.stored.contents import missing_of

    settings = fs.load_config(config)
    changes = _changes_file(settings.out)
    with asking(how) as (options, _):
        refreshed = fs.refresh(
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
    collection: Path,
    *,
    config: Path,
    out: Path | None = None,
    sample: AtLeastOne | None = None,
    how: Asking,
    plan: bool = False,
) -> Outcome | Shown:
    """Judge all judged pairs again, or a sample; say how far the labels agree.

    Args:
        config: TOML file; its [model], [judge], [budget] and [cache] are used.
        out: Folder of the new collection.
        sample: Judge this many chunks one by one, and write nothing.
    """
    from freshstack_dspy.collection.diff import write_changes
    from freshstack_dspy.config import load_judging
    from freshstack_dspy.recipes.rejudge import plan_rejudging

    settings = load_judging(config)
    if plan:
        with ProgressBars() as bars:
            return plan_rejudging(collection, settings, sample=sample, progress=bars)
    with asking(how) as (options, _):
        rejudged = fs.rejudge(collection, settings, out, sample=sample, **options)
    changes = None
    if out is not None and rejudged.difference is not None:
        changes = _changes_file(out)
        write_changes(rejudged.difference, changes)
    return Outcome(rejudged.page(out, changes), code=int(rejudged.failed > rejudged.textless))


@command
def rechunk(collection: Path, *, max_tokens: int, out: Path) -> Page:
    """Cut a collection's files anew; labels follow their evidence, and no model is asked.

    Args:
        max_tokens: The most tokens in a chunk.
        out: New folder to write.
    """
    check_out(out, folder=True)
    return fs.rechunk(collection, max_tokens, out).page(out)
