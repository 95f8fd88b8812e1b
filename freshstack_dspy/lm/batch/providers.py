"""Anthropic's message batches.

LiteLLM reads such batches and cannot make them. The body of each request comes from the client
that live calls go through, so live and batch ask the same; the rest is four short calls.
"""

import contextlib
import dataclasses
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

    def line(self, ask: ChatRequest) -> bytes:
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
        return OpenAIBatches(model)
    if provider == "anthropic":
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


_PAGE = 1000
_FINISH = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}


class AnthropicBatches:
    """Message batches; they carry no metadata, so a lost one is known by time and size."""

    most_requests = 100_000
    most_bytes = 256_000_000

    def __init__(self, model: ModelConfig) -> None:
        """Prepare.

        Raises:
            FatalModelError: There is no key.
        """
        self._model = model
        base = model.api_base or base_from_environment(model.name)
        key = model.api_key.get_secret_value() if model.api_key else _key_in_environment()
        if not key and not base:
            raise FatalModelError(f"no key for {model.name}: set ANTHROPIC_API_KEY")
        self._key = key or "none"  # a server of one's own takes any, and the client insists
        self._base = base

    def line(self, ask: ChatRequest) -> bytes:
        """One of the batch's requests."""
        params = json.loads(self._live(ask).body)
        return canonical_json({"custom_id": ask.key, "params": params}).encode()

    def upload(self, lines: Sequence[bytes], submission: str) -> None:
        """Nothing: the requests go with `create`."""

    def create(self, lines: Sequence[bytes], file_id: str | None, submission: str) -> Batch:
        """Make the batch."""
        del file_id, submission
        return self._batch(self._call("POST", "", b'{"requests":[' + b",".join(lines) + b"]}"))

    def retrieve(self, batch_id: str) -> Batch:
        """Ask how a batch stands."""
        return self._batch(self._call("GET", f"/{quote(batch_id, safe='')}"))

    def created_since(self, moment: datetime) -> Iterator[Batch]:
        """List batches, a page at a time."""
        after = ""
        while True:
            page = self._json(self._call("GET", f"?limit={_PAGE}{after}"))
            if not isinstance(page.get("data"), list):
                raise self._unreadable("there is no list of batches in it")
            for item in page["data"]:
                batch = self._read(item)
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

        base: dict[str, Any] = {"base_url": self._base} if self._base else {}
        return AnthropicLM(api_key=self._key, **base)

    def _live(self, ask: ChatRequest) -> Any:
        """The HTTP request that a live call sends."""
        from dspy.lm15 import LM15Error, request_from_openai_chat

        try:
            return self._client.build_request(request_from_openai_chat(ask.body()), stream=False)
        except LM15Error as error:
            raise refusal(str(error), 400, self._model) from None

    @functools.cached_property
    def _wire(self) -> Any:
        """The address and the headers of live calls."""
        from dspy.lm15 import Message, Request

        name = self._model.name.partition("/")[2]
        hello = Request(model=name, messages=(Message.user("hello"),))
        return self._client.build_request(hello, stream=False)

    def _call(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Call the batch API, once."""
        import httpx

        wire = dataclasses.replace(self._wire, url=f"{self._wire.url}/batches{path}")
        try:
            answer = httpx.request(
                method,
                wire.url,
                headers=dict(wire.headers),
                content=body,
                timeout=max(self._model.timeout, LONGEST_WAIT),
            )
        except httpx.HTTPError as error:
            said = f"{type(error).__name__}: {error}"
            raise refusal(said, None, self._model) from None
        if answer.status_code >= 400:
            raise refusal(_words(answer.text), answer.status_code, self._model)
        return answer.content

    def _json(self, content: bytes) -> dict[str, Any]:
        try:
            value = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise self._unreadable(str(error)) from None
        if not isinstance(value, dict):
            raise self._unreadable("it is no JSON object")
        return value

    def _unreadable(self, why: str) -> ModelError:
        return refusal(f"its answer cannot be read: {why}", None, self._model)

    def _batch(self, content: bytes) -> Batch:
        return self._read(self._json(content))

    def _read(self, item: Any) -> Batch:
        try:
            counts = item["request_counts"]
            ended = item["processing_status"] == "ended"
            return Batch(
                batch_id=item["id"],
                status=_status(item["processing_status"], counts),
                ended=ended,
                total=sum(counts.values()),
                completed=counts.get("succeeded", 0),
                failed=counts.get("errored", 0),
                created_at=item["created_at"],
                outputs=(item["id"],) if ended else (),
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise self._unreadable(f"{type(error).__name__}: {error}") from None


def _key_in_environment() -> str:
    return os.environ.get("ANTHROPIC_API_KEY", "")


def _status(processing: str, counts: dict[str, int]) -> str:
    """The provider's word; of an ended batch, whether it ended for all of its requests alike."""
    if processing != "ended":
        return processing
    kinds = {name for name, count in counts.items() if count}
    return next((name for name in ("canceled", "expired") if kinds == {name}), "ended")


def _words(text: str) -> str:
    """The message in an error's body, or the body."""
    try:
        return str(json.loads(text)["error"]["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return text


def _in_openai_format(line: str) -> str:
    """From one line of results; what cannot be read is given on as it is, to be counted."""
    try:
        item = json.loads(line)
        result = item["result"]
        if result["type"] == "succeeded":
            body = _completion(result["message"])
            answer: dict[str, Any] = {"response": {"status_code": 200, "body": body}}
        else:
            answer = {"error": {"code": result["type"], "message": _reason(result)}}
        return canonical_json({"custom_id": item["custom_id"], **answer})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return line


def _completion(message: dict[str, Any]) -> dict[str, Any]:
    """A message as a chat completion; thinking is no part of the answer."""
    text = "".join(block["text"] for block in message["content"] if block["type"] == "text")
    stop = str(message.get("stop_reason"))
    usage = message.get("usage") or {}
    return {
        "choices": [{"message": {"content": text}, "finish_reason": _FINISH.get(stop, "stop")}],
        "usage": {
            "prompt_tokens": usage.get("input_tokens"),
            "completion_tokens": usage.get("output_tokens"),
        },
    }


def _reason(result: dict[str, Any]) -> str:
    """Why a request has no reply: the message inside, or how it ended."""
    error = result.get("error")
    while isinstance(error, dict):
        if isinstance(error.get("message"), str):
            return str(error["message"])
        error = error.get("error")
    return str(result["type"])


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

    def line(self, ask: ChatRequest) -> bytes:
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
            raise refusal(
                _words_openai_batches(error), getattr(error, "status_code", None), self._model
            ) from None
        except _UNREADABLE as error:
            said = f"its answer cannot be read: {type(error).__name__}: {error}"
            raise refusal(said, None, self._model) from error


def _words_openai_batches(error: Exception) -> str:
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
