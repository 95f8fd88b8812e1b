"""The page of a plan: what a build would ask for and cost, and what is known of its questions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from freshstack_dspy.lm.request import BASELINE
from freshstack_dspy.pages.page import Page, Table, Text, counted, money
from freshstack_dspy.stored.counts import listed, some_of

if TYPE_CHECKING:
    from freshstack_dspy.recipes.plan import Plan, PlannedCap

WITHOUT_NUGGETS = "without nuggets, as the answer states no fact or the step failed"
_HEADER = ("step", "requests", "recorded", "input tokens", "output tokens", "cost")


def plan_page(plan: "Plan") -> Page:
    """Give the page of a plan."""
    steps = [*plan.steps, plan.total]
    priced = plan.total.cost is not None
    rows = [
        (one.step, one.requests, one.recorded, one.input_tokens, one.output_tokens, money(one.cost))
        for one in steps
    ]
    columns = len(_HEADER) if priced else len(_HEADER) - 1
    header, shown = _HEADER[:columns], [row[:columns] for row in rows]
    exact = [{**dict(one), "models": ", ".join(one.models)} for one in steps]
    if len(plan.total.models) > 1:
        header = (header[0], "model", *header[1:])
        asked = [", ".join(one.models) for one in plan.steps]
        shown = [(row[0], model, *row[1:]) for row, model in zip(shown, [*asked, ""], strict=True)]
    return Page(
        f"{plan.name}: {plan.queries:,} questions for {plan.model}",
        (Table(header, shown), *map(Text, _notes(plan))),
        data=plan,
        rows=Table(tuple(exact[0]), [tuple(one.values()) for one in exact]),
    )


def _notes(plan: "Plan") -> Iterator[str]:
    if plan.total.cost is None:
        yield unpriced(plan.model)
    else:
        batches = ""
        if plan.total.batch_cost is not None:
            batches = f", {money(plan.total.batch_cost)} as batches"
        yield (
            f"{money(plan.total.cost)} live{batches}; at most {money(plan.total.upper_bound)}, were "
            "every reply as long as its call allows"
        )
    if plan.sampled < plan.queries:
        yield f"estimated from {plan.sampled} of the {plan.queries:,} questions, scaled up"
    yield from left_out(plan.left_out)
    if plan.little_overlap:
        from freshstack_dspy.recipes.questions import overlap_note

        yield (
            f"{overlap_note(plan.little_overlap, plan.queries)} (two or more of the rare terms "
            "of title and answer, over .3 of them, are in no document). Most such questions cannot "
            "be answered from it, and some can: look at them, add documents, or leave them out "
            "with [queries] min_corpus_overlap = 0.7"
        )
    yield from named(
        plan.in_images,
        'that seem to need an image, which no model is shown; images = "drop" leaves them out',
    )
    yield from named(plan.without_nuggets, WITHOUT_NUGGETS)
    yield "tokens (by cl100k_base) and dollars are of what is not recorded"
    yield (
        "a dry run: missing replies are those of extractive/baseline, so what follows from them is "
        "an estimate; re-asks and reasoning come on top"
    )
    if plan.context is not None:
        yield f"requests are packed for a context of {plan.context:,} tokens"
    elif plan.model != BASELINE:
        yield (
            f"the context of {plan.model} is not known: name it in [model] context, or requests "
            "that it refuses as too long are asked again with fewer chunks"
        )
    if plan.missing_key is not None:
        yield f"it cannot ask yet: {plan.missing_key}"
    for each in plan.embeddings:
        yield (
            f"[[embedder]] {each.name}: {counted(each.texts, 'text')} in "
            f"{counted(each.requests, 'request')}, {counted(each.tokens, 'token')}, "
            f"{money(each.dollars)}; {each.recorded:,} recorded"
        )
    yield from map(_of_cap, plan.budget)


def _of_cap(cap: "PlannedCap") -> str:
    takes = "an unknown amount"
    if cap.expected is not None:
        verdict = "enough" if cap.spent + cap.expected <= cap.limit else "too much"
        takes = f"{cap.expected:,.2f}: {verdict}"
    spent = f"{cap.spent:,.2f} of {cap.limit:,.2f} spent"
    return f"[budget] {cap.cap}: {spent}; the plan takes {takes}"


def unpriced(model: str) -> str:
    """Say what to do about a price that is not known."""
    return (
        f"the price of {model} is not known: set [prices] input = … and output = …, in US dollars "
        "per million tokens"
    )


def left_out(rejected: Mapping[str, int]) -> Iterator[str]:
    """Say how many questions are left out, by reason."""
    if rejected:
        hint = "; raise [queries] limit for more" if rejected.get("beyond limit") else ""
        yield f"questions left out: {listed(rejected)}{hint}"


def named(ids: Sequence[str], what: str) -> Iterator[str]:
    """Name some questions, if there are any."""
    if ids:
        yield f"questions {what} ({len(ids):,}): {some_of(ids)}"
