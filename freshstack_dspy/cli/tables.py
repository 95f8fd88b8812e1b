"""What a build prints, and how every command prints a table."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from freshstack_dspy.cli.lines import one_line, say
from freshstack_dspy.cli.query_lines import query_lines
from freshstack_dspy.records import Step

if TYPE_CHECKING:
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.collection.manifest import Manifest


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
    from freshstack_dspy.collection.slices import left_out

    if line := left_out(collection):
        say(f"measures are taken on {line}")
    if counts_.rejected:
        left = ", ".join(f"{n:,} {reason}" for reason, n in counts_.rejected.items())
        say(f"questions left out: {left}")
    if counts_.skipped:
        from freshstack_dspy.collection.counts import listed

        number = sum(counts_.skipped.values())
        say(f"{number:,} files skipped ({listed(counts_.skipped)}); see {path / 'skipped.jsonl'}")
    failed = sum(n for statuses in counts_.failures.values() for n in statuses.values())
    if failed:
        say(f"{failed:,} failures; see {path / 'failures.jsonl'}, and build again to retry")
    say(f"content {manifest.content_hash}")


def _account_table(manifest: "Manifest", path: Path) -> None:
    """What each step asked and cost, and how the estimate turned out."""
    from freshstack_dspy.cli.plan_tables import error_table
    from freshstack_dspy.collection.manifest import estimate_errors

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
