"""Progress: bars on a terminal and in a notebook, and a line for each step that is done elsewhere."""

import sys
import textwrap
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, Self

_NAMES = {
    "overlap": "corpus overlap",
    "terms": "index: terms",
    "bm25": "index: bm25",
    "lsa": "index: lsa",
    "table": "index: table",
    "synthesis": "synthetic questions",
    "request": "report requests",
    "sub_questions": "sub-questions",
    "closed_book_answer": "closed-book answers",
    "support": "support judgments",
}
_STARTING = "starting"
_BAR = 8
_NAME = 20
_HANGING = 33
"""Where the note of a finished step begins."""
_RECENT = 100
"""Parts that the time left is estimated from."""


class Progress(Protocol):
    """Is notified of how the work goes on; `ProgressBars` is one."""

    def start(self, step: str, total: int) -> None:
        """A step begins; `total` is its number of parts, 0 where that is not known."""

    def advance(self, step: str, note: str = "") -> None:
        """One part is done, by any thread; the note says what was asked and spent until now."""

    def finish(self, step: str, note: str = "") -> None:
        """The step is done."""


class NoProgress:
    """Progress that is not shown."""

    def start(self, *_: object, **__: object) -> None:
        """Print nothing."""

    advance = finish = start


@contextmanager
def showing(progress: Progress | bool | None) -> Iterator[Progress]:
    """Give what is notified: the object itself, `ProgressBars` for True, and nothing for False.

    None: `ProgressBars` where a person looks on, on a terminal or in a notebook.
    """
    if progress is None:
        progress = sys.stderr.isatty() or _in_notebook()
    if progress is True:
        with ProgressBars() as bars:
            yield bars
    else:
        yield progress or NoProgress()


@contextmanager
def one_part(progress: Progress, step: str, note: Callable[[], str] = str) -> Iterator[None]:
    """Show a step that is done in one part; the note is asked for at its end."""
    progress.start(step, 0)
    yield
    progress.finish(step, note())


def report(progress: Progress, step: str, note: str) -> None:
    """Notify of a step that is done."""
    progress.start(step, 1)
    progress.advance(step)
    progress.finish(step, note)


class Fractions:
    """A report of stages and the fraction of each that is done, as steps of a hundred parts."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._parts: dict[str, int] = {}

    def __call__(self, stage: str, fraction: float) -> None:
        """Report that so much of a stage is done."""
        if stage not in self._parts:
            self._parts[stage] = 0
            self._progress.start(stage, 100)
        before, now = self._parts[stage], int(fraction * 100)
        for _ in range(now - before):
            self._progress.advance(stage)
        self._parts[stage] = max(before, now)
        if before < 100 <= now:
            self._progress.finish(stage)


class ProgressBars:
    """Progress on standard error or in a notebook, as a context."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._running: dict[str, _Step] = {}
        self.steps: list[str] = []
        """The steps that were begun, in their order."""
        self._display: _Lines | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():  # libraries are imported, before the first step
            self.start(_STARTING, 0)
            self.steps.clear()
        return self

    def __exit__(self, *_: object) -> None:
        if self._display is not None:
            self._display.stop()

    def start(self, step: str, total: int) -> None:
        """Show a step's bar."""
        if self._display is None:
            kind = _Terminal if sys.stderr.isatty() else _Notebook if _in_notebook() else _Lines
            self._display = kind(self._bars)
        with self._lock:
            self._running.pop(_STARTING, None)
            self.steps.append(step)
            self._running[step] = _Step(_NAMES.get(step, step), total)

    def advance(self, step: str, note: str = "") -> None:
        """Move a step's bar."""
        with self._lock:
            running = self._running[step]
            running.advance(note)
            if self._display is not None:
                self._display.moved(running)

    def wait(self, step: str, note: str) -> None:
        """Say what a step waits for."""
        with self._lock:
            running = self._running.get(step)
            if running is not None and self._display is not None:
                running.note = note
                self._display.waits(running)

    def finish(self, step: str, note: str = "") -> None:
        """Say in a line how a step went, in place of its bar."""
        with self._lock:
            running = self._running.pop(step)
            if self._display is not None and (note or running.total or running.seconds > 1):
                line = f"{running.name:<22} {running.seconds:6.1f} s  {note}"
                self._display.say(line.rstrip())

    def _bars(self) -> list[str]:
        with self._lock:
            return [each.bar() for each in self._running.values()]


