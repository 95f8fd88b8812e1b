"""What the commands print: tables for people, JSON for machines."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from freshstack_dspy.cli.lines import counted, one_line, say
from freshstack_dspy.cli.query_lines import query_lines
from freshstack_dspy.records import Step

if TYPE_CHECKING:
    from freshstack_dspy.calibration import AgreementReport, OptimizationReport
    from freshstack_dspy.calibration.agreement import JudgeFigures
    from freshstack_dspy.cli.contaminated import Excluding
    from freshstack_dspy.collection import Collection, Manifest
    from freshstack_dspy.measures import Evaluation, Interval

Evaluations = Sequence[tuple[str, "Evaluation"]]
_QUERIES = {
    "absent": "absent (counts as 0)",
    "empty": "empty (counts as 0)",
    "without_relevant": "without relevant",
    "unknown": "unknown",
}
"""What is said of the queries that an evaluation has a field of."""


def build_summary(collection: "Collection", path: Path, *, unchanged: bool) -> None:
    """Say what a build made, or that it found it made already."""
    manifest = collection.manifest
    if unchanged:
        say(f"{manifest.name}: {path}")
    else:
        _account_table(manifest, path)
    counts_ = manifest.counts
    say(
        f"{counts_.queries:,} queries, {counts_.nuggets:,} nuggets, {counts_.chunks:,} chunks, "
        f"{counts_.judgments - counts_.unlabelled:,} judged pairs ({counts_.supported:,} supported)"
        + (f", {counts_.unlabelled:,} without a label" if counts_.unlabelled else "")
    )
    say("slices: " + ", ".join(f"{n:,} {name}" for name, n in counts_.slices.items()))
    for line in query_lines(counts_):
        say(line)
    if not any(counts_.slices[name] for name in manifest.evaluated_slices):
        say(
            'no query is to be evaluated on: with [filters] unsupported_nuggets = "keep" the '
            "partly supported ones are too"
        )
    if counts_.rejected:
        left = ", ".join(f"{n:,} {reason}" for reason, n in counts_.rejected.items())
        say(f"questions left out: {left}")
    if counts_.skipped:
        from freshstack_dspy.collection.skipped import listed

        number = sum(counts_.skipped.values())
        say(f"{number:,} files skipped ({listed(counts_.skipped)}); see {path / 'skipped.jsonl'}")
    failed = sum(n for statuses in counts_.failures.values() for n in statuses.values())
    if failed:
        say(f"{failed:,} failures; see {path / 'failures.jsonl'}, and build again to retry")
    say(f"content {manifest.content_hash}")


def _account_table(manifest: "Manifest", path: Path) -> None:
    """What each step asked and cost, and how the estimate turned out."""
    from freshstack_dspy.cli.plan_tables import error_table
    from freshstack_dspy.collection.estimates import estimate_errors

    columns = ["step", "calls", "recorded", "re-asked", "failed", "tokens", "cost"]
    replayed = any(account.cached_cost for account in manifest.ledger.values())
    if replayed:
        columns.append("recorded ones cost")
    table = Table()
    for column in columns:
        table.add_column(column, justify="left" if column == "step" else "right")
    for name in get_args(Step):
        if name not in manifest.ledger:
            continue
        account = manifest.ledger[name]
        counts = (account.calls, account.cached, account.reasked, account.failed, account.tokens)
        costs = [account.cost, account.cached_cost] if replayed else [account.cost]
        cells = [*(f"{count:,}" for count in counts), *(f"${cost:.4f}" for cost in costs)]
        table.add_row(name, *cells)
    show(f"{manifest.name}: {path}", table)
    errors = estimate_errors(manifest.estimate, manifest.ledger)
    if any(step.used for step in errors):
        error_table(errors)


def evaluation_table(
    collection: "Collection", evaluations: Evaluations, excluding: "Excluding | None" = None
) -> None:
    """Print one row for each run, and once more without the contaminated queries."""
    queries = len(evaluations[0][1].per_query)
    _means_table(f"{collection.name}: {counted(queries, 'query', 'queries')}", evaluations)
    for name, evaluation in evaluations:
        for what, said in _QUERIES.items():
            ids = getattr(evaluation, what)
            if ids:
                say(f"{name}: {counted(len(ids), 'query', 'queries')} {said}, as {ids[0]}")
        failed = sum(evaluation.holes[-1].failed.values()) if evaluation.holes else 0
        if failed:
            say(f"{name}: {counted(failed, 'failed judgment')} in the top {evaluation.holes[-1].k}")
    if excluding is not None:
        _means_table(
            f"without the {len(excluding.left_out)} of which {excluding.coverage:.0%} of the "
            f"nuggets or more are known: {queries - len(excluding.left_out)} queries",
            excluding.evaluations,
        )


def _means_table(title: str, evaluations: Evaluations) -> None:
    measures = evaluations[0][1].measures
    table = Table()
    table.add_column("run")
    for measure in measures:
        table.add_column(measure, justify="right")
    shallowest = evaluations[0][1].holes[0].k
    table.add_column(f"unjudged@{shallowest}", justify="right")
    for name, evaluation in evaluations:
        unjudged = evaluation.holes[0].mean_unjudged
        table.add_row(
            name,
            *(f"{evaluation.means[measure]:.4f}" for measure in measures),
            "–" if unjudged is None else f"{unjudged:.3f}",
        )
    show(title, table)


def evaluation_json(
    collection: "Collection", evaluations: Evaluations, excluding: "Excluding | None" = None
) -> None:
    """Print everything as one JSON object."""
    found: dict[str, Any] = {
        "collection": collection.name,
        "content_hash": collection.manifest.content_hash,
        "evaluations": _dumped(evaluations),
    }
    if excluding is not None:
        found["without_contaminated"] = {
            "coverage": excluding.coverage,
            "left_out": excluding.left_out,
            "evaluations": _dumped(excluding.evaluations),
        }
    print(json.dumps(found, indent=2))


def _dumped(evaluations: Evaluations) -> list[dict[str, Any]]:
    return [
        {"file": name, **evaluation.model_dump(mode="json")} for name, evaluation in evaluations
    ]


def agreement_table(report: "AgreementReport") -> None:
    """Print how the judge agrees with people."""
    table = Table()
    table.add_column("figure")
    table.add_column("value", justify="right")
    table.add_column("95 % interval", justify="right")
    for name, interval in _rows(report.figures):
        table.add_row(name, *_cells(interval))
    people = counted(len(report.annotators), "annotator")
    show(f"judge against {people}, {counted(report.figures.pairs, 'pair')}", table)
    for reason, figures in _without_interval(report.figures).items():
        say(f"no interval for {', '.join(figures)}: {reason}")
    ceiling = report.ceiling
    say(
        f"annotators among themselves: kappa {ceiling.value:.3f}"
        if ceiling.value is not None
        else f"annotators among themselves: {ceiling.reason}"
    )
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


class _OneLineConsole(Console):
    """A console on which no cell of a table moves the cursor."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(one_line(text), **options)


