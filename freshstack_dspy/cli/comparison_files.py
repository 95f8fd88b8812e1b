"""What `freshstack compare` gives to other programs: JSON, CSV, tables."""

import json
from typing import Any

from freshstack_dspy.cli.compared import Compared
from freshstack_dspy.cli.lines import counted, percent
from freshstack_dspy.cli.table_formats import Cell, PlainTable, as_csv

_DIGITS = 3
_COLUMNS = (
    "measure", "run", "against", "queries", "left_out", "mean_run", "mean_against", "difference",
    "low", "high", "level", "effect_size", "wins", "ties", "losses", "test", "statistic",
    "p_value", "p_standard_error", "adjusted_p", "correction", "tests", "detectable",
    "queries_needed", "verdict",
)  # fmt: skip


def comparison_json(compared: Compared) -> str:
    """Write everything as one JSON object."""
    found: dict[str, Any] = {
        **compared.judgments.identity,
        "contaminated_from": compared.contaminated_from,
        "left_out": compared.left_out,
        "queries": compared.queries,
        "comparison": compared.comparison.model_dump(mode="json"),
    }
    return json.dumps(found, indent=2) + "\n"


def comparison_csv(compared: Compared) -> str:
    """Write one row for each difference."""
    comparison = compared.comparison
    rows: list[tuple[Cell, ...]] = [
        (
            each.measure,
            each.run,
            each.against,
            each.queries,
            each.left_out,
            comparison.means[each.run][each.measure],
            comparison.means[each.against][each.measure],
            each.interval.value,
            each.interval.low,
            each.interval.high,
            each.interval.level,
            each.effect_size,
            each.wins,
            each.ties,
            each.losses,
            each.significance.test,
            each.significance.statistic,
            each.significance.p_value,
            each.significance.standard_error,
            each.adjusted_p,
            comparison.correction,
            comparison.tests,
            each.detectable,
            each.queries_needed,
            each.verdict,
        )
        for each in comparison.differences
    ]
    return as_csv(PlainTable(_COLUMNS, tuple(rows)))


def comparison_table(compared: Compared) -> PlainTable:
    """Make a table of the differences, with their intervals in brackets."""
    comparison = compared.comparison
    header = ("measure", "run", "against", "difference", "p", "adjusted p", "found")
    rows: list[tuple[Cell, ...]] = [
        (
            each.measure,
            each.run,
            each.against,
            _difference(each.interval.value, each.interval.low, each.interval.high),
            _p(each.significance.p_value),
            _p(each.adjusted_p),
            each.verdict,
        )
        for each in comparison.differences
    ]
    adjusted = "not adjusted"
    if comparison.correction != "none":
        tests = counted(comparison.tests, "test")
        adjusted = f"adjusted ({comparison.correction}) over {tests}"
    caption = (
        f"{compared.judgments.name}, {counted(compared.queries, 'query', 'queries')}; "
        f"{percent(comparison.level)} bootstrap intervals in brackets; p of the paired "
        f"{comparison.test} test, {adjusted}."
    )
    figures = frozenset(range(header.index("difference"), header.index("found")))
    return PlainTable(header, tuple(rows), caption=caption, digits=_DIGITS, right=figures)


def _difference(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return "–"
    if low is None or high is None:
        return f"{value:+.{_DIGITS}f}"
    return f"{value:+.{_DIGITS}f} [{low:+.{_DIGITS}f}, {high:+.{_DIGITS}f}]"


def _p(value: float | None) -> str:
    if value is None:
        return "–"
    return "< 0.001" if value < 0.001 else f"{value:.{_DIGITS}f}"
