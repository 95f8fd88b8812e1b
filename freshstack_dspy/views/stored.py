"""What is shown of a stored collection: who found what, and what would be lost."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from freshstack_dspy.pages.page import Cell, Page, Span, Table, Text, counted, notes, part, percent
from freshstack_dspy.pages.shown import page_of
from freshstack_dspy.records import DRY_RUN
from freshstack_dspy.stored.contents import FROM_PASSAGES
from freshstack_dspy.stored.diagnose import Diagnosis

_MISSING = 0.1
"""From which share of relevant chunks that nobody found on the pool is called too small."""


@page_of.register
def diagnosis_page(diagnosis: Diagnosis) -> Page:
    """Give the page of a diagnosis."""
    about, dry = diagnosis.about, f"{DRY_RUN}. " if diagnosis.dry_run else ""
    parts: list[Text | Page] = [*map(Text, _counts(diagnosis))]
    if not diagnosis.unknown:
        parts += (_finders(diagnosis), _losses(diagnosis), _depths(diagnosis), _results(diagnosis))
    parts += notes(*_about(diagnosis))
    parts.append(_next(diagnosis))
    return Page(
        f"{dry}{about.name}: {counted(diagnosis.queries, 'query', 'queries')}",
        tuple(parts),
        data={**about.identity, "left_out": about.left_out, "diagnosis": diagnosis},
        rows=Table.of_dicts(diagnosis.to_rows()),
    )


def _counts(diagnosis: Diagnosis) -> Iterator[str]:
    yield f"{diagnosis.pooled:,} pooled chunks, {diagnosis.relevant:,} relevant ones, query by query"
    if diagnosis.outside:
        outside = ", ".join(f"{number:,} {origin}" for origin, number in diagnosis.outside.items())
        yield f"candidates that no technique pooled: {outside}"
    if diagnosis.relevant_outside:
        yield f"relevant chunks that no technique pooled: {diagnosis.relevant_outside:,}"
    if diagnosis.unknown:
        yield f"who found what is not known: {diagnosis.unknown}"


def _section(
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *lines: str,
    ids: Sequence[int] = (1, 0),
) -> Page:
    """A table and how to read it."""
    return Page(title, (Table(header, rows, digits=3, keys=len(ids), ids=ids), *notes(*lines)))


def _finders(diagnosis: Diagnosis) -> Page:
    return _section(
        f"Who found the {diagnosis.relevant:,} relevant chunks of the pool",
        ("technique", "retriever", "found", "alone"),
        [(one.technique, one.retriever, one.found, one.alone) for one in diagnosis.finders],
        f"found: among its first {diagnosis.top_k}. alone: and not among the first {diagnosis.top_k} of "
        f"any other. {diagnosis.by_fusion:,} are among the first {diagnosis.top_k} of none: only fusion "
        "raised them.",
    )


def _losses(diagnosis: Diagnosis) -> Page:
    totals = [diagnosis.pooled, diagnosis.relevant, diagnosis.nuggets]
    header = ["without", "is a", "chunks", "relevant", "nuggets"]
    note = "nuggets: they lose all their support."
    if diagnosis.answerable:
        totals.append(diagnosis.answerable)
        header.append("queries")
        note += f" queries: of the {diagnosis.answerable:,} answerable, those that lose a nugget."
    rows: list[Sequence[Cell]] = [
        (
            *(one.without, one.kind),
            *map(part, (one.chunks, one.relevant, one.nuggets, one.queries), totals),
        )
        for one in diagnosis.losses
    ]
    rows.append(("(there are)", "", *(f"{total:,}" for total in totals)))
    title = "What would be lost without one technique, or without one retriever"
    return _section(title, header, rows, note)


def _depths(diagnosis: Diagnosis) -> Page:
    depths = [(one.depth, one.chunks, one.relevant, one.nuggets) for one in diagnosis.depths]
    rows = [
        (
            str(held[0]),
            *map(part, held[1:], depths[-1][1:]),
            part(held[2] - before[2], held[1] - before[1]),
        )
        for before, held in pairwise([(0, 0, 0, 0), *depths])
    ]
    lines = [
        "at this rank: relevant chunks whose best rank is just this, of all chunks with it.",
    ]
    if (least := diagnosis.estimated_relevant) is not None and not diagnosis.dry_run:
        lines.append(
            "By the overlap of the techniques (Chao2, which estimates what none found) there are at "
            f"least {least:,.0f} relevant chunks, {least - diagnosis.relevant:,.0f} of them not pooled."
        )
    header = ("depth", "chunks", "relevant", "nuggets", "at this rank")
    return _section("What a pool of each depth would hold", header, rows, *lines, ids=(0,))


def _results(diagnosis: Diagnosis) -> Page:
    rows: list[tuple[Cell, ...]] = [
        (one.technique, one.retriever, *one.means.values()) for one in diagnosis.results
    ]
    knowing = ", ".join(
        dict.fromkeys(one.technique for one in diagnosis.results if one.knows == "answer")
    )
    page = _section(
        "Pooling results, as Table 4 of the FreshStack paper",
        ("technique", "retriever", *diagnosis.results[0].means),
        rows,
        "fusion: of all retrievers, from which the pool is taken. A query without results counts 0."
        + (f" Made of the answer: {knowing}." if knowing else ""),
    )
    if diagnosis.depth is None:
        return page
    line = "the values of runs as deep as the pool; fused scores depend on the depth: "
    folder, technique = diagnosis.about.path or "COLLECTION", diagnosis.results[-1].technique
    command = (
        f"freshstack retrieve {folder} --retriever hybrid --with {technique} --k {diagnosis.depth}"
    )
    return replace(page, parts=(*page.parts, Text((line, Span(command, "code")), "note")))


def _about(diagnosis: Diagnosis) -> Iterator[str]:
    if diagnosis.from_passages is not None:
        none = f"{FROM_PASSAGES}; labels by a word counter give no estimate of it"
        yield none if diagnosis.dry_run else str(diagnosis.from_passages)
    if votes := diagnosis.votes:
        yield (
            f"{counted(votes.pairs, 'pair')} with several votes: two votes agree on "
            f"{percent(votes.agreement.value)}, all votes on {percent(votes.unanimous.value)}; "
            f"{counted(votes.failed_votes, 'failed vote')}"
        )
    if diagnosis.about.left_out:
        yield f"diagnosed: {diagnosis.about.left_out}"
    if diagnosis.missing_evidence:
        yield diagnosis.missing_evidence
    if diagnosis.about.labels_by:
        yield diagnosis.about.labels_by


def _next(diagnosis: Diagnosis) -> Text:
    """Say what to do next."""
    least, folder = diagnosis.estimated_relevant or 0, diagnosis.about.path or "COLLECTION"
    if diagnosis.dry_run:
        return Text(
            "next: build it with a language model as [model], for labels that say something"
        )
    if least - diagnosis.relevant > _MISSING * least:
        return Text(
            (
                "next: judge deeper, with a larger top_k in [pool], or what your retriever finds: ",
                Span(f"freshstack extend {folder} RUN --config FILE", "code"),
            )
        )
    return Text(("next: ", Span(f"freshstack evaluate {folder} RUN", "code")))
