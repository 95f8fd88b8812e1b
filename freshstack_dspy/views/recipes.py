"""What is shown of plans, of stale labels, and of what was built, extended, refreshed or judged again."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.config import PricesConfig
from freshstack_dspy.lm.prices import price_of
from freshstack_dspy.lm.request import BASELINE, BY_HAND
from freshstack_dspy.measures.decision import few_questions
from freshstack_dspy.measures.statistics import FEWEST
from freshstack_dspy.pages.page import (
    Page,
    Span,
    Table,
    Text,
    counted,
    money,
    notes,
    part,
)
from freshstack_dspy.pages.shown import page_of
from freshstack_dspy.questions.filters import overlap_note
from freshstack_dspy.recipes.doctor import Checkup
from freshstack_dspy.recipes.extend import Extended
from freshstack_dspy.recipes.make import Refreshed
from freshstack_dspy.recipes.plan import Plan, PlannedCap
from freshstack_dspy.recipes.rejudge import Rejudged
from freshstack_dspy.recipes.stale import Change, Stale, StaleLabel, StaleNugget
from freshstack_dspy.recipes.status import Status
from freshstack_dspy.records import in_order_of_steps
from freshstack_dspy.stored.contents import FROM_PASSAGES, listed, some_of
from freshstack_dspy.stored.manifest import Manifest, asking_again
from freshstack_dspy.views.collection import tallies_table

COMPARED = ("queries", "nuggets", "chunks", "pool", "judgments")
_WITHOUT_NUGGETS = "without nuggets, as the answer states no fact or the step failed"
_NOTHING_EXPECTED = "without anything expected that is in the corpus"
_STEPS = (
    "recorded: replies that were there; re-asked: invalid ones, sent back; closed-book answers: "
    "without documents, to search with; contamination: what the model knows without them"
)
_CHANGES: dict[Change, str] = {
    "moved": "evidence moved",
    "gone": "evidence gone",
    "edited": "question edited",
    "retired": "question retired",
}
_STALE = (
    "reused: nugget and chunk say what they said; followed: the chunk was edited, and says on "
    "unchanged lines what was quoted; moved: a new chunk says it otherwise; gone: none does"
)
_NEAREST = 3


# Plans


@page_of.register
def plan_page(plan: Plan) -> Page:
    """Give what a build would ask for and cost, and what is known of its questions."""
    steps = [*plan.steps, plan.total]
    columns: dict[str, Any] = {"step": "step"}
    if len(plan.total.models) > 1:
        columns["model"] = lambda step: "" if step is plan.total else ", ".join(step.models)
    columns |= {
        "requests": "requests",
        "recorded": "recorded",
        "input tokens": "input_tokens",
        "output tokens": "output_tokens",
    }
    if plan.total.cost is not None:
        columns["cost"] = lambda step: money(step.cost)
    return Page(
        f"{plan.name}: {plan.queries:,} questions for {plan.model}",
        (Table.of(steps, columns), *map(Text, _plan_lines(plan))),
        data=plan,
        rows=Table.of_dicts([{**dict(step), "models": ", ".join(step.models)} for step in steps]),
    )


def _plan_lines(plan: Plan) -> Iterator[str]:
    asks = plan.total.requests > plan.total.recorded
    yield _price_line(plan) if asks else "nothing would be sent: every reply is recorded"
    if plan.queries < FEWEST:
        yield few_questions(plan.queries)
    if plan.sampled < plan.queries:
        yield f"estimated from {plan.sampled} of the {plan.queries:,} questions, scaled up"
    yield from _left_out(plan.left_out)
    if plan.little_overlap:
        yield (
            f"{overlap_note(plan.little_overlap, plan.queries)} (two or more of the rare terms "
            "of title and answer, over .3 of them, are in no document). Most such questions cannot "
            "be answered from it, and some can: look at them, add documents, or leave them out "
            "with [queries] min_corpus_overlap = 0.7"
        )
    yield from _named(
        plan.in_images,
        'that seem to need an image, which no model is shown; images = "drop" leaves them out',
    )
    yield from _named(plan.without_nuggets, _WITHOUT_NUGGETS)
    if asks:
        yield "tokens (by cl100k_base) and dollars are of what is not recorded"
        yield (
            "a dry run: missing replies are those of extractive/baseline, so what follows from them, "
            "such as which chunks are found and judged, is an estimate; re-asks and reasoning come "
            "on top"
        )
    if plan.context is not None:
        yield f"requests are packed for a context of {plan.context:,} tokens"
    elif asks and not plan.model.startswith((BASELINE, BY_HAND)):
        yield (
            f"the context of {plan.model} is not known: name it in [model] context, or requests "
            "that it refuses as too long are asked again with fewer chunks"
        )
    yield from (f"{name} was not asked: what it adds is not known yet" for name in plan.unasked)
    if plan.missing_key is not None:
        yield f"it cannot ask yet: {plan.missing_key}"
    for each in plan.embeddings:
        yield (
            f"[[embedder]] {each.name}: {counted(each.texts, 'text')} in "
            f"{counted(each.requests, 'request')}, {counted(each.tokens, 'token')}, "
            f"{money(each.dollars)}; {each.recorded:,} recorded"
        )
    yield from map(_cap_line, plan.budget)


def _price_line(plan: Plan) -> str:
    total = plan.total
    if total.cost is None:
        return _unpriced(plan.model)
    if all(model.startswith(BY_HAND) for model in total.models):
        return (
            "no provider charges for it: build with --mode defer, and then freshstack requests next"
        )
    batches = "" if total.batch_cost is None else f", {money(total.batch_cost)} as batches"
    return (
        f"{money(total.cost)} live{batches}; at most {money(total.upper_bound)}, were every "
        "reply as long as its call allows"
    )


def _cap_line(cap: PlannedCap) -> str:
    takes = "an unknown amount"
    if cap.expected is not None:
        verdict = "enough" if cap.spent + cap.expected <= cap.limit else "too much"
        takes = f"{cap.expected:,.2f}: {verdict}"
    spent = f"{cap.spent:,.2f} of {cap.limit:,.2f} spent"
    return f"[budget] {cap.cap}: {spent}; the plan takes {takes}"


def _unpriced(model: str) -> str:
    """Say what to do about a price that is not known."""
    return (
        f"the price of {model} is not known: set [prices] input = … and output = …, in US dollars "
        "per million tokens"
    )


def _left_out(rejected: Mapping[str, int]) -> Iterator[str]:
    """Say how many questions are left out, by reason."""
    if rejected:
        hint = "; raise [queries] limit for more" if rejected.get("beyond limit") else ""
        yield f"questions left out: {listed(rejected)}{hint}"


def _named(ids: Sequence[str], what: str) -> Iterator[str]:
    """Name some questions, if there are any."""
    if ids:
        yield f"questions {what} ({len(ids):,}): {some_of(ids)}"


# What is stale


@page_of.register
def stale_page(stale: Stale, limit: int = 10) -> Page:
    """Give which labels and nuggets are stale, and what a refresh would ask, with the first of each kind."""
    return Page(
        f"{stale.name}: {part(len(stale.labels), stale.supported)} of the labels of support are stale",
        (
            Table(("labels of support", "number"), list(_stale_rows(stale))),
            *notes(_STALE),
            *map(Text, _stale_lines(stale)),
            *_revisions(stale),
            *_stale_nuggets(stale, limit),
            Page("what a refresh would ask", plan_page(stale.plan).parts),
        ),
        data=stale,
        rows=Table.of(
            stale.labels,
            {name: name for name in StaleLabel.model_fields},
        ),
    )


def _stale_rows(stale: Stale) -> Iterator[tuple[str, str]]:
    supported, by_change = stale.supported, Counter(label.change for label in stale.labels)
    yield "reused", part(stale.kept - stale.elsewhere, supported)
    yield "reused, at another place", part(stale.elsewhere, supported)
    yield "followed their evidence", part(stale.followed, supported)
    for change, what in _CHANGES.items():
        yield what, part(by_change[change], supported)


def _stale_lines(stale: Stale) -> Iterator[str]:
    chunks = stale.chunks
    yield f"chunks: {chunks.kept:,} as before, {chunks.added:,} new, {chunks.dropped:,} gone"
    if stale.others:
        yield f"labels without support whose chunk or question is another: {stale.others:,}"
    for change, what in (("added", "added"), ("edited", "edited"), ("dropped", "retired")):
        yield from _named(
            [query.query_id for query in stale.queries if query.change == change], what
        )


def _revisions(stale: Stale) -> Iterator[Table]:
    revisions = [each for each in stale.revisions if each.before or each.now]
    columns: dict[str, Any] = {
        "source": "source",
        "labels of": lambda each: _revision(each.before, each.date_before),
        "now": lambda each: _revision(each.now, each.date_now),
    }
    if revisions:
        yield Table.of(revisions, columns)


def _revision(revision: str | None, date: str | None) -> str:
    return f"{(revision or '–')[:12]}{f' of {date[:10]}' if date else ''}"


def _stale_nuggets(stale: Stale, limit: int) -> Iterator[Page]:
    bare = [nugget for nugget in stale.nuggets if nugget.unsupported]
    moved = [nugget for nugget in stale.nuggets if nugget.moved and not nugget.kept]
    others = [each for each in stale.nuggets if each.near and each not in (*bare, *moved)]
    kinds = {
        f"nuggets left without support: {_near(bare)}": bare,
        f"nuggets whose only evidence moved: {_near(moved)}": moved,
        f"other nuggets that new chunks may support: {len(others):,}": others,
    }
    labels: dict[str, list[StaleLabel]] = {}
    for label in stale.labels:
        labels.setdefault(label.nugget_id, []).append(label)
    for title, nuggets in kinds.items():
        if nuggets:
            lines = [line for nugget in nuggets[:limit] for line in _stale_nugget(nugget, labels)]
            if len(nuggets) > limit > 0:
                lines.append(Text(f"… and {len(nuggets) - limit:,} more", "item"))
            yield Page(title, tuple(lines))


def _near(nuggets: Sequence[StaleNugget]) -> str:
    return (
        f"{len(nuggets):,}, {sum(bool(nugget.near) for nugget in nuggets):,} with new chunks near"
    )


def _stale_nugget(nugget: StaleNugget, labels: dict[str, list[StaleLabel]]) -> Iterator[Text]:
    true_at = f", true at {nugget.true_at[:10]}" if nugget.true_at else ""
    yield Text((Span(nugget.nugget_id, "code"), f"{true_at}: {nugget.text}"), "item")
    for label in labels.get(nugget.nugget_id, [])[:_NEAREST]:
        where = f" now in {label.now}" if label.now else ""
        yield Text(f"{label.change}: {label.chunk_id}{where}", "item", 1)
    if nugget.near:
        yield Text(f"new near it: {_some(nugget.near)}", "item", 1)


def _some(ids: Sequence[str]) -> str:
    more = f" and {counted(len(ids) - _NEAREST, 'other')}" if len(ids) > _NEAREST else ""
    return f"{', '.join(ids[:_NEAREST])}{more}"


# What was built


def built_page(collection: Collection, path: Path, *, unchanged: bool = False) -> Page:
    """Give what a build made, what its steps asked and cost, and what to do next.

    Where it was `unchanged`, the steps are left out.
    """
    manifest = collection.manifest
    steps = () if unchanged else _steps(manifest)
    lines = (*_counts(collection, path), *_faults(collection, path), collection.labels_by)
    return Page(
        manifest.name if str(path) == manifest.name else f"{manifest.name}: {path}",
        (*steps, *map(Text, lines), Text(f"content hash {manifest.content_hash}"), *_next(path)),
        data=manifest,
    )


def _next(path: Path) -> Iterator[Text]:
    yield Text(("look at it: ", Span(f"freshstack show {path}", "code")))
    yield Text(("search it: ", Span(f"freshstack retrieve {path}", "code")))


def _steps(manifest: Manifest) -> Iterator[Table | Text]:
    """What each step asked and cost."""
    steps = [(name, manifest.ledger[name]) for name in in_order_of_steps(manifest.ledger)]
    priceless = {
        name
        for name in (manifest.model, *chain(*manifest.models.values()))
        if price_of(name, _prices(manifest, name)) is None
    }
    unknown = {
        name
        for name, usage in steps
        if usage.calls > 0
        and not usage.cost
        and not priceless.isdisjoint(manifest.models.get(name, (manifest.model,)))
    }
    if not steps:
        return
    columns: dict[str, Any] = {
        "step": lambda step: step[0],
        "calls": lambda step: step[1].calls,
        "recorded": lambda step: step[1].cached,
        "re-asked": lambda step: step[1].reasked,
        "failed": lambda step: step[1].failed,
        "tokens": lambda step: step[1].tokens,
        "cost": lambda step: money(None if step[0] in unknown else step[1].cost),
    }
    yield Table.of(steps, columns)
    yield from notes(_STEPS)
    if unknown:
        yield Text(_unpriced(", ".join(sorted(priceless))))
    if recorded := sum(one.cached_cost for _, one in steps):
        yield Text(f"what was recorded had cost {money(recorded)}")


def _prices(manifest: Manifest, model: str) -> PricesConfig:
    """The user's own prices of a model, by the section that names it."""
    sections: list[Any] = [one for one in manifest.config.values() if isinstance(one, dict)]
    named = [one["model"] for one in sections if isinstance(one.get("model"), dict)]
    own = next((one.get("prices") for one in named if one.get("name") == model), None)
    return PricesConfig.model_validate(own or manifest.config.get("prices", {}))


