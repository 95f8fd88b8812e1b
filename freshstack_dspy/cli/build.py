"""`freshstack init`, `plan`, `build`, `extend`, `refresh`, `rejudge` and `rechunk`."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from freshstack_dspy.cli.options import (
    CollectionArgument,
    ConfigArgument,
    JsonOption,
    LogOption,
    ModeOption,
    PlanOption,
    asking,
    check_out,
)
from freshstack_dspy.cli.printing import (
    Table,
    counted,
    present,
    say,
    say_wrapped,
    show,
    show_json,
)
from freshstack_dspy.pages.page import Page
from freshstack_dspy.progress import ProgressBars

if TYPE_CHECKING:
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.recipes.extend import Extended
    from freshstack_dspy.recipes.plan import Plan
    from freshstack_dspy.recipes.refresh import Refreshed
    from freshstack_dspy.recipes.rejudge import Rejudged
    from freshstack_dspy.recipes.session import Session
    from freshstack_dspy.stored.manifest import Manifest

JudgingOption = Annotated[
    Path, typer.Option(help="TOML file; its [model], [judge], [budget] and [cache] are used.")
]

_STEPS = (
    "recorded: replies that were there; re-asked: invalid ones, sent back; closed-book answers: "
    "without documents, to search with; contamination: what the model knows without them (docs/glossary.md)"
)
_COMPARED = ("queries", "nuggets", "chunks", "pool", "judgments")
_WITHOUT_NUGGETS = "without nuggets, as the answer states no fact or the step failed"


def init(
    path: Annotated[Path, typer.Argument(help="File to write.")] = Path("build.toml"),
) -> None:
    """Write a commented example of a configuration."""
    from freshstack_dspy.files import write_file

    check_out(path)
    write_file(path, Path(__file__).with_name("example.toml").read_bytes())
    say(f"{path} written; name your questions and your corpus in it, then: freshstack plan {path}")


def plan(config: ConfigArgument, as_json: JsonOption = False) -> None:
    """Say what a build would ask for and cost; nothing is sent."""
    with ProgressBars() as bars:
        from freshstack_dspy.recipes.plan import plan as plan_build

        found = plan_build(config, progress=bars)
    if as_json:
        show_json(found)
    else:
        show_plan(found)


def build(
    config: ConfigArgument,
    mode: ModeOption = "live",
    log: LogOption = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a collection built with other settings.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Build a judged collection; run it again to resume.

    The exit code is 1 if something failed: the collection is written, and says what.
    """
    from freshstack_dspy.config import load_config
    from freshstack_dspy.recipes.build import UNCHANGED
    from freshstack_dspy.recipes.build import build as build_collection
    from freshstack_dspy.stored.counts import missing_of

    settings = load_config(config)
    with asking(mode, log) as (options, bars):
        collection = build_collection(settings, replace=replace, **options)
    if as_json:
        show_json(collection.manifest)
    else:
        _show_collection(collection, settings.out, unchanged=UNCHANGED in bars.steps)
        say(f"look at it: freshstack show {settings.out}")
    raise typer.Exit(int(bool(missing_of(collection))))


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
    mode: ModeOption = "live",
    plan: PlanOption = False,
    as_json: JsonOption = False,
) -> None:
    """Judge the unjudged chunks of runs, also of passages."""
    from freshstack_dspy.recipes.extend import extend as extend_collection
    from freshstack_dspy.recipes.extend import plan_extension

    if plan:
        with ProgressBars() as bars:
            planned = plan_extension(collection, runs, config, k=k, progress=bars)
        show_json(planned) if as_json else show_plan(planned)
        return
    with asking(mode) as (options, _):
        found = extend_collection(collection, runs, config, k=k, out=out, **options)
    if as_json:
        values = {"changed": found.changed, "judged": found.judged, "failed": found.failed}
        show_json({**values, "manifest": found.collection.manifest})
    elif not found.changed:
        say(f"{collection}: nothing to add, so nothing was written")
    else:
        _show_extended(found, out or collection, k)
    raise typer.Exit(int(bool(found.failed)))


def _show_extended(found: "Extended", path: Path, k: int) -> None:
    from freshstack_dspy.stored.counts import listed

    before, after = found.before.manifest.counts, found.collection.manifest.counts
    for run, judged in found.judged.items():
        say(f"{run}: {judged:,} pairs judged in its top {k}")
    say(f"judged chunks of queries: {before.pool:,}, now {after.pool:,}")
    say(f"supported pairs: {before.supported:,}, now {after.supported:,}")
    say(f"slices: {listed(after.slices)}")
    if found.failed:
        say(f"{found.failed:,} pairs failed; extend again to retry them")
    say(found.collection.labels_by)
    say(f"{path}: content {found.collection.manifest.content_hash}")


