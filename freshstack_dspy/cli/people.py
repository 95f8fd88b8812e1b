"""`freshstack agree` and `optimize`: a collection's judge compared with people, and tuned on them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from freshstack_dspy.cli.options import (
    CollectionArgument,
    JsonOption,
    ReplaceOption,
    check_out,
    judging,
)
from freshstack_dspy.cli.printing import Table, counted, labels_by, say, show, show_json

if TYPE_CHECKING:
    from freshstack_dspy.calibration.agreement import AgreementReport, GradedMetrics, JudgeMetrics
    from freshstack_dspy.calibration.optimization import OptimizationReport
    from freshstack_dspy.measures.statistics import Estimate, Interval

    Rows = list[tuple[str, Interval]]

LABELS_HELP = "JSON Lines of labels: query_id, nugget_id, chunk_id, label, annotator, time."


def agree(
    collection: CollectionArgument,
    labels: Annotated[Path, typer.Argument(help=LABELS_HELP)],
    as_json: JsonOption = False,
) -> None:
    """Compare a collection's judge with people."""
    from freshstack_dspy.calibration.agreement import agree as compare
    from freshstack_dspy.collection.collection import Collection

    loaded = Collection.load(collection)
    report = compare(loaded, labels)
    if as_json:
        show_json(report)
        return
    _show_agreement(report, loaded.threshold)
    say(labels_by(loaded))


def optimize(
    config: Annotated[
        Path, typer.Argument(help="TOML file; its [model], [judge] scale, [budget] and [cache].")
    ],
    labels: Annotated[Path, typer.Argument(help=LABELS_HELP)],
    out: Annotated[Path, typer.Option(help="Program file to write.")],
    optimizer: Annotated[
        Literal["labeled", "bootstrap", "mipro"],
        typer.Option(help="DSPy's LabeledFewShot, BootstrapFewShot or MIPROv2."),
    ] = "bootstrap",
    collection: Annotated[
        Path | None, typer.Option(help="Where the labels' texts are, if not in the labels.")
    ] = None,
    replace: ReplaceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Tune the support judge against people's labels, tested on queries it never saw."""
    from freshstack_dspy.calibration.labels import read_labels
    from freshstack_dspy.calibration.optimization import optimize as compile_program
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.programs.saved import save_program

    check_out(out, replace=replace)
    given = read_labels(labels)
    texts = Collection.load(collection) if collection else None
    with judging(config) as session:
        optimized = compile_program(
            given,
            session.lm,
            optimizer=optimizer,
            collection=texts,
            scale=session.config.judge.graded,
        )
    save_program(optimized.program, out)
    if as_json:
        show_json(optimized.report)
    else:
        _show_optimization(optimized.report, out)


def _show_agreement(report: "AgreementReport", support_from: int) -> None:
    """Print how a judge agrees with people; `support_from` is the lowest label that is support."""
    people = counted(len(report.annotators), "annotator")
    title = f"judge compared with {people}, {counted(report.metrics.pairs, 'pair')}"
    if report.graded is not None:
        title += f", read as support from {support_from} on"
    tables = {title: _rows(report.metrics)}
    if report.graded is not None:
        tables["the labels as they were given"] = _graded_rows(report.graded, support_from)
    for title, found in tables.items():
        cells = [(name, *_cells(interval)) for name, interval in found]
        show(Table(("metric", "value", "95 % interval"), cells, title, digits=3))
    rows = [row for found in tables.values() for row in found]
    for reason in sorted({one.reason for _, one in rows if one.reason is not None}):
        names = ", ".join(name for name, one in rows if one.reason == reason)
        say(f"no interval for {names}: {reason}")
    among = report.among
    if among.pairs:
        pairs = counted(among.pairs, "pair")
        say(f"annotators among themselves, on {pairs} that several labelled:")
        say(f"  kappa, the mean of each two: {metric(report.ceiling)}")
        say(f"  Fleiss' kappa: {metric(among.fleiss_kappa)}")
        say(f"  Krippendorff's alpha: {metric(among.alpha)}")
        for level, alpha in among.graded_alpha.items():
            say(f"  Krippendorff's alpha of the grades, {level}: {metric(alpha)}")
    else:
        say(f"annotators among themselves: {report.ceiling.reason}")
    for number, what, first in (
        (report.unjudged, "not in judgments.jsonl", report.first_unjudged),
        (report.failed, "whose judgment failed", report.first_failed),
    ):
        if first is not None:
            query, nugget, chunk = first
            say(
                f"{counted(number, 'label')} left out, of pairs {what}: the first is of "
                f"query {query!r}, nugget {nugget!r}, chunk {chunk!r}"
            )


def metric(found: "Estimate") -> str:
    """Write a value, or why there is none."""
    return str(found.reason) if found.value is None else f"{found.value:.3f}"


def _show_optimization(report: "OptimizationReport", path: Path) -> None:
    title = (
        f"{report.optimizer} for {report.model}: {report.train_queries} queries to train, "
        f"{report.test_queries} to test ({report.before.metrics.pairs} pairs)"
    )
    pairs = zip(_rows(report.before.metrics), _rows(report.after.metrics), strict=True)
    rows = [(name, *_cells(one), *_cells(other)) for (name, one), (_, other) in pairs]
    header = ("on the test split", "before", "95 % interval", "after", "95 % interval")
    show(Table(header, rows, title, digits=3))
    if report.before.failed or report.after.failed:
        say(f"failed examples: {report.before.failed} before, {report.after.failed} after")
    say(
        f"{path} written, with {report.demonstrations} demonstrations; "
        f'name it in a build as [programs] support_judge = "{path}"'
    )


def _cells(interval: "Interval") -> tuple[float | None, str]:
    ends = "–" if interval.low is None else f"{interval.low:.3f}–{interval.high:.3f}"
    return interval.value, ends


def _rows(metrics: "JudgeMetrics") -> "Rows":
    return [
        ("Cohen's kappa", metrics.kappa),
        ("exact match", metrics.exact_match),
        *((f"precision, {name}", interval) for name, interval in metrics.precision.items()),
        *((f"recall, {name}", interval) for name, interval in metrics.recall.items()),
    ]


def _graded_rows(graded: "GradedMetrics", support_from: int) -> "Rows":
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
