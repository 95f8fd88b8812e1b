"""`freshstack optimize`: a collection's judge tuned on people's labels."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from freshstack_dspy.cli.options import JsonOption, ReplaceOption, check_out, judging
from freshstack_dspy.cli.printing import Table, say, show, show_json

if TYPE_CHECKING:
    from freshstack_dspy.calibration.agreement import JudgeMetrics
    from freshstack_dspy.calibration.optimization import OptimizationReport
    from freshstack_dspy.measures.statistics import Estimate, Interval

    Rows = list[tuple[str, Interval]]

LABELS_HELP = "JSON Lines of labels: query_id, nugget_id, chunk_id, label, annotator, time."


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


def metric(found: "Estimate") -> str:
    """Write a value, or why there is none."""
    return str(found.reason) if found.value is None else f"{found.value:.3f}"


def _show_optimization(report: "OptimizationReport", path: Path) -> None:
    title = (
        f"{report.optimizer} for {report.model}: {report.train_queries} queries to train, "
        f"{report.test_queries} to test ({report.before.metrics.pairs} pairs)"
    )
    pairs = zip(_rows(report.before.metrics), _rows(report.after.metrics), strict=True)
    rows = [(name, *cells(one), *cells(other)) for (name, one), (_, other) in pairs]
    header = ("on the test split", "before", "95 % interval", "after", "95 % interval")
    show(Table(header, rows, title, digits=3))
    if report.before.failed or report.after.failed:
        say(f"failed examples: {report.before.failed} before, {report.after.failed} after")
    say(
        f"{path} written, with {report.demonstrations} demonstrations; "
        f'name it in a build as [programs] support_judge = "{path}"'
    )


def cells(interval: "Interval | None") -> tuple[float | None, str]:
    """Write a value and the ends of its interval."""
    if interval is None:
        return None, ""
    ends = "–" if interval.low is None else f"{interval.low:.3f}–{interval.high:.3f}"
    return interval.value, ends


def _rows(metrics: "JudgeMetrics") -> "Rows":
    return [
        ("Cohen's kappa", metrics.kappa),
        ("exact match", metrics.exact_match),
        *((f"precision, {name}", interval) for name, interval in metrics.precision.items()),
        *((f"recall, {name}", interval) for name, interval in metrics.recall.items()),
    ]
