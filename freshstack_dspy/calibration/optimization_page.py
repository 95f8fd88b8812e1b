"""The page of an optimization: the program on the test split, before and after."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from freshstack_dspy.pages.page import Page, Table, Text, Value, counted, interval, money

if TYPE_CHECKING:
    from freshstack_dspy.calibration.optimization import OptimizationReport


_OF_PAIRS = ("support_judge", "nuggetizer", "comparer")


def optimization_page(report: "OptimizationReport", program: str, path: Path | None) -> Page:
    """Give the page of the program of this name, which was written to a file."""
    queries = report.queries
    rows = [
        (
            name,
            Value(of.before.value, form=".3f"),
            Value(of.after.value, form=".3f"),
            interval(of.difference, "+.3f", "+.3f"),
        )
        for name, of in report.test.items()
    ]
    return Page(
        f"{report.optimizer} for {report.model}: {queries['train']} queries to train, "
        f"{queries['dev']} to choose by, {queries['test']} to test "
        f"({counted(report.pairs, 'pair' if program in _OF_PAIRS else 'example')})",
        (
            Table(("on the test split", "before", "after", "difference"), rows),
            *map(Text, _notes(report, program, path)),
        ),
        data=report,
    )


def _notes(report: "OptimizationReport", program: str, path: Path | None) -> Iterator[str]:
    if any(interval.difference.low is not None for interval in report.test.values()):
        yield "in brackets: the 95 % interval, over queries"
    if report.unchanged is not None:
        yield f"the plain program stays: {report.unchanged}"
    if any(report.failed):
        yield "failed examples: {} before, {} after".format(*report.failed)
    tokens = f", {report.tokens:,} tokens of replies" if report.tokens else ""
    cost = f", {money(report.cost)}" if report.cost else ""
    instructions = "new" if report.new_instructions else "the plain"
    demonstrations = counted(report.demonstrations, "demonstration")
    settings = ", new settings" if report.new_settings else ""
    what = f"with {instructions} instructions and {demonstrations}{settings}{tokens}{cost}"
    if path is None:
        yield what
        return
    named = f'{program} = "{path}"'
    if ":" in program:
        named = f'NAME = {{program = "{program}", state = "{path}"}}'
    yield f"{path} written, {what}; name it in a build as [programs] {named}"
