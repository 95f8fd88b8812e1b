"""What the commands print: tables for people, JSON for machines."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from freshstack_dspy.calibration import AgreementReport, OptimizationReport
    from freshstack_dspy.calibration.agreement import JudgeFigures
    from freshstack_dspy.collection import Collection
    from freshstack_dspy.measures import Evaluation, Interval

Evaluations = Sequence[tuple[str, "Evaluation"]]


def build_summary(collection: "Collection", path: Path) -> None:
    """Say what a build made."""
    console = Console(highlight=False)
    manifest = collection.manifest
    table = Table(title=f"{manifest.name}: {path}", title_justify="left")
    for column in ("step", "calls", "recorded", "re-asked", "failed", "tokens", "cost"):
        table.add_column(column, justify="left" if column == "step" else "right")
    for name, account in manifest.ledger.items():
        counts = (account.calls, account.cached, account.reasked, account.failed, account.tokens)
        table.add_row(name, *(f"{count:,}" for count in counts), f"${account.cost:.4f}")
    console.print(table)
    counts_ = manifest.counts
    positive = sum(bool(judgment.label) for judgment in collection.judgments)
    console.print(
        f"{counts_.queries} queries, {counts_.nuggets} nuggets, {counts_.chunks:,} chunks, "
        f"{counts_.judgments:,} judged pairs ({positive:,} supported)"
    )
    console.print("slices: " + ", ".join(f"{n} {name}" for name, n in counts_.slices.items()))
    if counts_.rejected:
        left = ", ".join(f"{n} {reason}" for reason, n in counts_.rejected.items())
        console.print(f"questions left out: {left}")
    if counts_.skipped:
        console.print(f"{counts_.skipped} files skipped; see {path / 'skipped.jsonl'}")
    failed = sum(n for statuses in counts_.failures.values() for n in statuses.values())
    if failed:
        console.print(f"{failed} failures; see {path / 'failures.jsonl'}, and build again to retry")
    console.print(f"content {manifest.content_hash}")


def evaluation_table(collection: "Collection", evaluations: Evaluations) -> None:
    """Print one row for each run."""
    console = Console(highlight=False)
    measures = evaluations[0][1].measures
    queries = len(evaluations[0][1].per_query)
    table = Table(title=f"{collection.name}: {queries} queries", title_justify="left")
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
    console.print(table)
    for name, evaluation in evaluations:
        for what in ("absent", "empty", "without_relevant", "unknown"):
            ids = getattr(evaluation, what)
            if ids:
                said = what.replace("_", " ")
                console.print(f"{name}: {len(ids)} queries {said}, as {ids[0]}")
        failed = sum(evaluation.holes[-1].failed.values()) if evaluation.holes else 0
        if failed:
            console.print(f"{name}: {failed} failed judgments in the top {evaluation.holes[-1].k}")


def evaluation_json(collection: "Collection", evaluations: Evaluations) -> None:
    """Print everything as one JSON object."""
    found = {
        "collection": collection.name,
        "content_hash": collection.manifest.content_hash,
        "evaluations": [
            {"file": name, **evaluation.model_dump(mode="json")} for name, evaluation in evaluations
        ],
    }
    Console(highlight=False, soft_wrap=True).print_json(json.dumps(found, ensure_ascii=False))


def agreement_table(report: "AgreementReport") -> None:
    """Print how the judge agrees with people."""
    console = Console(highlight=False)
    table = Table(
        title=f"judge against {len(report.annotators)} annotators, {report.figures.pairs} pairs",
        title_justify="left",
    )
    table.add_column("figure")
    table.add_column("value", justify="right")
    table.add_column("95 % interval", justify="right")
    for name, interval in _rows(report.figures):
        table.add_row(name, *_cells(interval))
    console.print(table)
    ceiling = report.ceiling
    console.print(
        f"annotators among themselves: kappa {ceiling.value:.3f}"
        if ceiling.value is not None
        else f"annotators among themselves: {ceiling.reason}"
    )
    if report.failed or report.unjudged:
        console.print(
            f"{report.unjudged} labels of pairs that were not judged, {report.failed} of pairs "
            "whose judgment failed: in no figure"
        )


def optimization_table(report: "OptimizationReport", path: Path) -> None:
    """Print the test split before and after."""
    console = Console(highlight=False)
    table = Table(
        title=f"{report.optimizer}: {report.train_queries} queries to train, "
        f"{report.test_queries} to test ({report.before.figures.pairs} pairs)",
        title_justify="left",
    )
    table.add_column("on the test split")
    for moment in ("before", "after"):
        table.add_column(moment, justify="right")
        table.add_column("95 % interval", justify="right")
    before, after = _rows(report.before.figures), _rows(report.after.figures)
    for (name, one), (_, other) in zip(before, after, strict=True):
        table.add_row(name, *_cells(one), *_cells(other))
    console.print(table)
    if report.before.failed or report.after.failed:
        console.print(
            f"failed examples: {report.before.failed} before, {report.after.failed} after"
        )
    console.print(
        f"{path} written, with {report.demonstrations} demonstrations; "
        f'name it in a build as [programs] support_judge = "{path.name}"'
    )


def _rows(figures: "JudgeFigures") -> list[tuple[str, "Interval"]]:
    return [
        ("Cohen's kappa", figures.kappa),
        ("exact match", figures.exact_match),
        *((f"precision, {name}", interval) for name, interval in figures.precision.items()),
        *((f"recall, {name}", interval) for name, interval in figures.recall.items()),
    ]


def _cells(interval: "Interval") -> tuple[str, str]:
    value = "–" if interval.value is None else f"{interval.value:.3f}"
    if interval.low is None or interval.high is None:
        return value, "–"
    return value, f"{interval.low:.3f} – {interval.high:.3f}"