def _counts(collection: Collection, path: Path) -> Iterator[str]:
    counts = collection.manifest.counts
    without = f", {counts.unlabelled:,} without a label" if counts.unlabelled else ""
    yield (
        f"{counts.queries:,} queries, {counts.nuggets:,} nuggets, {counts.chunks:,} chunks, "
        f"{counts.judgments - counts.unlabelled:,} judged pairs ({counts.supported:,} supported)"
        f"{without}"
    )
    yield from _left_out(counts.rejected)
    yield f"slices (by supported nuggets): {listed(counts.slices)}"
    bare = {one.query_id: one.slice for one in collection.slices if not one.nuggets}
    irrelevant = [query_id for query_id, name in bare.items() if name == "unanswerable"]
    yield from _named(irrelevant, "for which nothing relevant was found")
    why = _NOTHING_EXPECTED if collection.plain else _WITHOUT_NUGGETS
    yield from _named([id_ for id_ in bare if id_ not in irrelevant], why)
    if any(one.chunk_ids for one in collection.nuggets):
        yield f"{FROM_PASSAGES}; for an estimate type: freshstack diagnose {path}"
    if measured := collection.left_out():
        few = 2 * counts.slices["unanswerable"] > counts.queries
        hint = f"; add documents that answer them, or see: freshstack diagnose {path}"
        yield f"measures are taken on {measured}{hint if few else ''}"


