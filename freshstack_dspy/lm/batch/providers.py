"""The batch APIs of OpenAI and Azure (through LiteLLM) and of Anthropic.

Every method raises `FatalModelError` if nothing was done and a retry would not help, and
`TransientModelError` otherwise, with `maybe_billed` set if the call may have worked.
"""

import contextlib
import functools
import json
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from pydantic import AwareDatetime

from freshstack_dspy.config import ModelConfig
from freshstack_dspy.errors import FatalModelError, ReplyError, TransientModelError
from freshstack_dspy.lm.batch.deferred import AnswerLine, read_answer, request_line
from freshstack_dspy.lm.engine import (
    UNREADABLE,
    errors_explained,
    imported_litellm,
    litellm_address,
)
from freshstack_dspy.lm.request import ChatRequest, canonical_json
from freshstack_dspy.records import Record

LONGEST_WAIT = 600.0
"""Seconds for one call; a file of 200 MB takes longer than a reply."""


class Batch(Record):
    """A batch as its provider describes it."""

    batch_id: str
    status: str
    """In the provider's word."""
    ended: bool
    completed: int = 0
    failed: int = 0
    created_at: AwareDatetime
    submission: str | None = None
    """Ours, where the provider keeps it."""
    file_id: str | None = None
    """The id of the file of requests."""
    outputs: tuple[str, ...] = ()
    """Ids of the files of replies and errors."""
    faults: tuple[str, ...] = ()
    """Why the batch was refused as a whole."""

    def is_of(self, submission: str, file_id: str) -> bool:
        """Whether it was made from one of our submissions, or from its file."""
        return submission == self.submission or file_id == self.file_id


def batch_api(model: ModelConfig) -> "BatchAPI":
    """Find the batch API of a model's provider, or raise a FatalModelError."""
    provider = model.name.partition("/")[0]
    if provider in ("openai", "azure"):
        return OpenAIBatches(model)
    if provider == "anthropic":
        return AnthropicBatches(model)
    raise FatalModelError(
        f"{model.name} has no batch API that can be used here; those of openai/…, azure/… and "
        "anthropic/… can; answer the requests file otherwise, for example with: vllm run-batch -i REQUESTS "
        "-o REPLIES --model NAME, and then: freshstack requests answer CONFIG --from REPLIES"
    )


class OpenAIBatches:
    """Files and batches; the submission goes along as metadata of the batch."""

    most_requests = 50_000
    most_bytes = 200_000_000

    def __init__(self, model: ModelConfig) -> None:
        self._model = model
        self._litellm = imported_litellm(model)
        provider = model.name.partition("/")[0]
        # Azure knows the path without the version that OpenAI's begins with.
        self._path = "/chat/completions" if provider == "azure" else "/v1/chat/completions"
        self._access = {
            **litellm_address(model),
            "custom_llm_provider": provider,
            "max_retries": 0,  # a second attempt could make a second batch
            "timeout": max(model.timeout, LONGEST_WAIT),
        }

    def line(self, request: ChatRequest) -> bytes:
        """One request as it is sent: a line of the file, as `deferred.py` writes it."""
        return request_line(request, self._path)

    def upload(self, lines: Sequence[bytes], submission: str) -> str:
        """Upload the file, and give its id."""
        file = (f"{submission}.jsonl", b"\n".join(lines) + b"\n", "application/jsonl")
        with _explained(self._model):
            return str(self._litellm.create_file(file=file, purpose="batch", **self._access).id)

    def create(self, lines: Sequence[bytes], file_id: str | None, submission: str) -> Batch:
        """Make the batch of an uploaded file, which is what costs money. Exactly one attempt."""
        with _explained(self._model):
            return _openai_batch(
                self._litellm.create_batch(
                    completion_window="24h",
                    endpoint=self._path,
                    input_file_id=file_id,
                    metadata={_SUBMISSION: submission},
                    **self._access,
                )
            )

    def retrieve(self, batch_id: str) -> Batch:
        """Ask for the status of a batch."""
        with _explained(self._model):
            return _openai_batch(self._litellm.retrieve_batch(batch_id=batch_id, **self._access))

    def created_since(self, moment: datetime) -> Iterator[Batch]:
        """List the batches created since, the newest first; pages are fetched as they are needed."""
        with _explained(self._model):
            listed = self._litellm.list_batches(limit=100, **self._access)
            if not isinstance(listed.data, list):  # as an empty list, batches would be paid twice
                raise TypeError("there is no list of batches in it")
            for item in listed:
                batch = _openai_batch(item)
                if batch.created_at < moment:
                    return
                yield batch

    def results(self, batch: Batch) -> Iterator[AnswerLine]:
        """The lines of the output and of the error file."""
        for file_id in batch.outputs:
            with _explained(self._model):
                content = self._litellm.file_content(file_id=file_id, **self._access).content
                text = content.decode()
            yield from (read_answer(line) for line in text.split("\n") if line.strip())


_SUBMISSION = "freshstack_submission"


