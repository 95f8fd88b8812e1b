"""What commands that ask a model have in common: a log of requests, progress, and a session."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from freshstack_dspy.cli.options import ModeName
    from freshstack_dspy.cli.printing import Bars
    from freshstack_dspy.config import BuildConfig
    from freshstack_dspy.recipes.session import Session, SessionOptions


@contextmanager
def asking(
    mode: "ModeName", requests: Path | None, log: Path | None
) -> Iterator[tuple["SessionOptions", "Bars"]]:
    """Show progress and write the log; gives the options of a session.

    Args:
        mode: Whether it may ask.
        requests: Where missing requests are written.
        log: Where each request is written as a line of JSON.
    """
    from freshstack_dspy.cli.printing import Bars
    from freshstack_dspy.lm.events import EventLog

    with ExitStack() as stack:
        bars = stack.enter_context(Bars())
        callback = stack.enter_context(EventLog(log)) if log is not None else None
        options: SessionOptions = {
            "mode": mode,
            "progress": bars,
            "requests_file": requests,
            "callback": callback,
        }
        yield options, bars


@contextmanager
def judging(
    settings: "BuildConfig", config: Path, mode: "ModeName", requests: Path | None, log: Path | None
) -> Iterator["Session"]:
    """Open a session for a configuration's model, with progress and log."""
    from freshstack_dspy.recipes.session import open_session

    del config
    with (
        asking(mode, requests, log) as (options, _),
        open_session(settings, searching=False, **options) as session,
    ):
        yield session