def show(title: str, table: Table) -> None:
    """Print a table in full, however narrow the screen: rich would leave columns out.

    What is in it is text: brackets, colons and escape characters in a name mean nothing.
    """
    say(title)
    console = _OneLineConsole(highlight=False, markup=False, emoji=False)
    unbounded = console.options.update(max_width=sys.maxsize)
    console.width = max(console.width, Measurement.get(console, unbounded, table).maximum)
    console.print(table)


def _rows(figures: "JudgeFigures") -> list[tuple[str, "Interval"]]:
    return [
        ("Cohen's kappa", figures.kappa),
        ("exact match", figures.exact_match),
        *((f"precision, {name}", interval) for name, interval in figures.precision.items()),
        *((f"recall, {name}", interval) for name, interval in figures.recall.items()),
    ]


def _without_interval(figures: "JudgeFigures") -> dict[str, list[str]]:
    """The figures that have a value and no interval, by the reason."""
    reasons: dict[str, list[str]] = {}
    for name, interval in _rows(figures):
        if interval.reason is not None:
            reasons.setdefault(interval.reason, []).append(name)
    return reasons


def _cells(interval: "Interval") -> tuple[str, str]:
    value = "–" if interval.value is None else f"{interval.value:.3f}"
    if interval.low is None or interval.high is None:
        return value, "–"
    return value, f"{interval.low:.3f} – {interval.high:.3f}"
