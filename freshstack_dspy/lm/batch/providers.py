"""The batch APIs of OpenAI and Azure (through LiteLLM) and of Anthropic."""

import contextlib
import functools
import json
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from pydantic import AwareDatetime, Field

from freshstack_dspy.config import ModelConfig
from freshstack_dspy.errors import FatalModelError, ModelError, TransientModelError
from freshstack_dspy.lm.batch.deferred import request_line
from freshstack_dspy.lm.engine import imported_litellm, presentable
from freshstack_dspy.lm.request import ChatRequest, base_from_environment, canonical_json
from freshstack_dspy.records import Record

LONGEST_WAIT = 600.0
"""Seconds for one call; a file of 200 MB takes longer than a reply."""


class Batch(Record):
    """A batch as its provider describes it."""

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

    def line(self, request: ChatRequest) -> bytes:
        """One request as it is sent."""
        ...

    def upload(self, lines: Sequence[bytes], submission: str) -> str | None:
        """Send the requests ahead; give the file's id, or None where they go with `create`."""
        ...

    def create(self, lines: Sequence[bytes], file_id: str | None, submission: str) -> Batch:
        """Make the batch, which is what costs money. Exactly one attempt."""
        ...

    def retrieve(self, batch_id: str) -> Batch:
        """Ask for the status of a batch."""
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
        return OpenAIBatches(model)
    if provider == "anthropic":
        return AnthropicBatches(model)
    raise FatalModelError(
        f"{model.name} has no batch API that can be used here; those of openai/…, azure/… and "
        "anthropic/… can; answer the requests file otherwise, as with: vllm run-batch -i REQUESTS "
        "-o REPLIES --model NAME, and then: freshstack requests import REPLIES CONFIG"
    )


def _refusal(words: str, status: int | None, model: ModelConfig) -> ModelError:
    """The error for what a provider answered; its HTTP status is None where no answer came."""
    words = presentable(words, model)
    if status in (401, 403):
        return FatalModelError(f"the batch API of {model.name} refused the key ({words})")
    if status is not None and 400 <= status < 500 and status not in (408, 409, 429):
        return FatalModelError(f"the batch API of {model.name} refused: {words}")
    error = TransientModelError(f"the batch API of {model.name} did not answer: {words}")
    error.rate_limited = status == 429
    error.maybe_billed = status != 429
    return error


def _unreadable(error: Exception, model: ModelConfig) -> ModelError:
    return _refusal(f"its answer cannot be read: {type(error).__name__}: {error}", None, model)


_UNREADABLE = (AttributeError, LookupError, TypeError, ValueError)
"""Raised while reading an answer that is none of a batch API."""


# OpenAI and Azure

