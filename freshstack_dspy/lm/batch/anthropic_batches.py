"""Anthropic's message batches.

LiteLLM reads such batches and cannot make them. The body of each request comes from the client
that live calls go through, so live and batch ask the same; the rest is four short calls.
"""

import dataclasses
import functools
import json
import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from freshstack_dspy.config import ModelConfig
from freshstack_dspy.errors import FatalModelError, ModelError
from freshstack_dspy.lm.batch.api import LONGEST_WAIT, Batch, refusal
from freshstack_dspy.lm.request import Ask, base_from_environment, canonical_json

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

    def line(self, ask: Ask) -> bytes:
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

    def _live(self, ask: Ask) -> Any:
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
