"""The batch APIs of OpenAI, of servers that speak the same, and of Azure, through LiteLLM."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from freshstack_dspy.config import ModelConfig
from freshstack_dspy.lm.batch.api import LONGEST_WAIT, Batch, refusal
from freshstack_dspy.lm.batch.deferred import request_line
from freshstack_dspy.lm.provider.through_litellm import imported_litellm
from freshstack_dspy.lm.request import Ask, base_from_environment

_OVER = ("completed", "failed", "expired", "cancelled")
_SUBMISSION = "freshstack_submission"
_UNREADABLE = (AttributeError, LookupError, TypeError, ValueError, OverflowError, RecursionError)
"""What LiteLLM and OpenAI's client raise on an answer that is none of a batch API."""


class OpenAIBatches:
    """Files and batches; the submission goes along as metadata of the batch."""

    most_requests = 50_000
    most_bytes = 200_000_000

    def __init__(self, model: ModelConfig) -> None:
        self._model = model
        self._litellm = imported_litellm(model)
        self._provider = model.name.partition("/")[0]
        # Azure knows the path without the version that OpenAI's begins with.
        self._path = "/chat/completions" if self._provider == "azure" else "/v1/chat/completions"

    def line(self, ask: Ask) -> bytes:
        """One line of the file, as `deferred.py` writes it."""
        return request_line(ask, self._path)

    def upload(self, lines: Sequence[bytes], submission: str) -> str:
        """Upload the file, and give its id."""
        file = (f"{submission}.jsonl", b"\n".join(lines) + b"\n", "application/jsonl")
        with self._explained():
            return str(self._litellm.create_file(file=file, purpose="batch", **self._access()).id)

    def create(self, lines: Sequence[bytes], file_id: str | None, submission: str) -> Batch:
        """Make the batch of an uploaded file."""
        del lines
        with self._explained():
            return _batch(
                self._litellm.create_batch(
                    completion_window="24h",
                    endpoint=self._path,
                    input_file_id=file_id,
                    metadata={_SUBMISSION: submission},
                    **self._access(),
                )
            )

    def retrieve(self, batch_id: str) -> Batch:
        """Ask how a batch stands."""
        with self._explained():
            return _batch(self._litellm.retrieve_batch(batch_id=batch_id, **self._access()))

    def created_since(self, moment: datetime) -> Iterator[Batch]:
        """List batches; the pages behind the first are fetched as they are needed."""
        with self._explained():
            listed = self._litellm.list_batches(limit=100, **self._access())
            if not isinstance(listed.data, list):  # it would count as empty, and be paid for twice
                raise TypeError("there is no list of batches in it")
            for item in listed:
                batch = _batch(item)
                if batch.created_at < moment:
                    return
                yield batch

    def results(self, batch: Batch) -> Iterator[str]:
        """The lines of the output and of the error file."""
        for file_id in batch.outputs:
            with self._explained():
                content = self._litellm.file_content(file_id=file_id, **self._access()).content
                text = content.decode("utf-8")
            yield from (line for line in text.split("\n") if line.strip())

    def _access(self) -> dict[str, Any]:
        """Where to, as whom; one attempt, since a second could make a second batch."""
        model = self._model
        access: dict[str, Any] = {
            "custom_llm_provider": self._provider,
            "max_retries": 0,
            "timeout": max(model.timeout, LONGEST_WAIT),
        }
        base = model.api_base or base_from_environment(model.name)
        if base:
            access["api_base"] = base
        if model.api_key:
            access["api_key"] = model.api_key.get_secret_value()
        elif base and (not self._has_key() or "@" in urlsplit(base).netloc):
            access["api_key"] = "none"  # a server of one's own takes any, and a client insists
        return access

    def _has_key(self) -> bool:
        return bool(os.environ.get(f"{self._provider.upper()}_API_KEY"))

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        from openai import OpenAIError

        try:
            yield
        except OpenAIError as error:
            raise refusal(_words(error), getattr(error, "status_code", None), self._model) from None
        except _UNREADABLE as error:
            said = f"its answer cannot be read: {type(error).__name__}: {error}"
            raise refusal(said, None, self._model) from error


def _words(error: Exception) -> str:
    """What an error says: the provider's own message, or the client's with its cause."""
    body = getattr(error, "body", None)
    if isinstance(body, dict) and isinstance(body.get("message"), str):
        return str(body["message"])
    cause = f" ({error.__cause__})" if error.__cause__ is not None else ""
    return f"{error}{cause}"


def _batch(found: Any) -> Batch:
    counts = found.request_counts
    errors = (found.errors.data or []) if found.errors is not None else []
    return Batch(
        batch_id=found.id,
        status=found.status,
        ended=found.status in _OVER,
        total=counts.total if counts else 0,
        completed=counts.completed if counts else 0,
        failed=counts.failed if counts else 0,
        created_at=datetime.fromtimestamp(found.created_at, UTC),
        submission=(found.metadata or {}).get(_SUBMISSION),
        file_id=found.input_file_id,
        outputs=tuple(each for each in (found.output_file_id, found.error_file_id) if each),
        faults=tuple(_fault(each) for each in errors[:1000]),
    )


def _fault(error: Any) -> str:
    """One line of `errors.data`."""
    place = f"line {error.line}: " if error.line is not None else ""
    return f"{place}{error.message or error.code or 'no reason given'}"