def _faults(collection: Collection, path: Path) -> Iterator[str]:
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
        imported = collection.manifest.recipe.startswith("import:")
        options = asking_again(collection.manifest)
        again = f"and ask for them again with: freshstack build CONFIG {options}"
        hint = "" if imported else f", {again}"
        yield f"{counted(failed, 'failure')}; see {path / 'failures.jsonl'}{hint}"
    if collection.manifest.scale.name == "support" and counts.evidence < counts.supported:
        yield f"{counts.missing_evidence}: no quote of the judge is in the chunk"


@page_of.register
def extended_page(extended: Extended, path: Path | str = "") -> Page:
    """Give what runs brought to a collection, which is at `path`."""
    path = path or extended.collection.name
    manifest = extended.collection.manifest
    data = {"changed": extended.changed, "judged": extended.judged, "failed": extended.failed}
    runs = counted(len(extended.judged), "run")
    return Page(
        f"{path}: {f'what {runs} brought' if extended.changed else 'nothing to add, so nothing was written'}",
        tuple(map(Text, _extended(extended, path))) if extended.changed else (),
        data={**data, "manifest": manifest},
    )


def _extended(extended: Extended, path: Path | str) -> Iterator[str]:
    before, now = extended.before.manifest.counts, extended.collection.manifest
    depths = {one.run: one.depth for one in now.extensions}
    for run, judged in extended.judged.items():
        yield f"{run}: {counted(judged, 'pair')} judged in its top {depths[run]}"
    yield f"judged chunks of queries: {before.pool:,}, now {now.counts.pool:,}"
    yield f"supported pairs: {before.supported:,}, now {now.counts.supported:,}"
    yield f"slices: {listed(now.counts.slices)}"
    if extended.failed:
        failed = counted(extended.failed, "pair")
        yield f"{failed} failed; extend with {asking_again(now)} to ask for them again"
    yield extended.collection.labels_by
    yield f"{path}: content hash {now.content_hash}"


