"""The page of an optimization: the program on the test split, before and after."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from freshstack_dspy.calibration.metrics import LEAST_QUERIES
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
        if name != "answered" or any(report.failed)
    ]
    return Page(
        f"{report.optimizer} for {report.model}: {queries['train']} queries to train, "
        f"{queries['dev']} to choose by, {queries['test']} to test "
        f"({counted(report.pairs, 'pair' if program in _OF_PAIRS else 'example')})",
        (
            *(
                Text(f"{counted(number, 'label')} left out, {why}", "warning")
                for why, number in report.left_out.items()
            ),
            Table(("on the test split", "before", "after", "difference"), rows),
            *map(Text, _notes(report, program, path)),
        ),
        data=report,
    )


def _by_status(failures: dict[str, int]) -> str:
    kinds = ", ".join(f"{count} {status}" for status, count in failures.items())
    return f"{sum(failures.values())} ({kinds})" if kinds else "0"


def _notes(report: "OptimizationReport", program: str, path: Path | None) -> Iterator[str]:
    if any(interval.difference.low is not None for interval in report.test.values()):
        yield "in brackets: the 95 % interval, over queries"
    if report.unchanged is not None:
        yield f"the plain program stays: {report.unchanged}"
    if any(report.failed):
        before, after = (_by_status(of) for of in report.failures)
        yield (
            f"test examples without an answer: {before} before, {after} after; all rows but the "
            "last are of those that both programs answered"
        )
    if report.unwritten:
        yield (
            f"{counted(report.unwritten, 'question')} of the optimizer itself brought no valid "
            "reply: a prompt model of its own, or more max_tokens, may write instructions"
        )
    tested = report.queries["test"]
    if tested < LEAST_QUERIES:
        yield (
            f"caution: {counted(tested, 'test query', 'test queries')} tell little and have no "
            f"interval; one needs {LEAST_QUERIES}, of some {LEAST_QUERIES * 5 // 2} labelled queries"
        )
    calls = f", {report.calls:,} calls" if report.calls else ""
    tokens = f", {report.tokens:,} tokens of replies" if report.tokens else ""
    cost = f", {money(report.cost)}" if report.cost else ""
    instructions = "new" if report.new_instructions else "the plain"
    demonstrations = counted(report.demonstrations, "demonstration")
    settings = ", new settings" if report.new_settings else ""
    what = f"with {instructions} instructions and {demonstrations}{settings}{calls}{tokens}{cost}"
    if path is None:
        yield what
        return
    named = f'{program} = "{path}"'
    if ":" in program:
        named = f'NAME = {{program = "{program}", state = "{path}"}}'
    yield f"{path} written, {what}; name it in a build as [programs] {named}"