class _Step:
    """A step that is not done yet."""

    def __init__(self, name: str, total: int) -> None:
        self.name, self.total, self.done, self.note = name, total, 0, ""
        self.waited = False
        self.said = self._started = time.monotonic()
        self._recent = deque([self._started], maxlen=_RECENT)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def advance(self, note: str) -> None:
        self.done += 1
        self.note = note
        self._recent.append(time.monotonic())

    def bar(self) -> str:
        """Name, bar, parts, time, calls and cost: 80 characters at most."""
        if 0 < self.done <= self.total:
            filled = _BAR * self.done // self.total
            bar = "━" * filled + "╌" * (_BAR - filled)
        else:  # a block that goes through the bar in two seconds
            place = int(self.seconds * 4) % _BAR
            bar = "╌" * place + "━" + "╌" * (_BAR - 1 - place)
        return f"{self.name[:_NAME]:<{_NAME}} {bar} {self.state()}"

    def state(self) -> str:
        """How far it is."""
        parts = f"{self.done:,}/{self.total:,}" if self.total > 1 else f"{self.done:,}"
        left = ""
        if 0 < self.done < self.total:
            seconds = (time.monotonic() - self._recent[0]) / (len(self._recent) - 1)
            left = f"{_clock(seconds * (self.total - self.done))} left"
        shown = (parts if self.done else "", _clock(self.seconds), left, self.note)
        return ", ".join(filter(None, shown))


class _Lines:
    """A line for each step that is done, and now and then one for a step that takes long."""

    every = 60.0

    def __init__(self, bars: Callable[[], list[str]]) -> None:
        self._bars = bars

    def say(self, line: str) -> None:
        sys.stderr.write(f"{line}\n")

    def moved(self, step: _Step) -> None:
        if time.monotonic() - step.said >= self.every:
            step.said = time.monotonic()
            self.say(f"{step.name:<22} … {step.state()}")

    def waits(self, step: _Step) -> None:
        if not step.waited:
            step.waited, step.said = True, -self.every
        self.moved(step)

    def stop(self) -> None:
        """Nothing is left on the screen."""


class _Terminal(_Lines):
    def __init__(self, bars: Callable[[], list[str]]) -> None:
        super().__init__(bars)
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        console = Console(file=sys.stderr, markup=False, highlight=False, emoji=False)

        def shown() -> Text:
            text = "\n".join(self._bars())
            if console.options.ascii_only:
                text = text.replace("━", "=").replace("╌", "-")
            return Text(text, no_wrap=True, overflow="ellipsis")

        self._live = Live(
            get_renderable=shown,
            console=console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()

    def say(self, line: str) -> None:
        self._live.refresh()  # its bar is gone
        console = self._live.console
        for part in textwrap.wrap(line, console.width - 1, subsequent_indent=" " * _HANGING):
            console.print(part, soft_wrap=True)

    def moved(self, step: _Step) -> None:
        pass

    def stop(self) -> None:
        self._live.stop()


class _Notebook(_Lines):
    """One output of a cell, renewed twice a second."""

    def __init__(self, bars: Callable[[], list[str]]) -> None:
        super().__init__(bars)
        from IPython.display import display  # pyright: ignore[reportMissingImports]

        self._said: list[str] = []
        self._handle: Any = display({"text/plain": ""}, raw=True, display_id=True)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._renew, daemon=True)
        self._thread.start()

    def say(self, line: str) -> None:
        self._said.append(line)

    def moved(self, step: _Step) -> None:
        pass

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
        self._show()

    def _renew(self) -> None:
        while not self._stopped.wait(0.5):
            self._show(*self._bars())

    def _show(self, *bars: str) -> None:
        self._handle.update({"text/plain": "\n".join([*self._said, *bars])}, raw=True)


def _in_notebook() -> bool:
    """Whether a Jupyter kernel runs this code; nothing is imported to find out."""
    ipython = sys.modules.get("IPython")
    return hasattr(ipython.get_ipython(), "kernel") if ipython is not None else False


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