def _openai_batch(item: Any) -> Batch:
    counts = item.request_counts
    errors = (item.errors.data or []) if item.errors is not None else []
    return Batch(
        batch_id=item.id,
        status=item.status,
        ended=item.status in ("completed", "failed", "expired", "cancelled"),
        completed=counts.completed if counts else 0,
        failed=counts.failed if counts else 0,
        created_at=datetime.fromtimestamp(item.created_at, UTC),
        submission=(item.metadata or {}).get(_SUBMISSION),
        file_id=item.input_file_id,
        outputs=tuple(each for each in (item.output_file_id, item.error_file_id) if each),
        faults=tuple(
            ("" if each.line is None else f"line {each.line}: ")
            + (each.message or each.code or "no reason given")
            for each in errors[:1000]
        ),
    )


class AnthropicBatches:
    """Message batches; they hold no metadata.

    LiteLLM cannot make them, and lm15's `batch_submit` numbers the requests. Body and headers come from lm15, as those of live calls do.
    """

    most_requests = 100_000
    most_bytes = 256_000_000

    def __init__(self, model: ModelConfig) -> None:
        """Prepare; without a key this is a `FatalModelError`."""
        from dspy.lm15 import AnthropicLM

        self._model = model
        address = litellm_address(model)
        key = address.get("api_key") or os.environ.get("ANTHROPIC_API_KEY")
        if not key:
            raise FatalModelError(f"no key for {model.name}: set ANTHROPIC_API_KEY")
        base = {"base_url": address["api_base"]} if "api_base" in address else {}
        self._client = AnthropicLM(api_key=key, **base)

    def line(self, request: ChatRequest) -> bytes:
        """One request as it is sent: with the body of a live call."""
        with _explained(self._model):
            params = json.loads(self._live(request.body()).body)
        return canonical_json({"custom_id": request.key, "params": params}).encode()

    def upload(self, lines: Sequence[bytes], submission: str) -> None:
        """Nothing: the requests go with `create`."""

    def create(self, lines: Sequence[bytes], file_id: str | None, submission: str) -> Batch:
        """Make the batch, which is what costs money. Exactly one attempt."""
        with _explained(self._model):
            body = b'{"requests":[' + b",".join(lines) + b"]}"
            return _anthropic_batch(json.loads(self._call("POST", "", body)))

    def retrieve(self, batch_id: str) -> Batch:
        """Ask for the status of a batch."""
        with _explained(self._model):
            return _anthropic_batch(json.loads(self._call("GET", f"/{quote(batch_id, safe='')}")))

    def created_since(self, moment: datetime) -> Iterator[Batch]:
        """None: the listed batches do not hold our name."""
        return iter(())

    def results(self, batch: Batch) -> Iterator[AnswerLine]:
        """The results of an ended batch."""
        with _explained(self._model):
            content = self._call("GET", f"/{quote(batch.batch_id, safe='')}/results")
        for line in content.decode("utf-8", "replace").split("\n"):
            if line.strip():
                yield read_answer(_in_openai_format(line))

    def _live(self, body: dict[str, Any]) -> Any:
        """The HTTP request that a live call sends."""
        from dspy.lm15 import request_from_openai_chat

        return self._client.build_request(request_from_openai_chat(body), stream=False)

    @functools.cached_property
    def _endpoint(self) -> Any:
        hello = {"model": "any", "messages": [{"role": "user", "content": "hello"}]}
        return self._live(hello)

    def _call(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Call the batch API, once, with the address and headers of live calls."""
        import httpx

        from freshstack_dspy.lm.dspy_parts import lm15

        try:
            answer = httpx.request(
                method,
                f"{self._endpoint.url}/batches{path}",
                headers=dict(self._endpoint.headers),
                content=body,
                timeout=max(self._model.timeout, LONGEST_WAIT),
            )
        except httpx.HTTPError as error:
            raise lm15.TransportError(f"{type(error).__name__}: {error}") from error
        if answer.is_error:
            raise self._client.normalize_error(answer.status_code, answer.text)
        return answer.content


BatchAPI = OpenAIBatches | AnthropicBatches


def _anthropic_batch(item: Any) -> Batch:
    counts = item["request_counts"]
    return Batch(
        batch_id=item["id"],
        status=item["processing_status"],
        ended=item["processing_status"] == "ended",
        completed=counts.get("succeeded", 0),
        failed=counts.get("errored", 0),
        created_at=item["created_at"],
    )


_FINISH = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}


def _in_openai_format(line: str) -> str:
    """From one line of results, without thinking; one that cannot be read is left as it is."""
    try:
        item = json.loads(line)
        result = item["result"]
        if result["type"] != "succeeded":
            error = result.get("error") or {"message": result["type"]}
            return canonical_json({"custom_id": item["custom_id"], "error": error})
        message, usage = result["message"], result["message"].get("usage") or {}
        text = "".join(block["text"] for block in message["content"] if block["type"] == "text")
        finish = _FINISH.get(str(message.get("stop_reason")), "stop")
        body = {
            "choices": [{"message": {"content": text}, "finish_reason": finish}],
            "usage": {
                "prompt_tokens": usage.get("input_tokens"),
                "completion_tokens": usage.get("output_tokens"),
            },
        }
        return canonical_json({"custom_id": item["custom_id"], "response": {"body": body}})
    except UNREADABLE:
        return line


@contextlib.contextmanager
def _explained(model: ModelConfig) -> Iterator[None]:
    """Turn the errors of asking a provider into ours."""
    try:
        with errors_explained(model):
            yield
    except ReplyError as error:  # a batch that is refused is refused again
        raise FatalModelError(str(error)) from None
    except TransientModelError as error:
        error.maybe_billed = not error.rate_limited
        raise
