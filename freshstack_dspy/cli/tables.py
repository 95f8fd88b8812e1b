"""What a build prints, and how every command prints a table."""

import sys
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from freshstack_dspy.cli.lines import one_line, say


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
