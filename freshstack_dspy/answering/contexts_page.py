"""The page of contexts and the reports written from them, next to CRUX's bounds."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from freshstack_dspy.lm.usage import grading_own_words
from freshstack_dspy.pages.page import Cell, Page, Table, Text, Value, counted, percent

if TYPE_CHECKING:
    from freshstack_dspy.answering.contexts import ContextTable


COLUMNS = ("Cov(Z)", "alpha_nDCG", "Cov(y)", "Den(Z)", "Den(y)")


def contexts_page(found: "ContextTable") -> Page:
    """Give the page of contexts and reports: Table 1 of CRUX."""
    means = {row: found.means(row) for row in found.values}
    columns = [name for name in COLUMNS if any(name in of for of in means.values())]
    unjudged = found.unjudged
    rows: list[tuple[Cell, ...]] = [
        (row, *map(of.get, columns), percent(unjudged.get(row))) for row, of in means.items()
    ]
    exact = [(row, *map(of.get, columns), unjudged.get(row)) for row, of in means.items()]
    header = ("context", *columns, "unjudged")
    return Page(
        f"contexts Z of {found.size}{', reports y' if found.reports else ''}",
        (Table(header, rows, ids=(0,)), *(Text(line, "note") for line in _notes(found))),
        data={"size": found.size, "means": means, "unjudged": unjudged, "reports": found.reports},
        rows=Table(header, exact),
    )


def _notes(found: "ContextTable") -> Iterator[str]:
    for one in found.agreements:
        tau = one.kendall.reason if one.kendall.value is None else Value(one.kendall.value)
        yield f"Kendall's τ of {one.first} and {one.second} over the runs: {tau}"
    if omitted := sum(len(one.omitted) for one in found.reports):
        chunks = counted(omitted, "chunk")
        yield f"{chunks} not shown to the writer, for there was no room or no text"
    if failed := sum(one.coverage is None for one in found.reports):
        yield f"{counted(failed, 'report')} without a rating, left out of Cov(y) and Den(y)"
    yield "unjudged: the share of a context's chunks that has no label, and answers nothing"
    for step, what in (("answer", "written"), ("assignment", "rated")):
        if step in found.models:
            yield f"reports {what} by {' and '.join(found.models[step])}"
    if warning := grading_own_words(found.models):
        yield warning
    yield found.labels_by
