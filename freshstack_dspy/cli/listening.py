"""Who is told of every request to a model: a log, traces, or both."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from freshstack_dspy.lm.events import CallEvent, Listener


@contextmanager
def listening(log: Path | None, *, trace: bool) -> "Iterator[Listener | None]":
    """Open what a command's options ask for; None where they ask for nothing."""
    from freshstack_dspy.lm.events import EventLog
    from freshstack_dspy.lm.tracing import traced

    listeners: list[Listener] = []
    with ExitStack() as opened:
        if log is not None:
            listeners.append(opened.enter_context(EventLog(log)))
        if trace:
            listeners.append(traced())

        def tell(event: "CallEvent") -> None:
            for listener in listeners:
                listener(event)

        yield tell if listeners else None
