"""The pages of a judge compared with people, and of what people say of nuggets."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from freshstack_dspy.pages.page import (
    Cell,
    Page,
    Span,
    Table,
    Text,
    counted,
    cut,
    interval,
    located,
    marked,
)

if TYPE_CHECKING:
    from freshstack_dspy.calibration.agreement import AgreementReport, Disagreement, NuggetRatings
    from freshstack_dspy.measures.statistics import Interval

_WHAT = {
    "support": "judge compared with {people}",
    "answerability": "judge compared with {people}, on whether a chunk answers a sub-question",
    "answer": "comparer compared with {people}, on whether answers agree, here called support",
}
_PAPER = {"precise": 0.901, "grounded": 0.964, "recall": 0.966}
"""Table 5 of FreshStack: GPT-4o's nuggets of 60 questions about LangChain."""
_OF_SLICES = {
    "kappa": "kappa",
    "precision of support": "precision",
    "recall of support": "recall",
}
_COLUMNS = ("metric", "rater", "value", "low", "high")
_AROUND = 200
"""How many characters of a passage are shown around its evidence."""


def agreement_page(report: "AgreementReport", disagreements: int) -> Page:
    """Give the page of a judge compared with people, with so many of the worst disagreements."""
    people = counted(len(report.annotators), "annotator")
    title = (
        f"{_WHAT[report.kind].format(people=people)}: {counted(report.pairs, 'pair')}, "
        f"{counted(report.labels, 'label')}"
    )
    if report.kind == "support":
        title += f", support from {report.threshold} on"
    worst = report.disagreements[:disagreements]
    return Page(
        title,
        (
            *_left_out(report),
            *metrics_parts(report),
            *(Text(line, "note") for line in _notes(report)),
            confusion_table(report, "judge", "people"),
            *_slices(report),
            *map(_disagreement, worst),
            *([Text(report.labels_by, "note")] if report.labels_by else []),
            *_next(report),
        ),
        data=report.model_copy(update={"disagreements": worst}),
        rows=_rows(
            (metric, rater, getattr(one, rater))
            for metric, one in report.metrics.items()
            for rater in ("judge", "people")
        ),
    )


def _next(report: "AgreementReport") -> Iterator[Text]:
    if report.kind == "support" and "calibrated: " not in report.labels_by:
        yield Text(
            (
                "to have every result say so, name the labels in the configuration, and build again: ",
                Span('[trust] labels = "FILE"', "code"),
            )
        )


def metrics_parts(report: "AgreementReport") -> Iterator[Table | Text]:
    """Give the metrics of a judge, and of people with each other if some labelled the same."""
    raters = ["judge", "people"] if report.shared else ["judge"]
    metrics = {
        name: [getattr(one, rater) for rater in raters] for name, one in report.metrics.items()
    }
    yield from _table(("metric", *raters), metrics)


def confusion_table(report: "AgreementReport", judge: str, person: str) -> Table:
    """Give how often each two labels were given."""
    names = report.confusion.labels
    rows: list[tuple[Cell, ...]] = [
        (f"{judge} {name}", *of) for name, of in zip(names, report.confusion.counts, strict=True)
    ]
    return Table(("labels", *(f"{person} {name}" for name in names)), rows)


def _table(
    header: tuple[str, ...], found: Mapping[str, list["Interval | None"]]
) -> Iterator[Table | Text]:
    """A row for each name, with values and their intervals, and why some have none."""
    rows: list[tuple[Cell, ...]] = []
    reasons: dict[str, list[str]] = {}
    for name, of in found.items():
        cells = [interval(one, ".3f") for one in of]
        rows.append((name, *(each for cell in cells for each in (cell.number, cell.interval))))
        for reason in dict.fromkeys(one.reason for one in of if one and one.reason):
            reasons.setdefault(reason, []).append(name)
    key, *columns = header
    yield Table((key, *(name for column in columns for name in (column, "95 %"))), rows)
    for reason, names in sorted(reasons.items()):
        yield Text(f"no interval for {', '.join(names)}: {reason}", "note")