def refresh(
    config: ConfigArgument,
    keep_labels: Annotated[
        bool, typer.Option("--keep-labels", help="Reuse labels that another judge made too.")
    ] = False,
    mode: ModeOption = "live",
    as_json: JsonOption = False,
) -> None:
    """Take in new questions and files; reuse every judgment of unchanged content."""
    from freshstack_dspy.config import load_config
    from freshstack_dspy.recipes.refresh import refresh as refresh_collection
    from freshstack_dspy.stored.counts import missing_of

    settings = load_config(config)
    changes = _changes_file(settings.out)
    with asking(mode) as (options, _):
        found = refresh_collection(
            settings, keep_labels=keep_labels, difference_file=changes, **options
        )
    if as_json:
        values = {"changed": found.changed, "calls": found.calls}
        difference = {name: getattr(found.difference, name) for name in _COMPARED}
        show_json({**values, "difference": difference, "manifest": found.collection.manifest})
    else:
        _show_refreshed(found, settings.out, changes)
    raise typer.Exit(int(bool(missing_of(found.collection))))


def _show_refreshed(found: "Refreshed", path: Path, changes: Path) -> None:
    _show_collection(found.collection, path, unchanged=not found.changed)
    if not found.changed:
        say("nothing differs, so nothing was written")
        return
    tallies = [(name, getattr(found.difference, name)) for name in _COMPARED]
    rows = [(name, one.kept, one.added, one.dropped, one.changed) for name, one in tallies]
    show(Table(("", "unchanged", "added", "dropped", "changed"), rows, "difference"))
    say(f"in another slice than before: {found.difference.resliced} queries")
    say(f"all changes: {changes}")
    say(f"{found.calls:,} calls for this refresh; above are those before it too")


def _changes_file(out: Path) -> Path:
    """Next to a collection; here, where that folder cannot be written."""
    name = f"{out.name}.changes.jsonl"
    return out.with_name(name) if os.access(out.absolute().parent, os.W_OK) else Path(name)


def rejudge(
    collection: CollectionArgument,
    config: JudgingOption,
    out: Annotated[Path | None, typer.Option(help="Folder of the new collection.")] = None,
    sample: Annotated[
        int | None,
        typer.Option(min=1, help="Judge so many chunks one by one, and write nothing."),
    ] = None,
    mode: ModeOption = "live",
    as_json: JsonOption = False,
) -> None:
    """Judge all judged pairs again, or a sample; say how far the labels agree."""
    from freshstack_dspy.collection.diff import write_changes
    from freshstack_dspy.config import load_judging
    from freshstack_dspy.recipes.rejudge import rejudge as judge_again

    settings = load_judging(config)
    with asking(mode) as (options, _):
        found = judge_again(collection, settings, out, sample=sample, **options)
    changes = None
    if out is not None and found.difference is not None:
        changes = _changes_file(out)
        write_changes(found.difference, changes)
    if as_json:
        values = {name: getattr(found, name) for name in ("agreement", "on_support", "textless")}
        made = found.collection.manifest if found.collection is not None else None
        show_json({**values, "manifest": made})
    else:
        _show_agreement(found, settings.model.name, out, changes)
    raise typer.Exit(int(found.failed > found.textless))


def rechunk(
    collection: CollectionArgument,
    max_tokens: Annotated[int, typer.Option(help="The most tokens in a chunk.")],
    out: Annotated[Path, typer.Option(help="New folder to write.")],
    as_json: JsonOption = False,
) -> None:
    """Cut a collection's files anew; labels follow their evidence, and no model is asked."""
    from freshstack_dspy.collection.rechunk import rechunk as rechunk_collection
    from freshstack_dspy.stored.counts import listed

    check_out(out, folder=True)
    found = rechunk_collection(collection, max_tokens, out)
    manifest = found.collection.manifest
    if as_json:
        show_json({**found._asdict(), "collection": manifest})
        return
    counts = manifest.counts
    say(f"{counts.chunks:,} chunks of at most {max_tokens} tokens, {counts.judgments:,} judgments")
    say(f"supported pairs: {counts.supported:,}; slices: {listed(counts.slices)}")
    if found.without_evidence:
        say(f"{found.without_evidence:,} labels of support had no evidence, only their chunk")
    if found.lost:
        say(
            f"labels of support that are lost, as no chunk holds all of their evidence: "
            f"{found.lost:,}; nuggets that are supported no more: {len(found.lost_nuggets):,}"
        )
    say(f"{out}: content hash {manifest.content_hash}")