@page_of.register
def refreshed_page(
    refreshed: Refreshed, path: Path | None = None, changes: Path | None = None
) -> Page:
    """Give what became of the collection at `path`; its changes were written to `changes`."""
    path = path or Path(refreshed.collection.name)
    page = built_page(refreshed.collection, path, unchanged=not refreshed.changed)
    tallies = {name: getattr(refreshed.difference, name) for name in COMPARED}
    data = {
        "changed": refreshed.changed,
        "calls": refreshed.calls,
        "difference": tallies,
        "manifest": refreshed.collection.manifest,
    }
    if not refreshed.changed:
        last: tuple[Table | Text, ...] = (Text("nothing differs, so nothing was written"),)
    else:
        resliced = counted(refreshed.difference.resliced, "query", "queries")
        last = (
            tallies_table(tallies, "unchanged", "difference"),
            Text(f"in another slice than before: {resliced}"),
            *([Text(f"all changes: {changes}")] if changes else []),
            Text(
                f"{counted(refreshed.calls, 'call')} for this refresh; above are those before it too"
            ),
        )
    return Page(page.title, (*page.parts, *last), data)


@page_of.register
def rejudged_page(
    rejudged: Rejudged, path: Path | None = None, changes: Path | None = None
) -> Page:
    """Give how far the labels of another judge agree, and what was written to `path`, if anything."""
    manifest = None if rejudged.collection is None else rejudged.collection.manifest
    data = {name: getattr(rejudged, name) for name in ("agreement", "on_support", "textless")}
    title = "no pair has a label both before and now"
    parts: list[Table | Text] = []
    if rejudged.agreement is not None:
        pairs, threshold = counted(rejudged.agreement.pairs, "pair"), rejudged.agreement.threshold
        title = f"{rejudged.model} compared with the labels before: {pairs}, support from {threshold} on"
        from freshstack_dspy.views.calibration import confusion_table, metrics_parts  # with DSPy

        parts += metrics_parts(rejudged.agreement)
        parts.append(confusion_table(rejudged.agreement, "now", "before"))
    parts += map(Text, _rejudged(rejudged, path, changes))
    return Page(title, tuple(parts), {**data, "manifest": manifest})


