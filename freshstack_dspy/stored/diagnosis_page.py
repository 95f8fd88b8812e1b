"""The page of a diagnosis: who found what, what would be lost, what is missing, and what to do next."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from freshstack_dspy.pages.page import Cell, Page, Span, Table, Text, counted, part, percent
from freshstack_dspy.records import DRY_RUN
from freshstack_dspy.stored.counts import FROM_PASSAGES

if TYPE_CHECKING:
    from freshstack_dspy.stored.diagnose import Diagnosis

_MISSING = 0.1
"""From which share of relevant chunks that nobody found on the pool is called too small."""


def diagnosis_page(found: "Diagnosis") -> Page:
    """Give the page of a diagnosis."""
    about, dry = found.about, f"{DRY_RUN}. " if found.dry_run else ""
    rows = found.to_rows()
    parts: list[Text | Page] = [*map(Text, _counts(found))]
    if not found.unknown:
        parts += (_finders(found), _losses(found), _depths(found), _results(found))
    parts += (Text(line, "note") for line in _notes(found))
    parts.append(_next(found))
    return Page(
        f"{dry}{about.name}: {counted(found.queries, 'query', 'queries')}",
        tuple(parts),
        data={**about.identity, "left_out": about.left_out, "diagnosis": found},
        rows=Table(tuple(rows[0]), [tuple(row.values()) for row in rows]) if rows else None,
    )


def _counts(found: "Diagnosis") -> Iterator[str]:
    yield f"{found.pooled:,} pooled chunks, {found.relevant:,} relevant ones, query by query"
    if found.outside:
        outside = ", ".join(f"{number:,} {origin}" for origin, number in found.outside.items())
        yield f"candidates that no technique pooled: {outside}"
    if found.relevant_outside:
        yield f"relevant chunks that no technique pooled: {found.relevant_outside:,}"
    if found.unknown:
        yield f"who found what is not known: {found.unknown}"


def _section(
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *notes: str,
    ids: Sequence[int] = (1, 0),
) -> Page:
    """A table and how to read it."""
    return Page(
        title,
        (
            Table(header, rows, digits=3, keys=len(ids), ids=ids),
            *(Text(note, "note") for note in notes),
        ),
    )


def _finders(found: "Diagnosis") -> Page:
    return _section(
        f"Who found the {found.relevant:,} relevant chunks of the pool",
        ("technique", "retriever", "found", "alone"),
        [(one.technique, one.retriever, one.found, one.alone) for one in found.finders],
        f"found: among its first {found.top_k}. alone: and not among the first {found.top_k} of "
        f"any other. {found.by_fusion:,} are among the first {found.top_k} of none: only fusion "
        "raised them.",
    )


def _losses(found: "Diagnosis") -> Page:
    totals = [found.pooled, found.relevant, found.nuggets]
    header = ["without", "is a", "chunks", "relevant", "nuggets"]
    note = "nuggets: they lose all their support."
    if found.answerable:
        totals.append(found.answerable)
        header.append("queries")
        note += f" queries: of the {found.answerable:,} answerable, those that lose a nugget."
    rows: list[Sequence[Cell]] = [
        (
            *(one.without, one.kind),
            *map(part, (one.chunks, one.relevant, one.nuggets, one.queries), totals),
        )
        for one in found.losses
    ]
    rows.append(("(there are)", "", *(f"{total:,}" for total in totals)))
    title = "What would be lost without one technique, or without one retriever"
    return _section(title, header, rows, note)


def _depths(found: "Diagnosis") -> Page:
    depths = [(one.depth, one.chunks, one.relevant, one.nuggets) for one in found.depths]
    rows = [
        (
            str(held[0]),
            *map(part, held[1:], depths[-1][1:]),
            part(held[2] - before[2], held[1] - before[1]),
        )
        for before, held in pairwise([(0, 0, 0, 0), *depths])
    ]
    notes = [
        "at this rank: relevant chunks whose best rank is just this, of all chunks with it.",
    ]
    if (least := found.estimated_relevant) is not None and not found.dry_run:
        notes.append(
            "By the overlap of the techniques (Chao2, which estimates what none found) there are at "
            f"least {least:,.0f} relevant chunks, {least - found.relevant:,.0f} of them not pooled."
        )
    header = ("depth", "chunks", "relevant", "nuggets", "at this rank")
    return _section("What a pool of each depth would hold", header, rows, *notes, ids=(0,))


def _results(found: "Diagnosis") -> Page:
    rows: list[tuple[Cell, ...]] = [
        (one.technique, one.retriever, *one.means.values()) for one in found.results
    ]
    knowing = ", ".join(
        dict.fromkeys(one.technique for one in found.results if one.knows == "answer")
    )
    return _section(
        "Pooling results, as Table 4 of the FreshStack paper",
        ("technique", "retriever", *found.results[0].means),
        rows,
        "fusion: of all retrievers, from which the pool is taken. A query without results counts 0."
        + (f" Made of the answer: {knowing}." if knowing else ""),
    )


def _notes(found: "Diagnosis") -> Iterator[str]:
    if found.from_passages is not None:
        none = f"{FROM_PASSAGES}; labels by a word counter give no estimate of it"
        yield none if found.dry_run else str(found.from_passages)
    if votes := found.votes:
        yield (
            f"{counted(votes.pairs, 'pair')} with several votes: two votes agree on "
            f"{percent(votes.agreement.value)}, all votes on {percent(votes.unanimous.value)}; "
            f"{counted(votes.failed_votes, 'failed vote')}"
        )
    if found.about.left_out:
        yield f"diagnosed: {found.about.left_out}"
    if found.missing_evidence:
        yield found.missing_evidence
    if found.about.labels_by:
        yield found.about.labels_by


def _next(found: "Diagnosis") -> Text:
    """Say what to do next."""
    least, folder = found.estimated_relevant or 0, found.about.path or "COLLECTION"
    if found.dry_run:
        return Text(
            "next: build it with a language model as [model], for labels that say something"
        )
    if least - found.relevant > _MISSING * least:
        return Text(
            (
                "next: judge deeper, with a larger top_k in [pool], or what your retriever finds: ",
                Span(f"freshstack extend {folder} RUN --config FILE", "code"),
            )
        )
    return Text(("next: ", Span(f"freshstack evaluate {folder} RUN", "code")))