def plan_asking(config: Path, collection: "Collection", ask: "Callable[[Session], object]") -> None:
    """Print what a function would ask for that asks about the queries of a collection."""
    from freshstack_dspy.config import load_judging
    from freshstack_dspy.recipes.plan import plan_asking as plan

    with ProgressBars() as bars:
        found = plan(
            load_judging(config),
            ask,
            name=collection.name,
            queries=len(collection.qrels().nuggets),
            progress=bars,
        )
    show_plan(found)


def _show_planned(found: "Plan") -> None:
    header = ("step", "requests", "recorded", "input tokens", "output tokens")
    rows: list[tuple[str | int, ...]] = []
    priced = 0 if found.total.cost is None else 3
    for one in (*found.steps, found.total):
        tokens = one.requests, one.recorded, one.input_tokens, one.output_tokens
        dollars = (one.cost, one.batch_cost, one.upper_bound)[:priced]
        rows.append((one.step, *tokens, *map(_money, dollars)))
    title = f"{found.name}: {found.queries:,} questions for {found.model}"
    show(Table((*header, *("live", "batch", "upper bound")[:priced]), rows, title))


def show_plan(found: "Plan") -> None:
    """Print what a dry run asked for, by step."""
    _show_planned(found)
    if found.sampled < found.queries:
        say(f"estimated from {found.sampled} of the {found.queries:,} questions, scaled up")
    _say_left_out(found.left_out)
    if found.little_overlap:
        from freshstack_dspy.recipes.questions import overlap_note

        say_wrapped(
            f"{overlap_note(found.little_overlap, found.queries)} (two or more of the rare terms "
            "of title and answer, over .3 of them, are in no document). Most such questions cannot "
            "be answered from it, and some can: look at them, add documents, or leave them out "
            "with [queries] min_corpus_overlap = 0.7"
        )
    _say_ids(
        found.in_images,
        'that seem to need an image, which no model is shown; images = "drop" leaves them out',
    )
    _say_ids(found.without_nuggets, _WITHOUT_NUGGETS)
    say("tokens (by cl100k_base) and dollars are of what is not recorded")
    say_wrapped(
        "a dry run: missing replies are those of extractive/baseline, so what follows from them is "
        "an estimate; re-asks and reasoning come on top"
    )
    if found.total.cost is None:
        _say_unpriced(found.model)
    if found.missing_key is not None:
        say(f"it cannot ask yet: {found.missing_key}")
    for each in found.embeddings:
        say(
            f"[[embedder]] {each.name}: {each.texts:,} texts in {each.requests:,} requests, "
            f"{each.tokens:,} tokens, {_money(each.dollars)}; {each.recorded:,} recorded"
        )
    for cap in found.budget:
        takes = "an unknown amount"
        if cap.expected is not None:
            verdict = "enough" if cap.spent + cap.expected <= cap.limit else "too much"
            takes = f"{cap.expected:,.2f}: {verdict}"
        say(
            f"[budget] {cap.cap}: {cap.spent:,.2f} of {cap.limit:,.2f} spent; the plan takes {takes}"
        )


def _money(amount: float | None) -> str:
    if amount is None:
        return "–"
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}"


def _say_left_out(rejected: dict[str, int]) -> None:
    """Say how many questions are left out, by reason."""
    from freshstack_dspy.stored.counts import listed

    if rejected:
        hint = "; raise [queries] limit for more" if rejected.get("beyond limit") else ""
        say(f"questions left out: {listed(rejected)}{hint}")


def _say_ids(ids: Sequence[str], what: str) -> None:
    """Name some questions, if there are any."""
    from freshstack_dspy.stored.counts import some_of

    if ids:
        say(f"questions {what} ({len(ids):,}): {some_of(ids)}")


def _show_steps(manifest: "Manifest", path: Path) -> None:
    """Say what each step asked and cost."""
    from freshstack_dspy.records import in_order_of_steps

    header = ("step", "calls", "recorded", "re-asked", "failed", "tokens", "cost")
    steps = [(name, manifest.ledger[name]) for name in in_order_of_steps(manifest.ledger)]
    unpriced = any(one.calls and not one.cost for _, one in steps) and _is_unpriced(manifest)
    rows = [
        (
            *(name, one.calls, one.cached, one.reasked, one.failed, one.tokens),
            _money(None if unpriced and one.calls and not one.cost else one.cost),
        )
        for name, one in steps
    ]
    show(Table(header, rows, f"{manifest.name}: {path}"))
    say_wrapped(_STEPS)
    if unpriced:
        _say_unpriced(manifest.model)
    if recorded := sum(one.cached_cost for _, one in steps):
        say(f"what was recorded had cost {_money(recorded)}")


