"""The command line: parse, call, print."""

import errno
import gc
import io
import logging
import os
import signal
import sys
import threading
from contextlib import AbstractContextManager, nullcontext, suppress

_INTERRUPTED = 130
_PATIENCE = 5.0
"""Seconds in which a command may tidy up after Ctrl-C."""
_OUTPUT_GONE = (errno.EPIPE, errno.ENOSPC)
_EXIT_CODES = {"DeferredError": 3, "BudgetError": 4}


def _quiet() -> None:
    """Silence what libraries print by themselves: this process is ours, a caller's would not be."""
    for name, value in {
        "LANCEDB_LOG": "error",  # the warnings of its Rust half
        "TQDM_DISABLE": "1",  # bars of DSPy's optimizers and of models that are loaded
    }.items():
        os.environ.setdefault(name, value)
    # It logs every reply that it gives up; ours are counted and recorded instead.
    logging.getLogger("instructor").setLevel(logging.CRITICAL)
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)  # each attempt at a collector
    gc.set_threshold(50_000, 20, 20)  # many records are read, with no cycle among them


def main() -> None:
    """Run `freshstack`; an expected error is one line on standard error.

    Exit codes: 0 done; 1 an error of ours or a gate that is not passed, in one line; 2 wrong words;
    3 requests were deferred and wait for replies; 4 the budget is used up; 130 interrupted.
    """
    signal.signal(signal.SIGINT, _interrupt)
    _quiet()
    try:
        _run()
    except KeyboardInterrupt:
        _leave()


def _run() -> None:
    from freshstack_dspy import errors
    from freshstack_dspy.cli.app import app
    from freshstack_dspy.cli.command import complain
    from freshstack_dspy.errors import FreshstackError

    for stream in (sys.stdout, sys.stderr):
        # A terminal without Unicode shows escapes rather than a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        errors.options_are_typed = True
        with _collected():
            app(prog_name="freshstack")
    except (FreshstackError, MemoryError, OSError) as error:
        if (
            isinstance(error, OSError)
            and error.filename is None
            and error.errno not in _OUTPUT_GONE
        ):
            raise
        complain(_line(error))
        sys.exit(_EXIT_CODES.get(type(error).__name__, 1))
    except SystemExit as left:
        if left.code == _INTERRUPTED:
            _leave()
        raise
    finally:
        errors.options_are_typed = False


def _collected() -> AbstractContextManager[None]:
    """Send spans and metrics, if the environment names OpenTelemetry at all."""
    if not any(name.startswith("OTEL_") for name in os.environ):
        return nullcontext()
    from freshstack_dspy.lm.telemetry import exporting

    return exporting()


def _interrupt(*_: object) -> None:
    """End by Ctrl-C, also where the exception is raised in code that swallows it."""
    timer = threading.Timer(_PATIENCE, _leave)
    timer.daemon = True
    timer.start()
    raise KeyboardInterrupt


def _leave() -> None:
    print(
        "interrupted; run it again to go on: every reply that came is recorded",
        file=sys.stderr,
        flush=True,
    )
    with suppress(OSError):
        sys.stdout.flush()
    os._exit(_INTERRUPTED)  # threads may still wait for a server


def _line(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "error: there is not enough memory; every reply that came is recorded"
    if isinstance(error, OSError):
        return f"error: {error.filename or 'the output cannot be written'}: {error.strerror}"
    return str(error) if type(error).__name__ in _EXIT_CODES else f"error: {error}"