_OVER = ("completed", "failed", "expired", "cancelled")
_SUBMISSION = "freshstack_submission"


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

    def line(self, request: ChatRequest) -> bytes:
        """One line of the file, as `deferred.py` writes it."""
        return request_line(request, self._path)

    def upload(self, lines: Sequence[bytes], submission: str) -> str:
        """Upload the file, and give its id."""
        file = (f"{submission}.jsonl", b"\n".join(lines) + b"\n", "application/jsonl")
        with self._explained():
            return str(self._litellm.create_file(file=file, purpose="batch", **self._access()).id)

    def create(self, lines: Sequence[bytes], file_id: str | None, submission: str) -> Batch:
        """Make the batch of an uploaded file."""
        with self._explained():
            return _openai_batch(
                self._litellm.create_batch(
                    completion_window="24h",
                    endpoint=self._path,
                    input_file_id=file_id,
                    metadata={_SUBMISSION: submission},
                    **self._access(),
                )
            )

    def retrieve(self, batch_id: str) -> Batch:
        """Ask for the status of a batch."""
        with self._explained():
            return _openai_batch(self._litellm.retrieve_batch(batch_id=batch_id, **self._access()))

    def created_since(self, moment: datetime) -> Iterator[Batch]:
        """List batches; the pages behind the first are fetched as they are needed."""
        with self._explained():
            listed = self._litellm.list_batches(limit=100, **self._access())
            if not isinstance(listed.data, list):  # it would count as empty, and be paid for twice
                raise TypeError("there is no list of batches in it")
            for item in listed:
                batch = _openai_batch(item)
                if batch.created_at < moment:
                    return
                yield batch

    def results(self, batch: Batch) -> Iterator[str]:
        """The lines of the output and of the error file."""
        for file_id in batch.outputs:
            with self._explained():
                content = self._litellm.file_content(file_id=file_id, **self._access()).content
                text = content.decode()
            yield from (line for line in text.split("\n") if line.strip())

    def _access(self) -> dict[str, Any]:
        """Where to, as whom; one attempt, since a second could make a second batch."""
        access: dict[str, Any] = {
            "custom_llm_provider": self._provider,
            "max_retries": 0,
            "timeout": max(self._model.timeout, LONGEST_WAIT),
        }
        base, key = _base_and_key(self._model)
        return {
            **access,
            **({"api_base": base} if base else {}),
            **({"api_key": key} if key else {}),
        }

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        from openai import OpenAIError

        try:
            yield
        except OpenAIError as error:
            body = getattr(error, "body", None)
            cause = f" ({error.__cause__})" if error.__cause__ is not None else ""
            words = body.get("message") if isinstance(body, dict) else None
            status = getattr(error, "status_code", None)
            raise _refusal(str(words or f"{error}{cause}"), status, self._model) from None
        except _UNREADABLE as error:
            raise _unreadable(error, self._model) from error


def _base_and_key(model: ModelConfig) -> tuple[str | None, str | None]:
    """The address and the key, where they are not the provider's own and the environment's."""
    base = model.api_base or base_from_environment(model.name)
    if model.api_key:
        return base, model.api_key.get_secret_value()
    in_environment = os.environ.get(f"{model.name.partition('/')[0].upper()}_API_KEY")
    needs_any = base and (not in_environment or "@" in urlsplit(base).netloc)
    return base, "none" if needs_any else None  # a server of one's own takes any


def _openai_batch(found: Any) -> Batch:
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
        faults=tuple(
            ("" if each.line is None else f"line {each.line}: ")
            + (each.message or each.code or "no reason given")
            for each in errors[:1000]
        ),
    )


# Anthropic

_PAGE = 1000
_FINISH = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}


