"""Progress of a computation that is shown only where it takes long enough to wonder."""

import time
from types import TracebackType
from typing import Self

from freshstack_dspy.cli.bars import Bars

_PATIENCE = 2.0
"""Seconds after which people want to know how far it is."""


class LateProgress:
    """A bar on standard error, from two seconds on; a quick computation shows nothing.

    Args:
        step: What is counted.
        patience: Seconds before it is shown.
    """

    def __init__(self, step: str, patience: float = _PATIENCE) -> None:
        self._step, self._patience = step, patience
        self._began = time.monotonic()
        self._bars: Bars | None = None
        self._shown = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bars is None:
            return
        if error is None:
            self._bars.finish(self._step)
        self._bars.__exit__(kind, error, trace)

    def __call__(self, done: int, total: int) -> None:
        """Tell how many are done, and of how many."""
        if self._bars is None:
            if time.monotonic() - self._began < self._patience:
                return
            self._bars = Bars()
            self._bars.__enter__()
            self._bars.start(self._step, total)
        for _ in range(self._shown, done):
            self._bars.advance(self._step)
        self._shown = done
