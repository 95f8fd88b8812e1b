"""What a provider's batch API does, whoever the provider is, and which one serves a model."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Protocol

from pydantic import AwareDatetime, Field

from freshstack_dspy.config import ModelConfig
from freshstack_dspy.errors import FatalModelError, ModelError, TransientModelError
from freshstack_dspy.lm.provider.redaction import presentable
from freshstack_dspy.lm.request import Ask
from freshstack_dspy.records import Record

LONGEST_WAIT = 600.0
"""Seconds for one call; a file of 200 MB takes longer than a reply."""
_MAY_HAVE_WORKED = (408, 409)
_NO_ACCESS = (401, 403)


class Batch(Record):
    """A batch as its provider tells of it."""

    batch_id: str
    status: str
    """In the provider's word."""
    ended: bool
    total: int = 0
    completed: int = 0
    failed: int = 0
    created_at: AwareDatetime
    submission: str | None = None
    """Ours, where the provider keeps it."""
    file_id: str | None = None
    """Of the requests."""
    outputs: tuple[str, ...] = ()
    """Ids of the files of replies and errors."""
    faults: tuple[str, ...] = Field(default=(), max_length=1000)
    """Why the batch was refused as a whole."""


class BatchAPI(Protocol):
    """One provider's batch API.

    Every method raises `FatalModelError` where nothing was done and trying again does not help,
    and `TransientModelError` otherwise, with `maybe_billed` where the call may have worked.
    """

    most_requests: int
    """In one batch."""
    most_bytes: int
    """In one batch, its requests together."""

    def line(self, ask: Ask) -> bytes:
        """One request as it is sent."""
        ...

    def upload(self, lines: Sequence[bytes], submission: str) -> str | None:
        """Send the requests ahead; give the file's id, or None where they go with `create`."""
        ...

    def create(self, lines: Sequence[bytes], file_id: str | None, submission: str) -> Batch:
        """Make the batch, which is what costs money. Exactly one attempt."""
        ...

    def retrieve(self, batch_id: str) -> Batch:
        """Ask how a batch stands."""
        ...

    def created_since(self, moment: datetime) -> Iterator[Batch]:
        """List the batches that were created at or after a moment, the newest first."""
        ...

    def results(self, batch: Batch) -> Iterator[str]:
        """The lines that came of a batch, in the OpenAI batch format; errors too."""
        ...


def batch_api(model: ModelConfig) -> BatchAPI:
    """Find the batch API of a model's provider.

    Raises:
        FatalModelError: There is none.
    """
    provider = model.name.partition("/")[0]
    if provider in ("openai", "azure"):
        from freshstack_dspy.lm.batch.openai_batches import OpenAIBatches

        return OpenAIBatches(model)
    if provider == "anthropic":
        from freshstack_dspy.lm.batch.anthropic_batches import AnthropicBatches

        return AnthropicBatches(model)
    raise FatalModelError(
        f"{model.name} has no batch API that can be used here; those of openai/…, azure/… and "
        "anthropic/… can; answer the requests file otherwise, as with: vllm run-batch -i REQUESTS "
        "-o REPLIES --model NAME, and then: freshstack requests import REPLIES CONFIG"
    )


def refusal(said: str, status: int | None, model: ModelConfig) -> ModelError:
    """The error for what a provider answered, or did not.

    Args:
        said: Its words.
        status: Its HTTP status, or None where no answer came.
        model: Whose batch API it is.
    """
    said = presentable(said, model)
    if status in _NO_ACCESS:
        return FatalModelError(f"the batch API of {model.name} refused the key ({said})")
    if status is not None and 400 <= status < 500 and status not in (*_MAY_HAVE_WORKED, 429):
        return FatalModelError(f"the batch API of {model.name} refused: {said}")
    error = TransientModelError(f"the batch API of {model.name} did not answer: {said}")
    error.rate_limited = status == 429
    error.maybe_billed = status != 429
    return error