def _is_unpriced(manifest: "Manifest") -> bool:
    from freshstack_dspy.config import PricesConfig
    from freshstack_dspy.lm.prices import price_of

    prices = PricesConfig.model_validate(manifest.config.get("prices", {}))
    return price_of(manifest.model, prices) is None


def _say_unpriced(model: str) -> None:
    say_wrapped(
        f"the price of {model} is not known: set [prices] input = … and output = …, in US dollars "
        "per million tokens"
    )


def _show_collection(collection: "Collection", path: Path, *, unchanged: bool) -> None:
    """Say what a build made, and what each step asked and cost, unless it was made already."""
    from freshstack_dspy.stored.counts import FROM_PASSAGES, listed

    manifest = collection.manifest
    if unchanged:
        say(f"{manifest.name}: {path}")
    else:
        _show_steps(manifest, path)
    counts = manifest.counts
    say(
        f"{counts.queries:,} queries, {counts.nuggets:,} nuggets, {counts.chunks:,} chunks, "
        f"{counts.judgments - counts.unlabelled:,} judged pairs ({counts.supported:,} supported)"
        + (f", {counts.unlabelled:,} without a label" if counts.unlabelled else "")
    )
    _say_left_out(counts.rejected)
    say_wrapped(f"slices (by supported nuggets): {listed(counts.slices)}")
    without = {one.query_id: one.slice for one in collection.slices if not one.nuggets}
    irrelevant = [query_id for query_id, name in without.items() if name == "unanswerable"]
    _say_ids(irrelevant, "for which nothing relevant was found")
    _say_ids([query_id for query_id in without if query_id not in irrelevant], _WITHOUT_NUGGETS)
    if any(one.chunk_ids for one in collection.nuggets):
        say_wrapped(f"{FROM_PASSAGES}; for an estimate type: freshstack diagnose {path}")
    if measured := collection.left_out():
        few = 2 * counts.slices["unanswerable"] > counts.queries
        hint = f"; add documents that answer them, or see: freshstack diagnose {path}"
        say(f"measures are taken on {measured}{hint if few else ''}")
    if counts.skipped:
        number = sum(counts.skipped.values())
        say(f"{number:,} files skipped ({listed(counts.skipped)}); see {path / 'skipped.jsonl'}")
    # A reply came, and a passage in it says what its document does not: that is final.
    passages = (one for one in collection.failures if one.step == "passages")
    if dropped := sum(one.status == "failed" and one.call_id is not None for one in passages):
        say(f"{counted(dropped, 'passage')} left out by the check; see {path / 'failures.jsonl'}")
    failed = sum(n for statuses in counts.failures.values() for n in statuses.values()) - dropped
    if failed:
        say(f"{failed:,} failures; see {path / 'failures.jsonl'}, and build again to retry")
    if manifest.scale.name == "support" and counts.evidence < counts.supported:
        say(f"{counts.missing_evidence}: no quote of the judge is in the chunk")
    say(collection.labels_by)
    say(f"content hash {manifest.content_hash}")


def _show_agreement(found: "Rejudged", model: str, out: Path | None, changes: Path | None) -> None:
    from freshstack_dspy.calibration.agreement_page import confusion_table, metrics_parts

    if found.agreement is None:
        say("no pair has a label both before and now")
    else:
        pairs, threshold = counted(found.agreement.pairs, "pair"), found.agreement.threshold
        title = f"{model} compared with the labels before: {pairs}, support from {threshold} on"
        confusion = confusion_table(found.agreement, "now", "before")
        present(Page(title, (*metrics_parts(found.agreement), confusion)))
        if found.on_support:
            say("the scales differ, so labels are compared as support (1) or none (0)")
    if found.textless:
        say(f"{found.textless:,} pairs were not asked about, for their chunk has no text")
    if found.collection is None or found.difference is None:
        return
    manifest = found.collection.manifest
    if failed := manifest.counts.unlabelled - found.textless:
        say(f"{failed:,} pairs failed; rejudge again to retry them")
    say(f"{found.difference.judgments.changed:,} pairs have another label than before: {changes}")
    say(found.collection.labels_by)
    say(f"{out}: content hash {manifest.content_hash}")
