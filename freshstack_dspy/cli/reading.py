"""A bar for files that take long to read, on a screen alone."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def reading_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show how many bytes were read, of how many; nothing where nobody looks.

    Gives what `read_queries` and `question_tags` take as `progress`.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=12),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(compact=True),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    with bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
