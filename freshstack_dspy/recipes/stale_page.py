"""The page of what is stale: labels, nuggets, and what a refresh would ask."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from freshstack_dspy.pages.page import Page, Span, Table, Text, counted, part
from freshstack_dspy.recipes.plan_page import named

if TYPE_CHECKING:
    from freshstack_dspy.recipes.stale import Change, Stale, StaleLabel, StaleNugget

_CHANGES: "dict[Change, str]" = {
    "moved": "evidence moved",
    "gone": "evidence gone",
    "edited": "question edited",
    "retired": "question retired",
}
_NOTE = (
    "reused: nugget and chunk say what they said; moved: the chunk does not, and a new one has the "
    "evidence; gone: none has"
)
_NEAREST = 3


def stale_page(found: "Stale", limit: int) -> Page:
    """Give the page of what is stale, with so many nuggets of each kind."""
    return Page(
        f"{found.name}: {part(len(found.labels), found.supported)} of the labels of support are stale",
        (
            Table(("labels of support", "number"), list(_rows(found))),
            Text(_NOTE, "note"),
            *map(Text, _lines(found)),
            *_revisions(found),
            *_nuggets(found, limit),
            Page("what a refresh would ask", found.plan.page().parts),
        ),
        data=found,
        rows=Table(
            ("query_id", "nugget_id", "chunk_id", "label", "change", "now"),
            [tuple(dict(one).values()) for one in found.labels],
        ),
    )


def _rows(found: "Stale") -> Iterator[tuple[str, str]]:
    of, by_change = found.supported, Counter(one.change for one in found.labels)
    yield "reused", part(found.kept - found.elsewhere, of)
    yield "reused, at another place", part(found.elsewhere, of)
    for change, what in _CHANGES.items():
        yield what, part(by_change[change], of)


def _lines(found: "Stale") -> Iterator[str]:
    chunks = found.chunks
    yield f"chunks: {chunks.kept:,} as before, {chunks.added:,} new, {chunks.dropped:,} gone"
    if found.others:
        yield f"labels without support whose chunk or question is another: {found.others:,}"
    for change, what in (("added", "added"), ("edited", "edited"), ("dropped", "retired")):
        yield from named([one.query_id for one in found.queries if one.change == change], what)


def _revisions(found: "Stale") -> Iterator[Table]:
    rows = [
        (
            each.source,
            _revision(each.before, each.date_before),
            _revision(each.now, each.date_now),
        )
        for each in found.revisions
        if each.before or each.now
    ]
    if rows:
        yield Table(("source", "labels of", "now"), rows)


def _revision(revision: str | None, date: str | None) -> str:
    return f"{(revision or '–')[:12]}{f' of {date[:10]}' if date else ''}"


def _nuggets(found: "Stale", limit: int) -> Iterator[Page]:
    bare = [one for one in found.nuggets if one.unsupported]
    moved = [one for one in found.nuggets if one.moved and not one.kept]
    others = [one for one in found.nuggets if one.near and one not in (*bare, *moved)]
    kinds = {
        f"nuggets left without support: {_near(bare)}": bare,
        f"nuggets whose only evidence moved: {_near(moved)}": moved,
        f"other nuggets that new chunks may support: {len(others):,}": others,
    }
    labels: dict[str, list[StaleLabel]] = {}
    for label in found.labels:
        labels.setdefault(label.nugget_id, []).append(label)
    for title, nuggets in kinds.items():
        if nuggets:
            lines = [line for one in nuggets[:limit] for line in _nugget(one, labels)]
            if len(nuggets) > limit > 0:
                lines.append(Text(f"… and {len(nuggets) - limit:,} more", "item"))
            yield Page(title, tuple(lines))


def _near(nuggets: "Sequence[StaleNugget]") -> str:
    return f"{len(nuggets):,}, {sum(bool(one.near) for one in nuggets):,} with new chunks near"


def _nugget(one: "StaleNugget", labels: "dict[str, list[StaleLabel]]") -> Iterator[Text]:
    true_at = f", true at {one.true_at[:10]}" if one.true_at else ""
    yield Text((Span(one.nugget_id, "code"), f"{true_at}: {one.text}"), "item")
    for label in labels.get(one.nugget_id, [])[:_NEAREST]:
        where = f" now in {label.now}" if label.now else ""
        yield Text(f"{label.change}: {label.chunk_id}{where}", "item", 1)
    if one.near:
        yield Text(f"new near it: {_some(one.near)}", "item", 1)


def _some(ids: Sequence[str]) -> str:
    more = f" and {counted(len(ids) - _NEAREST, 'other')}" if len(ids) > _NEAREST else ""
    return f"{', '.join(ids[:_NEAREST])}{more}"
