"""`freshstack agree`: a collection's judge compared with people, and people with each other."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from freshstack_dspy.cli.options import CollectionArgument, JsonOption
from freshstack_dspy.cli.people import cells
from freshstack_dspy.cli.printing import (
    Cell,
    Table,
    counted,
    cut,
    say,
    say_wrapped,
    show,
    show_json,
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


def agree(
    collection: CollectionArgument,
    labels: Annotated[
        list[Path], typer.Argument(help="JSON Lines of labels, of one or several people.")
    ],
    by: Annotated[
        str | None,
        typer.Option(
            help="Also on parts of the pairs: kind (code or prose), length, position in the "
            "judge's call, duplicate, or tag, slice, date and the like, as evaluate --by."
        ),
    ] = None,
    disagreements: Annotated[
        int, typer.Option(min=0, help="Show so many of the worst disagreements, with both reasons.")
    ] = 0,
    answers: Annotated[
        Path | None,
        typer.Option(help="Folder of `freshstack answer`, for labels of its answers."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare a collection's judge with people, and people with each other."""
    from freshstack_dspy.calibration.agreement import agree as compare
    from freshstack_dspy.calibration.agreement import agree_on_answers, nugget_ratings
    from freshstack_dspy.calibration.labels import all_labels
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.errors import CollectionError

    loaded = Collection.load(collection)
    given: dict[str, Any] = {}
    for _, label in all_labels(labels):
        given.setdefault(label.kind, []).append(label)
    reports: dict[str, Any] = {
        kind: compare(loaded, given[kind], by=by)
        for kind in ("support", "answerability")
        if kind in given
    }
    if answers and "answer" in given:
        reports["answer"] = agree_on_answers(answers, given["answer"])
    if "nugget" in given:
        lists = given.get("nugget_list", ())
        reports["nugget"] = nugget_ratings(loaded, given["nugget"], lists)
    if not reports:
        found = ", ".join(f"{len(of)} of kind {kind}" for kind, of in sorted(given.items()))
        what = f"the labels are {found}" if found else f"no label in {', '.join(map(str, labels))}"
        hint = "; name the folder of the answers with --answers" if "answer" in given else ""
        raise CollectionError(f"nothing to compare: {what}{hint}")
    if as_json:
        for kind in reports.keys() - {"nugget"}:
            worst = reports[kind].disagreements[:disagreements]
            reports[kind] = reports[kind].model_copy(update={"disagreements": worst})
        show_json(reports)
        return
    for kind, report in reports.items():
        if kind == "nugget":
            _show_nuggets(report)
        else:
            _show_agreement(report, disagreements)
    say_wrapped(loaded.labels_by)


def _show_agreement(report: "AgreementReport", disagreements: int) -> None:
    people = counted(len(report.annotators), "annotator")
    title = (
        f"{_WHAT[report.kind].format(people=people)}: {counted(report.pairs, 'pair')}, "
        f"{counted(report.labels, 'label')}"
    )
    if report.kind == "support":
        title += f", support from {report.threshold} on"
    show_metrics(report, title)
    if any(name.startswith("kappa from") for name in report.metrics):
        say("kappa from N on: only labels from N on count as support")
    if report.weighted:
        say("each pair counts for the judged pairs that it was sampled from")
    else:
        say("each pair counts the same: no label says what it was sampled from")
    if report.shared:
        say(
            f"people: the mean of each two, on {counted(report.shared, 'pair')} that several labelled"
        )
    else:
        say("people with each other: no pair was labelled by two")
    for annotator, reason in report.random.items():
        say(f"{annotator!r} seems to label at random: {reason}")
    show_confusion(report, "judge", "people")
    _show_slices(report)
    for one in report.disagreements[:disagreements]:
        _show_disagreement(one)


def show_metrics(report: "AgreementReport", title: str) -> None:
    """Print the metrics of a judge, and of people with each other if some labelled the same."""
    columns = ["judge", "people"] if report.shared else ["judge"]
    header = ["metric", *(name for column in columns for name in (column, "95 %"))]
    metrics = report.metrics.items()
    _show(title, header, [(name, [getattr(one, of) for of in columns]) for name, one in metrics])


