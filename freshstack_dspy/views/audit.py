"""What is shown of an audit: what is wrong with a collection's labels, and what they can tell."""

from collections.abc import Iterator

from freshstack_dspy.pages.page import Page, Span, Table, Text, counted, cut, money, notes
from freshstack_dspy.pages.shown import page_of
from freshstack_dspy.recipes.audit import MEASURE, Audit, Fault, FaultKind
from freshstack_dspy.records import MATTERS
from freshstack_dspy.stored.contents import listed

_WHAT: dict[FaultKind, tuple[str, str]] = {
    "not_in_corpus": ("expected, and not in the corpus", "correct the row, or add the document"),
    "moved": ("expected texts that are in another place than said", "correct the place"),
    "no_label": ("pairs without a label", "give a grade from 0 to 5"),
    "contradiction": ("rows of one question that contradict each other", "keep one"),
    "several_places": ("expected chunks that the corpus has several times", "label the copies too"),
    "missing_positive": ("chunks that are probably expected, too", "look at them, label them"),
    "near_duplicate": ("questions that ask nearly the same", "keep one, or make them differ"),
    "other_words": ("questions in words that the corpus lacks", "are their documents there?"),
    "nothing_expected": ("questions without anything expected", "say what, or have it judged"),
    "no_answer": ("questions without a reference answer", "write one, for nuggets"),
}
_LISTED = 5
_WIDTH = 240


@page_of.register
def audit_page(audit: Audit) -> Page:
    """Give the page of an audit: counts, the first faults of each kind, and what comes next."""
    by_kind = {kind: [f for f in audit.faults if f.kind == kind] for kind in _WHAT}
    rows = [
        (what, len(faults), len({fault.query_id for fault in faults}), then)
        for (what, then), faults in zip(_WHAT.values(), by_kind.values(), strict=True)
        if faults
    ]
    parts: list[Text | Table | Page] = []
    if rows:
        parts.append(Table(("fault", "number", "questions", "next"), rows))
    else:
        parts.append(Text("nothing was found that is wrong with the labels"))
    if audit.rejected:
        parts.append(Text(f"rows that became no question: {listed(audit.rejected)}"))
    parts += map(Text, _worth(audit))
    parts += [
        Page(what, tuple(_lines(faults)))
        for (what, _), faults in zip(_WHAT.values(), by_kind.values(), strict=True)
        if faults
    ]
    parts += notes(
        f"Chunks are from the first 20 of {' and '.join(audit.retrievers)}; no model was asked, and "
        "other chunks may be missing that share few words with the reference."
    )
    title = f"{audit.name}: {counted(audit.queries, 'question')}, {audit.measured:,} with an expected chunk"
    dumped = [fault.model_dump(exclude={"chunk_ids"}) for fault in audit.faults]
    return Page(title, tuple(parts), data=audit, rows=Table.of_dicts(dumped))


def _lines(faults: list[Fault]) -> Iterator[Text]:
    for fault in faults[:_LISTED]:
        yield Text((Span(fault.query_id, "code"), " ", cut(fault.message, _WIDTH)), "item")
        if fault.passage:
            yield Text(cut(" ".join(fault.passage.split()), _WIDTH), "excerpt", 1)
    more = len(faults) - _LISTED
    if more > 0:
        yield Text(f"… and {more:,} more; --json lists all", "item")


def _worth(audit: Audit) -> Iterator[str | tuple[str | Span, ...]]:
    """What so many questions can tell, and what judging would cost."""
    if audit.spread and audit.detectable is not None:
        line = (
            f"{counted(audit.measured, 'question')} can tell a difference of {audit.detectable:.3f} in "
            f"{MEASURE} four times in five, where differences spread as those of "
            f"{' and '.join(audit.retrievers)} do ({audit.spread:.2f})"
        )
        if audit.questions_needed:
            line += f"; for {MATTERS:g}, about {audit.questions_needed:,} are needed"
        yield line
    else:
        yield f"{counted(audit.measured, 'question')} are too few to say what they can tell"
    folder = audit.path or "COLLECTION"
    if audit.plan is not None:
        total = audit.plan.total
        yield (
            f"judging the {counted(audit.pairs, 'pair')} without a label: "
            f"{counted(total.requests, 'request')} to {audit.plan.model}, {money(total.cost)}; "
            f"then: freshstack extend {folder} RUN … --config CONFIG"
        )
    elif audit.pairs:
        yield (
            (
                f"without a label: {counted(audit.pairs, 'pair')} of a question and a chunk among the "
                "first 20; what judging them costs: "
            ),
            Span(f"freshstack audit {folder} --config CONFIG", "code"),
        )