def _rejudged(rejudged: Rejudged, path: Path | None, changes: Path | None) -> Iterator[str]:
    if rejudged.agreement is not None and rejudged.on_support:
        yield "the scales differ, so labels are compared as support (1) or none (0)"
    if rejudged.textless:
        pairs = counted(rejudged.textless, "pair")
        yield f"{pairs} not asked about, for their chunk has no text"
    if rejudged.collection is None or rejudged.difference is None:
        return
    if failed := rejudged.failed - rejudged.textless:
        options = asking_again(rejudged.collection.manifest)
        yield f"{counted(failed, 'pair')} failed; rejudge with {options} to ask for them again"
    where = f": {changes}" if changes else ""
    yield f"{rejudged.difference.judgments.changed:,} pairs have another label than before{where}"
    yield rejudged.collection.labels_by
    yield f"{path or rejudged.collection.name}: content hash {rejudged.collection.manifest.content_hash}"


# A configuration that was tried, and how far a collection has come


@page_of.register
def checkup_page(checkup: Checkup) -> Page:
    """Give a line for each part, and below it what to do about it."""
    parts: list[Text] = []
    for check in checkup.checks:
        parts.append(Text((Span(check.state, "strong"), f" {check.part}: {check.said}"), "item"))
        if check.advice:
            parts.append(Text(check.advice, "item", indent=1))
    faults = counted(checkup.faults, "fault") if checkup.faults else "nothing stops a build"
    return Page(f"{checkup.config}: {faults}", tuple(parts), data=checkup)


@page_of.register
def status_page(status: Status) -> Page:
    """Give what is there, what it may be trusted for, and the next commands."""
    steps = [
        Text(
            (Span(step.command, "code"), f": {step.why}{f'; {step.cost}' * bool(step.cost)}"),
            "item",
        )
        for step in status.next
    ]
    parts = (
        *map(Text, status.there),
        Text(("trusted for: ", Span(status.trust, "strong"))),
        *([Text("next:")] if steps else ()),
        *steps,
    )
    return Page(status.name, parts, data=status)
