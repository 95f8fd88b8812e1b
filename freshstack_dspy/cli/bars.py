"""A build's progress in the terminal: bars on a screen, one line a step in a log."""

import sys
import time
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

_NAMES = {
    "terms": "index: terms",
    "bm25": "index: bm25",
    "lsa": "index: lsa",
    "table": "index: table",
    "synthesis": "synthetic questions",
    "nuggets": "nuggets",
    "importance": "nugget importance",
    "sub_questions": "sub-questions",
    "closed_book_answer": "closed-book answers",
    "support": "support judgments",
    "single_support": "single-chunk judgments",
    "contamination": "contamination",
}


class _NoteColumn(ProgressColumn):
    """How a step went, in what the other columns leave of the width."""

    def __init__(self) -> None:
        # Of all columns, a table shrinks first those that may wrap; the text itself may not.
        super().__init__(Column(no_wrap=False))

    def render(self, task: Task) -> Text:
        return Text(task.fields["note"], no_wrap=True, overflow="ellipsis")


class Bars:
    """Progress on standard error."""

    def __init__(self) -> None:
        self._screen = sys.stderr.isatty()
        self._bars = Progress(
            TextColumn("{task.description:<22}", markup=False),
            BarColumn(bar_width=8),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            _NoteColumn(),
            console=Console(stderr=True),
            disable=not self._screen,
        )
        self._tasks: dict[str, TaskID] = {}
        self._started: dict[str, float] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    @property
    def steps(self) -> list[str]:
        """The steps that were begun, in their order."""
        return list(self._started)

    def start(self, step: str, total: int) -> None:
        """Show a step's bar."""
        self._started[step] = time.monotonic()
        self._tasks[step] = self._bars.add_task(_NAMES.get(step, step), total=total, note="")

    def advance(self, step: str) -> None:
        """Move a step's bar."""
        self._bars.advance(self._tasks[step])

    def finish(self, step: str, note: str = "") -> None:
        """Say how a step went."""
        task = self._tasks[step]
        self._bars.update(task, completed=self._bars.tasks[task].total, note=note)
        if not self._screen:
            seconds = time.monotonic() - self._started[step]
            typed = f"{_NAMES.get(step, step):<22} {seconds:6.1f} s  {note}"
            print(typed, file=sys.stderr)
