"""The page of a difference: what is the same, came, went or changed, counted and listed."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from freshstack_dspy.pages.page import Page, Table, Text, cut

if TYPE_CHECKING:
    from freshstack_dspy.collection.diff import Difference, JudgmentChange, NuggetChange

_LONGEST = 160


def difference_page(found: "Difference", title: str, limit: int) -> Page:
    """Give the page of a difference, with so many changes of each kind."""
    rows = [(kind, of.kept, of.added, of.dropped, of.changed) for kind, of in found.tallies.items()]
    slices = Counter(
        f"{change.slice_before} → {change.slice_after}"
        for change in found.changes
        if change.kind == "query" and change.slice_before and change.slice_after
        if change.slice_before != change.slice_after
    )
    moved = ", ".join(f"{number:,} {move}" for move, number in sorted(slices.items()))
    return Page(
        title,
        (
            Table(("", "same", "added", "dropped", "changed"), rows),
            *([Text(f"slices of queries: {moved}")] if moved else []),
            *(
                Page(f"{name}: {len(lines):,}", tuple(_listed(lines, limit)))
                for name, lines in _changes(found)
                if lines
            ),
        ),
        data=found,
    )


def _listed(lines: Sequence[str], limit: int) -> Iterator[Text]:
    for line in lines[:limit]:
        yield Text(cut(line, _LONGEST), "item")
    if 0 < limit < len(lines):
        yield Text(f"… and {len(lines) - limit:,} more", "item")


def _changes(found: "Difference") -> Iterator[tuple[str, list[str]]]:
    queries = [change for change in found.changes if change.kind == "query"]
    nuggets = [change for change in found.changes if change.kind == "nugget"]
    labels = [change for change in found.changes if change.kind == "judgment"]
    for kind in ("added", "dropped", "edited"):
        ids = [change.query_id for change in queries if change.change == kind]
        yield f"queries {kind}", [f"{id_}: {found.questions[id_]}" for id_ in ids]
    for kind in ("added", "dropped", "changed"):
        yield f"nuggets {kind}", [_nugget(one) for one in nuggets if one.change == kind]
    for move in ("up", "down", "new", "gone"):
        yield f"labels {move}", [_label(one, found) for one in labels if one.move == move]
    elsewhere = [_label(one, found) for one in labels if one.change == "evidence"]
    yield "same label, other evidence", elsewhere


def _nugget(change: "NuggetChange") -> str:
    nugget = change.after or change.before
    assert nugget is not None
    if not change.fields:
        return f"{nugget.nugget_id}: {nugget.text}"
    moves = (f"{getattr(change.before, name)} → {getattr(nugget, name)}" for name in change.fields)
    return f"{nugget.nugget_id}: {'; '.join(moves)}"


def _label(change: "JudgmentChange", found: "Difference") -> str:
    judgment = change.after or change.before
    assert judgment is not None
    sides = (change.before, change.after)
    if change.change == "evidence":  # where it is in the file, in bytes
        spans = [one.evidence if one else () for one in sides]
        ends = [" ".join(f"{start}–{end}" for start, end in each) or "none" for each in spans]
    else:
        ends = ["–" if one is None or one.label is None else str(one.label) for one in sides]
    return (
        f"{' → '.join(ends)}  {judgment.nugget_id} in {judgment.chunk_id}: "
        f"{found.texts[judgment.nugget_id]}"
    )