def show_confusion(report: "AgreementReport", judge: str, person: str) -> None:
    """Print how often each two labels were given."""
    names = report.confusion.labels
    rows: list[Sequence[Cell]] = [
        (f"{judge} {name}", *of) for name, of in zip(names, report.confusion.counts, strict=True)
    ]
    show(Table(("labels", *(f"{person} {name}" for name in names)), rows))


def _show_slices(report: "AgreementReport") -> None:
    if report.slices:
        metrics = ("kappa", "precision of support", "recall of support")
        slices: list[Sequence[Cell]] = [
            (part.name, part.pairs, *(_stacked(part.metrics[name]) for name in metrics))
            for part in report.slices
        ]
        show(Table(("part", "pairs", "kappa", "precision", "recall"), slices))
        say("below each value: its 95 % interval")
    left_out = {"that were not judged": report.unjudged, "whose judgment failed": report.failed}
    for what, items in left_out.items():
        if items:
            label = counted(len(items), "label")
            say(f"{label} left out, of pairs {what}: the first is of {_named(items[0])}")


def _show(
    title: str, header: Iterable[str], found: Iterable[tuple[str, list["Interval | None"]]]
) -> None:
    found = list(found)
    rows: list[Sequence[Cell]] = [(name, *_cells(of)) for name, of in found]
    show(Table(tuple(header), rows, title, digits=3))
    reasons: dict[str, list[str]] = {}
    for name, of in found:
        for reason in dict.fromkeys(one.reason for one in of if one and one.reason):
            reasons.setdefault(reason, []).append(name)
    for reason, names in sorted(reasons.items()):
        say_wrapped(f"no interval for {', '.join(names)}: {reason}")


def _stacked(found: "Interval | None") -> str:
    """A value above its interval."""
    value, interval = cells(found)
    return f"–\n{interval}" if value is None else f"{value:.3f}\n{interval}"


def _cells(found: Iterable["Interval | None"]) -> list[Cell]:
    return [cell for one in found for cell in cells(one)]


def _show_nuggets(found: "NuggetRatings") -> None:
    people = counted(len(found.annotators), "annotator")
    title = f"{counted(found.nuggets, 'nugget')} by {people}, {counted(found.labels, 'label')}"
    header = ["share of nuggets", "people", "95 %"]
    of: list[tuple[str, list[Interval | None]]] = [
        (name, [one]) for name, one in found.shares.items()
    ]
    _show(title, header, of)
    paper = ", ".join(f"{name} {share:.3f}" for name, share in _PAPER.items())
    say(f"FreshStack, Table 5, of GPT-4o's nuggets: {paper}")
    if found.left_out:
        say(
            f"{counted(found.left_out, 'label')} left out, of nuggets that are not in the collection"
        )


def _show_disagreement(one: "Disagreement") -> None:
    say("")
    say_wrapped(f"{_named(one.item)}: judge {one.judge}, {one.annotator} {one.person}")
    for name, text in (("question", one.question), ("nugget", one.nugget)):
        if text:
            say_wrapped(f"{name}: {cut(text, 300)}", 2)
    sides = (
        ("judge", one.judge, one.reason, one.evidence),
        (
            one.annotator,
            one.person,
            one.note,
            one.marked,
        ),
    )
    for who, label, why, words in sides:
        say_wrapped(f"{who} {label}: {cut(why, 600) or 'no reason'}", 2)
        for each in words:
            say_wrapped(f"“{cut(each, 400)}”", 4)
    if one.passage and not (one.evidence or one.marked):
        say_wrapped(f"the passage begins: {cut(one.passage, 400)}", 2)


def _named(item: tuple[str, ...]) -> str:
    kinds = ("query", "nugget", "chunk") if len(item) == 3 else ("query", "run")
    return ", ".join(f"{kind} {id_!r}" for kind, id_ in zip(kinds, item, strict=True))
