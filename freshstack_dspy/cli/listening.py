"""Who is told of every request to a model: a log, traces, or both."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from freshstack_dspy.lm.events import Callback, CallEvent


@contextmanager
def listening(log: Path | None, *, trace: bool) -> "Iterator[Callback | None]":
    """Open what a command's options ask for; None where they ask for nothing."""
    from freshstack_dspy.lm.events import EventLog, traced

    listeners: list[Callback] = []
    with ExitStack() as opened:
        if log is not None:
            listeners.append(opened.enter_context(EventLog(log)))
        if trace:
            listeners.append(traced())

        def tell(event: "CallEvent") -> None:
            for listener in listeners:
                listener(event)

        yield tell if listeners else None
