"""The pages of a collection that was built, extended, refreshed or judged again."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from freshstack_dspy.calibration.agreement_page import confusion_table, metrics_parts
from freshstack_dspy.config import PricesConfig
from freshstack_dspy.lm.prices import price_of
from freshstack_dspy.pages.page import Page, Span, Table, Text, counted, money
from freshstack_dspy.recipes.plan_page import WITHOUT_NUGGETS, left_out, named, unpriced
from freshstack_dspy.records import in_order_of_steps
from freshstack_dspy.stored.counts import FROM_PASSAGES, listed

if TYPE_CHECKING:
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.recipes.extend import Extended
    from freshstack_dspy.recipes.refresh import Refreshed
    from freshstack_dspy.recipes.rejudge import Rejudged
    from freshstack_dspy.stored.manifest import Manifest

COMPARED = ("queries", "nuggets", "chunks", "pool", "judgments")
_STEPS = (
    "recorded: replies that were there; re-asked: invalid ones, sent back; closed-book answers: "
    "without documents, to search with; contamination: what the model knows without them"
)


def built_page(collection: "Collection", path: Path, *, unchanged: bool = False) -> Page:
    """Give what a build made, what its steps asked and cost, and what to do next.

    Where it was `unchanged`, the steps are left out.
    """
    manifest = collection.manifest
    steps = () if unchanged else _steps(manifest)
    lines = (*_counts(collection, path), *_faults(collection, path), collection.labels_by)
    return Page(
        f"{manifest.name}: {path}",
        (*steps, *map(Text, lines), Text(f"content hash {manifest.content_hash}"), *_next(path)),
        data=manifest,
    )


def _next(path: Path) -> Iterator[Text]:
    yield Text(("look at it: ", Span(f"freshstack show {path}", "code")))
    yield Text(("search it: ", Span(f"freshstack retrieve {path}", "code")))


def _steps(manifest: "Manifest") -> Iterator[Table | Text]:
    """What each step asked and cost."""
    header = ("step", "calls", "recorded", "re-asked", "failed", "tokens", "cost")
    steps = [(name, manifest.ledger[name]) for name in in_order_of_steps(manifest.ledger)]
    priceless = {
        name
        for name in (manifest.model, *chain(*manifest.models.values()))
        if price_of(name, _prices(manifest, name)) is None
    }
    asked = [(manifest.models.get(name, (manifest.model,)), one) for name, one in steps]
    unknown = [not priceless.isdisjoint(of) and one.calls > 0 and not one.cost for of, one in asked]
    rows = [
        (
            *(name, one.calls, one.cached, one.reasked, one.failed, one.tokens),
            money(None if is_unknown else one.cost),
        )
        for (name, one), is_unknown in zip(steps, unknown, strict=True)
    ]
    yield Table(header, rows)
    yield Text(_STEPS, "note")
    if any(unknown):
        yield Text(unpriced(", ".join(sorted(priceless))))
    if recorded := sum(one.cached_cost for _, one in steps):
        yield Text(f"what was recorded had cost {money(recorded)}")


def _prices(manifest: "Manifest", model: str) -> PricesConfig:
    """The user's own prices of a model, by the section that names it."""
    sections: list[Any] = [one for one in manifest.config.values() if isinstance(one, dict)]
    named = [one["model"] for one in sections if isinstance(one.get("model"), dict)]
    own = next((one.get("prices") for one in named if one.get("name") == model), None)
    return PricesConfig.model_validate(own or manifest.config.get("prices", {}))


def _counts(collection: "Collection", path: Path) -> Iterator[str]:
    counts = collection.manifest.counts
    without = f", {counts.unlabelled:,} without a label" if counts.unlabelled else ""
    yield (
        f"{counts.queries:,} queries, {counts.nuggets:,} nuggets, {counts.chunks:,} chunks, "
        f"{counts.judgments - counts.unlabelled:,} judged pairs ({counts.supported:,} supported)"
        f"{without}"
    )
    yield from left_out(counts.rejected)
    yield f"slices (by supported nuggets): {listed(counts.slices)}"
    bare = {one.query_id: one.slice for one in collection.slices if not one.nuggets}
    irrelevant = [query_id for query_id, name in bare.items() if name == "unanswerable"]
    yield from named(irrelevant, "for which nothing relevant was found")
    yield from named([id_ for id_ in bare if id_ not in irrelevant], WITHOUT_NUGGETS)
    if any(one.chunk_ids for one in collection.nuggets):
        yield f"{FROM_PASSAGES}; for an estimate type: freshstack diagnose {path}"
    if measured := collection.left_out():
        few = 2 * counts.slices["unanswerable"] > counts.queries
        hint = f"; add documents that answer them, or see: freshstack diagnose {path}"
        yield f"measures are taken on {measured}{hint if few else ''}"


