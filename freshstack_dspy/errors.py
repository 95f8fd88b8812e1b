"""Every error of ours, as one tree.

    FreshstackError                 one clean line for the user, exit code 1
    ├── ConfigError                 the configuration or a command's words are wrong
    ├── SourceError                 queries or documents cannot be read
    ├── IndexingError               a corpus cannot be indexed or searched
    ├── EngineError                 a cluster cannot be reached or used, or stalls
    ├── CollectionError             a collection, run, label or program file is missing, damaged or of another kind
    └── ModelError                  anything between us and a language model
        ├── FatalModelError         no retry can help: unknown model, no key, not allowed
        ├── TransientModelError     retries were used up: rate limit, timeout, server error
        ├── ReplayMissError         a reply is not recorded and asking is not allowed
        ├── DeferredError           the request was written down for later; there is no reply yet
        ├── BudgetError             the next call could go over a cap of [budget]
        ├── StoreError              the replies store cannot be read or written
        │   └── DamagedReplyError   an entry in it cannot be trusted
        └── ReplyError              a reply came and is no answer (see its `status`)
            └── TooLongError        the request is longer than the model's context

A `ReplyError` concerns one query and becomes a counted `Failure`; the others stop the build.
A message says what was wrong, what is allowed and what to type.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

FailureStatus = Literal["unparsed", "refused", "truncated", "failed"]


class FreshstackError(Exception):
    """The root of all errors that a user can meet and mend."""


class ConfigError(FreshstackError):
    """The configuration, or the words of a command, are wrong."""


class SourceError(FreshstackError):
    """Queries or documents cannot be read."""


class IndexingError(FreshstackError):
    """A corpus cannot be indexed or searched."""


class EngineError(FreshstackError):
    """An engine cannot do the work: not installed, not reachable, too small, stalled."""


class CollectionError(FreshstackError):
    """A collection, run, label or program file is missing, damaged or of another kind."""


class ModelError(FreshstackError):
    """Anything that goes wrong between us and a language model."""


class FatalModelError(ModelError):
    """No retry can help: unknown model, missing key, access refused, request refused as malformed."""


class TransientModelError(ModelError):
    """Bounded retries were used up: rate limit, timeout, dropped connection, server error.

    Attributes:
        retry_after: Seconds that the server asked to wait, or None.
        rate_limited: Whether the server said that there are too many requests.
        maybe_billed: Whether the request may have been worked on, though no reply arrived.
        attempts: How many requests were sent.
    """

    retry_after: float | None = None
    rate_limited: bool = False
    maybe_billed: bool = False
    attempts: int = 0


class ReplayMissError(ModelError):
    """A reply is not recorded, and the mode does not allow asking for it."""


class DeferredError(ModelError):
    """The request was written to the deferred requests; there is no reply yet.

    Attributes:
        file: The requests file, where one was written.
    """

    file: Path | None = None


class BudgetError(ModelError):
    """The next call could go over a cap of [budget]; what was answered is recorded."""


class StoreError(ModelError):
    """The replies store, a bundle or a replies file cannot be read or written."""


class DamagedReplyError(StoreError):
    """An entry of the replies store is damaged, edited by hand, or not plain text."""


class ReplyError(ModelError):
    """A reply came, but it is not an answer.

    Attributes:
        status: Why: `unparsed`, `refused`, `truncated` or `failed`.
        call_id: The key of the last reply, or None where none was received.
        attempts: How many requests were sent for it.
    """

    attempts: int = 1

    def __init__(self, message: str, *, status: FailureStatus, call_id: str | None) -> None:
        super().__init__(message)
        self.status: FailureStatus = status
        self.call_id = call_id


class TooLongError(ReplyError):
    """The request is longer than the model's context: with fewer texts in it, it may fit."""


@contextmanager
def file_named(file: Path) -> Iterator[None]:
    """Put the file of a configuration, where there is one, before an error about what it says."""
    try:
        yield
    except (ConfigError, FatalModelError) as error:
        if not file.is_file():
            raise
        raise type(error)(f"{file}: {error}") from None


options_are_typed = False
"""Whether those who read messages type commands, as the command line sets it."""


def argument(name: str, value: object = True) -> str:
    """Write an argument for a message: `replace=True`, and `--replace` where commands are typed."""
    if not options_are_typed:
        return f"{name}={value!r}"
    option = f"--{name.replace('_', '-')}"
    return option if value is True else f"{option} {value}"
