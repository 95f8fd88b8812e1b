"""What `agree`, `optimize` and `rejudge` print of how far labels agree."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from freshstack_dspy.cli.lines import counted, say
from freshstack_dspy.cli.tables import show

if TYPE_CHECKING:
    from freshstack_dspy.calibration.agreement import (
        AgreementReport,
        Annotators,
        GradedFigures,
        JudgeFigures,
    )
    from freshstack_dspy.calibration.optimization import OptimizationReport
    from freshstack_dspy.measures.statistics import Estimate, Interval

Rows = list[tuple[str, "Interval"]]


def agreement_table(report: "AgreementReport", support_from: int = 1) -> None:
    """Print how the judge agrees with people.

    Args:
        report: What `agree` found.
        support_from: The lowest label that is support.
    """
    people = counted(len(report.annotators), "annotator")
    pairs = counted(report.figures.pairs, "pair")
    rows = _rows(report.figures)
    if report.graded is None:
        _interval_table(f"judge against {people}, {pairs}", rows)
    else:
        read = f"read as support from {support_from} on"
        _interval_table(f"judge against {people}, {pairs}, {read}", rows)
        of_grades = _graded_rows(report.graded, support_from)
        _interval_table("the labels as they were given", of_grades)
        rows = rows + of_grades
    for reason, figures in _without_interval(rows).items():
        say(f"no interval for {', '.join(figures)}: {reason}")
    _say_ceiling(report)
    for number, what, first in (
        (report.unjudged, "not in judgments.jsonl", report.first_unjudged),
        (report.failed, "whose judgment failed", report.first_failed),
    ):
        if first is not None:
            query, nugget, chunk = first
            say(
                f"{counted(number, 'label')} in no figure, of pairs {what}: the first is of "
                f"query {query!r}, nugget {nugget!r}, chunk {chunk!r}"
            )


def _say_ceiling(report: "AgreementReport") -> None:
    among = report.among
    if not among.pairs:
        say(f"annotators among themselves: {report.ceiling.reason}")
        return
    say(f"annotators among themselves, on {counted(among.pairs, 'pair')} that several labelled:")
    for name, found in _among_rows(report.ceiling, among):
        say(f"  {name}: {figure(found)}")


def _among_rows(ceiling: "Estimate", among: "Annotators") -> "Iterable[tuple[str, Estimate]]":
    yield "kappa, the mean of each two", ceiling
    yield "Fleiss' kappa", among.fleiss_kappa
    yield "Krippendorff's alpha", among.alpha
    for level, found in among.graded_alpha.items():
        yield f"Krippendorff's alpha of the grades, {level}", found


def optimization_table(report: "OptimizationReport", path: Path) -> None:
    """Print the test split before and after."""
    table = Table()
    table.add_column("on the test split")
    for moment in ("before", "after"):
        table.add_column(moment, justify="right")
        table.add_column("95 % interval", justify="right")
    before, after = _rows(report.before.figures), _rows(report.after.figures)
    for (name, one), (_, other) in zip(before, after, strict=True):
        table.add_row(name, *_cells(one), *_cells(other))
    show(
        f"{report.optimizer} for {report.model}: {report.train_queries} queries to train, "
        f"{report.test_queries} to test ({report.before.figures.pairs} pairs)",
        table,
    )
    if report.before.failed or report.after.failed:
        say(f"failed examples: {report.before.failed} before, {report.after.failed} after")
    say(
        f"{path} written, with {report.demonstrations} demonstrations; "
        f'name it in a build as [programs] support_judge = "{path}"'
    )


def figure(found: "Estimate") -> str:
    """Write a figure, or why there is none."""
    return str(found.reason) if found.value is None else f"{found.value:.3f}"


def _interval_table(title: str, rows: Rows) -> None:
    table = Table()
    table.add_column("figure")
    table.add_column("value", justify="right")
    table.add_column("95 % interval", justify="right")
    for name, interval in rows:
        table.add_row(name, *_cells(interval))
    show(title, table)


def _rows(figures: "JudgeFigures") -> Rows:
    return [
        ("Cohen's kappa", figures.kappa),
        ("exact match", figures.exact_match),
        *((f"precision, {name}", interval) for name, interval in figures.precision.items()),
        *((f"recall, {name}", interval) for name, interval in figures.recall.items()),
    ]


def _graded_rows(graded: "GradedFigures", support_from: int) -> Rows:
    return [
        ("kappa, plain", graded.kappa),
        ("kappa, linear weights", graded.linear_kappa),
        ("kappa, quadratic weights", graded.quadratic_kappa),
        ("same grade", graded.exact_match),
        *(
            (f"kappa, were support from {label} on", interval)
            for label, interval in graded.support_from.items()
            if label != support_from
        ),
    ]


def _without_interval(rows: Sequence[tuple[str, "Interval"]]) -> dict[str, list[str]]:
    """The figures that have a value and no interval, by the reason."""
    reasons: dict[str, list[str]] = {}
    for name, interval in rows:
        if interval.reason is not None:
            reasons.setdefault(interval.reason, []).append(name)
    return reasons


def _cells(interval: "Interval") -> tuple[str, str]:
    value = "–" if interval.value is None else f"{interval.value:.3f}"
    if interval.low is None or interval.high is None:
        return value, "–"
    return value, f"{interval.low:.3f} – {interval.high:.3f}"