def _faults(collection: "Collection", path: Path) -> Iterator[str]:
    counts = collection.manifest.counts
    if counts.skipped:
        number = counted(sum(counts.skipped.values()), "file")
        yield f"{number} skipped ({listed(counts.skipped)}); see {path / 'skipped.jsonl'}"
    # A reply came, and a passage in it says what its document does not: that is final.
    passages = (one for one in collection.failures if one.step == "passages")
    if dropped := sum(one.status == "failed" and one.call_id is not None for one in passages):
        yield f"{counted(dropped, 'passage')} left out by the check; see {path / 'failures.jsonl'}"
    failed = sum(n for statuses in counts.failures.values() for n in statuses.values()) - dropped
    if failed:
        failures = counted(failed, "failure")
        yield (
            f"{failures}; see {path / 'failures.jsonl'}, and ask for them again with: freshstack build "
            f"CONFIG --mode rerecord --failed"
        )
    if collection.manifest.scale.name == "support" and counts.evidence < counts.supported:
        yield f"{counts.missing_evidence}: no quote of the judge is in the chunk"


def extended_page(found: "Extended", path: Path | str) -> Page:
    """Give what runs brought to a collection, which is at `path`."""
    manifest = found.collection.manifest
    data = {"changed": found.changed, "judged": found.judged, "failed": found.failed}
    runs = counted(len(found.judged), "run")
    return Page(
        f"{path}: {f'what {runs} brought' if found.changed else 'nothing to add, so nothing was written'}",
        tuple(map(Text, _extended(found, path))) if found.changed else (),
        data={**data, "manifest": manifest},
    )


def _extended(found: "Extended", path: Path | str) -> Iterator[str]:
    before, now = found.before.manifest.counts, found.collection.manifest
    depths = {one.run: one.depth for one in now.extensions}
    for run, judged in found.judged.items():
        yield f"{run}: {counted(judged, 'pair')} judged in its top {depths[run]}"
    yield f"judged chunks of queries: {before.pool:,}, now {now.counts.pool:,}"
    yield f"supported pairs: {before.supported:,}, now {now.counts.supported:,}"
    yield f"slices: {listed(now.counts.slices)}"
    if found.failed:
        yield f"{counted(found.failed, 'pair')} failed; extend with --mode rerecord --failed to ask for them again"
    yield found.collection.labels_by
    yield f"{path}: content hash {now.content_hash}"


def refreshed_page(found: "Refreshed", path: Path, changes: Path | None = None) -> Page:
    """Give what became of the collection at `path`; its changes were written to `changes`."""
    page = built_page(found.collection, path, unchanged=not found.changed)
    tallies = {name: getattr(found.difference, name) for name in COMPARED}
    data = {
        "changed": found.changed,
        "calls": found.calls,
        "difference": tallies,
        "manifest": found.collection.manifest,
    }
    if not found.changed:
        last: tuple[Table | Text, ...] = (Text("nothing differs, so nothing was written"),)
    else:
        rows = [(name, of.kept, of.added, of.dropped, of.changed) for name, of in tallies.items()]
        resliced = counted(found.difference.resliced, "query", "queries")
        last = (
            Table(("", "unchanged", "added", "dropped", "changed"), rows, "difference"),
            Text(f"in another slice than before: {resliced}"),
            *([Text(f"all changes: {changes}")] if changes else []),
            Text(f"{counted(found.calls, 'call')} for this refresh; above are those before it too"),
        )
    return Page(page.title, (*page.parts, *last), data)


def rejudged_page(found: "Rejudged", path: Path | None, changes: Path | None = None) -> Page:
    """Give how far the labels of another judge agree, and what was written to `path`, if anything."""
    manifest = None if found.collection is None else found.collection.manifest
    data = {name: getattr(found, name) for name in ("agreement", "on_support", "textless")}
    title = "no pair has a label both before and now"
    parts: list[Table | Text] = []
    if found.agreement is not None:
        pairs, threshold = counted(found.agreement.pairs, "pair"), found.agreement.threshold
        title = (
            f"{found.model} compared with the labels before: {pairs}, support from {threshold} on"
        )
        parts += metrics_parts(found.agreement)
        parts.append(confusion_table(found.agreement, "now", "before"))
    parts += map(Text, _rejudged(found, path, changes))
    return Page(title, tuple(parts), {**data, "manifest": manifest})


def _rejudged(found: "Rejudged", path: Path | None, changes: Path | None) -> Iterator[str]:
    if found.agreement is not None and found.on_support:
        yield "the scales differ, so labels are compared as support (1) or none (0)"
    if found.textless:
        pairs = counted(found.textless, "pair")
        yield f"{pairs} not asked about, for their chunk has no text"
    if found.collection is None or found.difference is None:
        return
    if failed := found.failed - found.textless:
        yield f"{counted(failed, 'pair')} failed; rejudge with --mode rerecord --failed to ask for them again"
    where = f": {changes}" if changes else ""
    yield f"{found.difference.judgments.changed:,} pairs have another label than before{where}"
    yield found.collection.labels_by
    yield f"{path or found.collection.name}: content hash {found.collection.manifest.content_hash}"