def _notes(report: "AgreementReport") -> Iterator[str]:
    if any(name.startswith("kappa from") for name in report.metrics):
        yield "kappa from N on: only labels from N on count as support"
    if report.weighted:
        yield "each pair counts for the judged pairs that it was sampled from"
    else:
        yield "each pair counts the same: no label says what it was sampled from"
    if report.shared:
        pairs = counted(report.shared, "pair")
        yield f"people: the mean of each two, on {pairs} that several labelled"
    else:
        yield "people with each other: no pair was labelled by two"
    for annotator, reason in report.random.items():
        yield f"{annotator!r} seems to label at random: {reason}"


def _slices(report: "AgreementReport") -> Iterator[Table | Text]:
    if report.slices:
        rows: list[tuple[Cell, ...]] = [
            (one.name, one.pairs, *(interval(one.metrics.get(name), ".3f") for name in _OF_SLICES))
            for one in report.slices
        ]
        yield Table(("part", "pairs", *_OF_SLICES.values()), rows)
        yield Text("in brackets: the 95 % interval", "note")


def _left_out(report: "AgreementReport") -> Iterator[Text]:
    """Say first how many labels are not in the tables, and why."""
    left_out = {
        "of pairs that were not judged": report.unjudged,
        "of pairs whose judgment failed": report.failed,
        **report.lost,
    }
    number = sum(map(len, left_out.values()))
    if number:
        labels = counted(report.labels + number, "label")
        yield Text(f"{number:,} of {labels} left out, so that the tables say less:", "warning")
    for what, items in left_out.items():
        if items:
            yield Text(f"{len(items):,} {what}: the first is of {_named(items[0])}", "item")


def _disagreement(one: "Disagreement") -> Page:
    parts = [
        Text(f"{name}: {cut(text, 300)}", "item")
        for name, text in (("question", one.question), ("nugget", one.nugget))
        if text
    ]
    sides = (
        ("judge", one.judge, one.reason, one.evidence),
        (one.annotator, one.person, one.note, one.marked),
    )
    for who, label, why, words in sides:
        parts.append(Text(f"{who} {label}: {cut(why, 600) or 'no reason'}", "item"))
        if words:
            places = located(one.passage, words)
            parts.append(Text(tuple(marked(one.passage, places, _AROUND)), "excerpt", 1))
    if one.passage and not (one.evidence or one.marked):
        parts.append(Text("the passage begins:", "item"))
        parts.append(Text(tuple(marked(one.passage, (), _AROUND)), "excerpt", 1))
    return Page(f"{_named(one.item)}: judge {one.judge}, {one.annotator} {one.person}", (*parts,))


def _named(item: tuple[str, ...]) -> str:
    kinds = ("query", "nugget", "chunk") if len(item) == 3 else ("query", "run")
    return ", ".join(f"{kind} {id_!r}" for kind, id_ in zip(kinds, item, strict=True))


def ratings_page(found: "NuggetRatings") -> Page:
    """Give the page of what people say of nuggets."""
    people = counted(len(found.annotators), "annotator")
    shares: dict[str, list[Interval | None]] = {name: [one] for name, one in found.shares.items()}
    paper = ", ".join(f"{name} {share:.3f}" for name, share in _PAPER.items())
    notes = [f"FreshStack, Table 5, of GPT-4o's nuggets: {paper}"]
    if found.left_out:
        labels = counted(found.left_out, "label")
        notes.append(f"{labels} left out, of nuggets that are not in the collection")
    return Page(
        f"{counted(found.nuggets, 'nugget')} by {people}, {counted(found.labels, 'label')}",
        (
            *_table(("share of nuggets", "people"), shares),
            *(Text(note, "note") for note in notes),
        ),
        data=found,
        rows=_rows((name, "people", one) for name, one in found.shares.items()),
    )


def _rows(found: Iterable[tuple[str, str, "Interval | None"]]) -> Table:
    rows = [
        (metric, rater, one.value, one.low, one.high)
        for metric, rater, one in found
        if one is not None
    ]
    return Table(_COLUMNS, rows)


def pages_together(title: str, pages: Mapping[str, Page]) -> Page:
    """Give the pages of labels of several kinds as one."""
    rows = [(kind, *row) for kind, page in pages.items() for row in (page.rows or _rows([])).rows]
    return Page(
        title,
        tuple(pages.values()),
        data={kind: page.data for kind, page in pages.items()},
        rows=Table(("labels", *_COLUMNS), rows),
    )
