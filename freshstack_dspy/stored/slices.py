"""The two filters of the paper, as labelled slices: nothing is thrown away (FreshStack §4)."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.records import (
    RELEVANT,
    Candidate,
    Judgment,
    Nugget,
    Query,
    QuerySlice,
    SliceName,
)
from freshstack_dspy.stored.contents import SLICES, Contents, NuggetsName
from freshstack_dspy.stored.record_files import rows

SUPPORTED: tuple[SliceName, ...] = ("answerable", "partly_supported")
"""The queries with a supported nugget, on which measures are taken by default."""
SlicesName = Literal["supported", "all"] | SliceName
Slices = SlicesName | Sequence[SlicesName] | None
"""Which queries: a name, or several; None: those with a supported nugget."""


def slices_of(slices: Slices) -> tuple[SliceName, ...]:
    """Give the slices of a name, in their one order."""
    given = [slices] if isinstance(slices, str) else ["supported"] if slices is None else slices
    names: dict[str, tuple[SliceName, ...]] = {"supported": SUPPORTED, "all": SLICES}
    names |= {name: (name,) for name in SLICES}
    if unknown := [name for name in given if name not in names]:
        raise CollectionError(f"{unknown[0]!r} is no slice; allowed: {', '.join(names)}")
    chosen = {slice_ for name in given for slice_ in names[name]}
    return tuple(name for name in SLICES if name in chosen)


def left_out(
    contents: Contents, slices: Slices = None, measured_on: NuggetsName = "supported"
) -> str:
    """Say in one line which queries and nuggets measures on these slices leave out; or nothing."""
    chosen = slices_of(slices)
    total = len(contents.slices)
    found = [part for part in contents.slices if part.slice in chosen and part.nuggets]
    ids = {part.query_id for part in found}
    nuggets = sum(part.nuggets for part in found)
    supported = sum(
        (measured_on == "supported" and part.supported) or part.nuggets for part in found
    )
    if len(found) == total and supported == nuggets:
        return ""
    others = Counter(part.slice for part in contents.slices if part.query_id not in ids)
    reasons = [f"{others[name]:,} {name}" for name in SLICES if others[name]]
    line = f"{len(found):,} of {total:,} queries"
    if reasons:
        line += f" (left out: {', '.join(reasons)})"
    if supported < nuggets:
        line += f", on the {supported:,} of their {nuggets:,} nuggets that the corpus supports"
    return line


def check_any(contents: Contents, slices: Slices = None) -> None:
    """Check that some query is in these slices, so that there is something to measure."""
    if contents.queries_in(slices_of(slices)):
        return
    counts = Counter(part.slice for part in contents.slices if part.nuggets)
    there = ", ".join(f"{counts[name]:,} {name}" for name in SLICES if counts[name])
    if not any(counts[name] for name in SUPPORTED):
        raise CollectionError(
            "no query has a nugget that a chunk supports, so there is nothing to measure "
            f"({there or 'no query has nuggets'}); add documents that answer the questions, or "
            "look at the judgments with freshstack show"
        )
    chosen = slices_of(slices)
    if chosen == ("without_nuggets",):
        raise CollectionError("queries without nuggets have nothing to be measured on")
    bare = sum(part.slice in chosen and not part.nuggets for part in contents.slices)
    reason = f" and has nuggets ({bare:,} without, so not to be measured)" if bare else ""
    raise CollectionError(
        f"no query is in the slices {', '.join(chosen)}{reason}; there are: {there}"
    )


def slice_queries(
    queries: Sequence[Query],
    nuggets: Sequence[Nugget],
    judgments: Sequence[Judgment],
    threshold: int = 1,
    pool: Sequence[Candidate] = (),
) -> list[QuerySlice]:
    """Say for each query whether the corpus supports its nuggets.

    A nugget is supported by one judgment whose label is `threshold` or more. One without any is
    unsupported only if all its judgments were made: a failed one could have been the positive, so
    it is undetermined. Doubtful nuggets do not count. A query without nuggets, for which no passage
    of the pool was graded as relevant, and each was graded, is unanswerable.
    """
    grades: dict[str, list[int]] = {}
    for query_id, relevance in rows(pool, "query_id", "relevance"):
        grades.setdefault(query_id, []).append(RELEVANT if relevance is None else relevance.grade)
    irrelevant = {query_id for query_id, found in grades.items() if max(found) < RELEVANT}
    judged = {*rows(judgments, "nugget_id", "label", "status")}
    supported = {id_ for id_, label, _ in judged if (label or 0) >= threshold}
    in_doubt = {id_ for id_, _, status in judged if status != "ok"} - supported
    nuggets_of: dict[str, set[str]] = {query.query_id: set() for query in queries}
    for nugget in nuggets:
        if not nugget.doubtful:
            nuggets_of[nugget.query_id].add(nugget.nugget_id)
    return [
        QuerySlice(
            query_id=query_id,
            slice=(
                "unanswerable"
                if not own and query_id in irrelevant
                else _slice(len(own), len(own & supported), len(own & in_doubt))
            ),
            nuggets=len(own),
            supported=len(own & supported),
            undetermined=len(own & in_doubt),
            unsupported_nuggets=tuple(sorted(own - supported - in_doubt)),
        )
        for query_id, own in nuggets_of.items()
    ]


def _slice(nuggets: int, supported: int, undetermined: int) -> SliceName:
    if not nuggets:
        return "without_nuggets"
    if supported:
        return "answerable" if supported == nuggets else "partly_supported"
    return "undetermined" if undetermined else "unanswerable"