class AnthropicBatches:
    """Message batches; they carry no metadata, so a lost one is known by time and size.

    LiteLLM reads such batches and cannot make them; lm15's `batch_submit` numbers the requests,
    so that a lost batch could not be told by our keys. The body and the headers of each request
    come from lm15, as those of live calls do; the rest is four short calls.
    """

    most_requests = 100_000
    most_bytes = 256_000_000

    def __init__(self, model: ModelConfig) -> None:
        """Prepare.

        Raises:
            FatalModelError: There is no key.
        """
        self._model = model
        self._base, key = _base_and_key(model)
        self._key = key or os.environ.get("ANTHROPIC_API_KEY")
        if not self._key:
            raise FatalModelError(f"no key for {model.name}: set ANTHROPIC_API_KEY")

    def line(self, request: ChatRequest) -> bytes:
        """One of the batch's requests."""
        params = json.loads(self._live(request.body()).body)
        return canonical_json({"custom_id": request.key, "params": params}).encode()

    def upload(self, lines: Sequence[bytes], submission: str) -> None:
        """Nothing: the requests go with `create`."""

    def create(self, lines: Sequence[bytes], file_id: str | None, submission: str) -> Batch:
        """Make the batch."""
        body = b'{"requests":[' + b",".join(lines) + b"]}"
        return self._batch(self._json(self._call("POST", "", body)))

    def retrieve(self, batch_id: str) -> Batch:
        """Ask for the status of a batch."""
        return self._batch(self._json(self._call("GET", f"/{quote(batch_id, safe='')}")))

    def created_since(self, moment: datetime) -> Iterator[Batch]:
        """List batches, a page at a time."""
        after = ""
        while True:
            page = self._json(self._call("GET", f"?limit={_PAGE}{after}"))
            if not isinstance(page.get("data"), list):
                raise _unreadable(TypeError("there is no list of batches in it"), self._model)
            for item in page["data"]:
                batch = self._batch(item)
                if batch.created_at < moment:
                    return
                yield batch
            if not (page["data"] and page.get("has_more") and page.get("last_id")):
                return
            after = f"&after_id={quote(str(page['last_id']), safe='')}"

    def results(self, batch: Batch) -> Iterator[str]:
        """The results, each brought into the OpenAI batch format."""
        for output in batch.outputs:
            content = self._call("GET", f"/{quote(output, safe='')}/results")
            for line in content.decode("utf-8", "replace").split("\n"):
                if line.strip():
                    yield _in_openai_format(line)

    @functools.cached_property
    def _client(self) -> Any:
        from dspy.lm15 import AnthropicLM

        return AnthropicLM(api_key=self._key, **({"base_url": self._base} if self._base else {}))

    def _live(self, body: dict[str, Any]) -> Any:
        """The HTTP request that a live call sends."""
        from dspy.lm15 import LM15Error, request_from_openai_chat

        try:
            return self._client.build_request(request_from_openai_chat(body), stream=False)
        except LM15Error as error:
            raise _refusal(str(error), 400, self._model) from None

    def _call(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Call the batch API, once, with the address and headers of live calls."""
        import httpx

        hello = {"model": "any", "messages": [{"role": "user", "content": "hello"}]}
        live = self._live(hello)
        try:
            answer = httpx.request(
                method,
                f"{live.url}/batches{path}",
                headers=dict(live.headers),
                content=body,
                timeout=max(self._model.timeout, LONGEST_WAIT),
            )
        except httpx.HTTPError as error:
            raise _refusal(f"{type(error).__name__}: {error}", None, self._model) from None
        if answer.status_code >= 400:
            try:
                words = str(answer.json()["error"]["message"])
            except _UNREADABLE:
                words = answer.text
            raise _refusal(words, answer.status_code, self._model)
        return answer.content

    def _json(self, content: bytes) -> Any:
        try:
            return dict(json.loads(content))
        except _UNREADABLE as error:
            raise _unreadable(error, self._model) from None

    def _batch(self, item: Any) -> Batch:
        try:
            counts, processing = item["request_counts"], item["processing_status"]
            ended = processing == "ended"
            kinds = {name for name, count in counts.items() if count}
            all_alike = (name for name in ("canceled", "expired") if ended and kinds == {name})
            return Batch(
                batch_id=item["id"],
                status=next(all_alike, processing),
                ended=ended,
                total=sum(counts.values()),
                completed=counts.get("succeeded", 0),
                failed=counts.get("errored", 0),
                created_at=item["created_at"],
                outputs=(item["id"],) if ended else (),
            )
        except _UNREADABLE as error:
            raise _unreadable(error, self._model) from None


def _in_openai_format(line: str) -> str:
    """From one line of results; one that cannot be read is given on as it is, to be counted."""
    try:
        item = json.loads(line)
        result = item["result"]
        if result["type"] == "succeeded":
            body = _completion(result["message"])
            answer: dict[str, Any] = {"response": {"status_code": 200, "body": body}}
        else:
            answer = {"error": result.get("error") or {"message": result["type"]}}
        return canonical_json({"custom_id": item["custom_id"], **answer})
    except _UNREADABLE:
        return line


def _completion(message: dict[str, Any]) -> dict[str, Any]:
    """A message as a chat completion; thinking is no part of the answer."""
    text = "".join(block["text"] for block in message["content"] if block["type"] == "text")
    finish = _FINISH.get(str(message.get("stop_reason")), "stop")
    usage = message.get("usage") or {}
    return {
        "choices": [{"message": {"content": text}, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": usage.get("input_tokens"),
            "completion_tokens": usage.get("output_tokens"),
        },
    }
