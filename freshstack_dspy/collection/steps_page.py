"""The pages of an agent's searches: the curve over steps, and the searches of one query."""

from typing import TYPE_CHECKING

from freshstack_dspy.pages.page import Cell, Page, Span, Table, Text, Value, counted, cut, percent
from freshstack_dspy.records import DRY_RUN

if TYPE_CHECKING:
    from freshstack_dspy.collection.steps import Steps

_LONGEST = 160


def steps_page(found: "Steps") -> Page:
    """Give what each step adds, what is repeated, and what it takes."""
    header: tuple[str, ...] = (
        "step", "searches", "alone", "union", "added", "shown before", "not judged", "tokens",
        "per 1,000 tokens", "per dollar",
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = [
        (
            of.step, of.searches, Value(of.alone, form=".3f"), Value(of.union, form=".3f"),
            Value(of.added, form="+.3f"), percent(of.repeated), percent(of.unjudged), of.tokens,
            Value(of.per_thousand, form=".2f"), Value(of.per_dollar, form=",.1f"),
        )
        for of in found.steps
    ]  # fmt: skip
    if all(of.per_dollar is None for of in found.steps):
        header, rows = header[:-1], [row[:-1] for row in rows]
    empty = counted(sum(of.empty for of in found.steps), "search", "searches")
    same = f"{sum(of.same for of in found.steps):,} in the words of an earlier one"
    notes = [f"{empty} without a result, {same}"]
    if found.placed_share is not None:
        placed = f"{found.placed_share:.1%} of the results are in the files of the corpus"
        notes.append(f"{placed}; what is not there is not judged")
    about = (
        "union: the mean share of nuggets that the searches so far support, over all queries; "
        "alone: that of this search, over the queries that have it; per: nuggets that the searches "
        "so far support, for all that they took"
    )
    dry_run = f" ({DRY_RUN})" if found.dry_run else ""
    title = f"{found.run} on {found.collection}: {counted(found.queries, 'query', 'queries')}"
    return Page(
        f"{title}{dry_run}",
        (Table(header, rows), *map(Text, notes), Text(about, "note")),
        data=found,
    )


def trajectory_page(found: "Steps", query_id: str) -> Page:
    """Give the searches of a query: what each found, and what was then missing."""
    parts = []
    for number, seen in enumerate(found.trajectories[query_id], start=1):
        line = counted(seen.results, "result")
        if seen.repeated:
            line += f", {seen.repeated:,} of them shown before"
        if seen.unplaced:
            line += f", {seen.unplaced:,} of them not in the corpus"
        body = [Text((Span(cut(seen.search, _LONGEST), "strong"), f": {line}"))]
        body += [Text(f"found: {text}", "item") for text in seen.found or ("nothing new",)]
        body += [Text(f"missing: {text}", "item") for text in seen.missing or ("nothing",)]
        parts.append(Page(f"step {number}", tuple(body)))
    data = {"query_id": query_id, "searches": found.trajectories[query_id]}
    return Page(f"{found.run}: query {query_id}", tuple(parts), data=data)
