"""Requests as they are sent, and the keys that their replies are found by.

The key of a chat request covers the fields of `ChatRequest`: the provider and model, the identity
of the endpoint, the messages, every sampling parameter, the response schema, the tools, and the
sample number. It leaves out everything that cannot change the reply: credentials (api_key, headers,
user and password in api_base), how the request is sent (timeout, retries, concurrency, mode, live
or deferred, synchronous or not), the step of the recipe, budget and prices.
"""

import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import FailFast, Field, JsonValue
from pydantic_core import to_json

from freshstack_dspy.errors import FatalModelError
from freshstack_dspy.records import Record

if TYPE_CHECKING:
    from functools import _lru_cache_wrapper

    from dspy.lm15 import Config, Request

KEY_VERSION = 1
"""Increase it when the same request gets another key, so that old stores say why they miss."""

BASELINE = "extractive/baseline"
COMMAND = "command/"
"""The prefix of a model name that is a command; the command follows."""
BY_HAND = "agent/"
"""The prefix of the name of a coding agent or person who answers deferred requests."""
BASELINE_VERSION = 6
"""Increase it when the embedded baseline answers the same request differently."""

Result = TypeVar("Result")
_RENAMED = {"extensions": "extra", "cache": "prompt_cache"}
_PORTS = {"http": 80, "https": 443}


class ChatMessage(Record):
    """One message of a conversation; text only."""

    role: Literal["system", "user", "assistant"]
    content: str


class KeyedRequest(Record):
    """A request with the key that its reply is found by."""

    @functools.cached_property
    def key(self) -> str:
        """SHA-256 over the canonical JSON of every field, as 64 hexadecimal digits."""
        return sha256_of({"key_version": KEY_VERSION, **self.model_dump(mode="json")})

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy without the key and the rest that is computed, which would be the original's."""
        copied = super().model_copy(update=update, deep=deep)
        for cached in ("key", "parameters_json"):
            vars(copied).pop(cached, None)
        return copied


class ChatRequest(KeyedRequest):
    """One request to a language model: exactly what can change its reply."""

    model: str
    endpoint: str
    messages: Annotated[tuple[ChatMessage, ...], FailFast()]
    parameters: dict[str, Any]
    """Sampling parameters, response_format and tools, by their names in the API; None left out."""
    sample: int | None = None
    """Number of the sample where the same request is asked several times (DSPy's rollout_id)."""

    @functools.cached_property
    def key(self) -> str:
        """SHA-256 over the canonical JSON of every field, as 64 hexadecimal digits."""
        text = self.canonical(f'"key_version":{KEY_VERSION},')
        return hashlib.sha256(text.encode()).hexdigest()

    @functools.cached_property
    def parameters_json(self) -> str:
        """The canonical JSON of the parameters."""
        return canonical_json(self.parameters)

    def canonical(self, version: str = "") -> str:
        """The canonical JSON of every field, and of the version that the key has."""
        messages = ",".join(
            f'{{"content":{json_string(message.content)},"role":"{message.role}"}}'
            for message in self.messages
        )
        return (
            f'{{"endpoint":{json_string(self.endpoint)},{version}"messages":[{messages}],'
            f'"model":{json_string(self.model)},"parameters":{self.parameters_json},'
            f'"sample":{"null" if self.sample is None else self.sample}}}'
        )

    @property
    def task(self) -> str | None:
        """Name of the response schema, which is the name of the DSPy signature."""
        response_format = self.parameters.get("response_format")
        name = response_format.get("name") if isinstance(response_format, dict) else None
        return name if isinstance(name, str) else None

    def body(self) -> dict[str, Any]:
        """The request as the body of an OpenAI chat completion, as batch files hold it."""
        provider, _, name = self.model.partition("/")
        body: dict[str, Any] = {
            "model": name,
            "messages": [message.model_dump() for message in self.messages],
        }
        for parameter, value in self.parameters.items():
            if parameter == "extra":
                body.update(value)
            elif parameter == "response_format":
                body[parameter] = _wire_format(value)
            elif parameter == "max_tokens" and provider in ("openai", "azure"):
                body["max_completion_tokens"] = value
            elif parameter == "reasoning":
                body["reasoning_effort"] = {"off": "none"}.get(value["effort"], value["effort"])
            else:
                body[parameter] = value
        return body


def _wire_format(response_format: dict[str, Any]) -> dict[str, Any]:
    """Convert a response format from DSPy's shape to that of the chat-completions protocol."""
    if response_format.get("type") != "json_schema":
        return response_format
    schema = {name: value for name, value in response_format.items() if name != "type"}
    return {"type": "json_schema", "json_schema": schema}


Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
MOST_PASSAGES = 1000


class EmbeddingRequest(KeyedRequest):
    """One text that is embedded."""

    kind: Literal["embedding"] = "embedding"
    model: str
    endpoint: str
    dimensions: int | None = None
    """The length of the vector, where the model is asked to shorten it."""
    input_type: str | None = None
    """What the text is to the model (`search_query`), where the provider needs to know."""
    text: Hash
    """SHA-256 of the text exactly as it is sent: with its prefix, and cut."""


class RerankRequest(KeyedRequest):
    """Passages that are scored for one text."""

    kind: Literal["rerank"] = "rerank"
    model: str
    endpoint: str
    query: Hash
    """SHA-256 of the text."""
    passages: Hash
    """SHA-256 of the canonical JSON of the list of the passages' SHA-256, sorted, each once."""
    count: int = Field(ge=1, le=MOST_PASSAGES)
    """How many passages these are."""


class SearchRequest(KeyedRequest):
    """A search of an index."""

    kind: Literal["search"] = "search"
    corpus: str
    """Digest of what is searched."""
    settings: dict[str, JsonValue]
    """All that can change what is found: depth, retrievers, fusion, embedders."""
    texts: Hash
    """SHA-256 of the canonical JSON of the list of texts that are searched for, in their order."""


NumbersRequest = EmbeddingRequest | RerankRequest


def text_hash(text: str) -> str:
    """SHA-256 of a text's UTF-8, as 64 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def chat_request(request: "Request", *, endpoint: str, sample: int | None) -> ChatRequest:
    """Make the canonical form of a DSPy request; only text can be asked."""
    messages = []
    if request.system is not None:
        system = request.system if isinstance(request.system, str) else _text_of(request.system)
        messages.append(ChatMessage(role="system", content=system))
    for message in request.messages:
        if message.role not in ("user", "assistant") or message.continuation:
            raise FatalModelError(
                f"a message of role {message.role!r} cannot be sent: only text goes"
            )
        messages.append(ChatMessage(role=message.role, content=_text_of(message.parts)))
    parameters, parameters_json = remembered(_parameters, request.config)
    if request.tools:
        parameters = {**parameters, "tools": [_plain(tool) for tool in request.tools]}
        parameters_json = canonical_json(parameters)
    asked = ChatRequest(
        model=request.model,
        endpoint=endpoint,
        messages=tuple(messages),
        parameters=parameters,
        sample=sample,
    )
    vars(asked)["parameters_json"] = parameters_json
    return asked


@functools.lru_cache(maxsize=256)
def _parameters(config: "Config") -> tuple[dict[str, Any], str]:
    """The parameters that a configuration stands for, and their canonical JSON."""
    # Every field of the configuration, not a list of known ones: a field that a later
    # DSPy adds must not be able to change the reply behind the key's back.
    values = {
        _RENAMED.get(field.name, field.name): _plain(getattr(config, field.name))
        for field in dataclasses.fields(config)
    }
    parameters = {name: value for name, value in values.items() if value not in (None, [], {})}
    return parameters, canonical_json(parameters)


def remembered(function: "_lru_cache_wrapper[Result]", *arguments: Any) -> Result:
    """Call a cached function, or what it wraps where an argument holds what cannot be hashed."""
    try:
        return function(*arguments)
    except TypeError:
        return function.__wrapped__(*arguments)


def endpoint_identity(model: str, api_base: str | None, section: str = "[model]") -> str:
    """Say where requests go, without credentials: a normalised URL, or the provider's own endpoint.

    For the built-in baseline it is the version: what it answers changes with nothing else.
    A provider's `…_API_BASE` or `…_BASE_URL` variable in the environment counts as `api_base`.
    """
    if model == BASELINE:
        return f"embedded:{BASELINE_VERSION}"
    base = api_base or base_from_environment(model)
    if base is None:
        return f"{model.partition('/')[0]}:default"
    try:
        url = urlsplit(base)
        port = url.port
    except ValueError:
        url, port = urlsplit(""), None
    if url.scheme not in _PORTS or not url.hostname or url.query or url.fragment:
        # The address itself is not shown: it may hold a password.
        raise FatalModelError(
            f"{section} api_base must be an http or https URL without a query, "
            'as "http://127.0.0.1:8000/v1"'
        )
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    shown_port = "" if port in (None, _PORTS[url.scheme]) else f":{port}"
    return f"{url.scheme}://{host}{shown_port}{url.path.rstrip('/')}"


def base_from_environment(model: str) -> str | None:
    """The endpoint that the environment sets for a model's provider, if any."""
    prefix = model.partition("/")[0].upper()
    if model.startswith(COMMAND):
        return None
    names = (f"{prefix}_API_BASE", f"{prefix}_BASE_URL")
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


_CANONICAL = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
)


def canonical_json(value: Any) -> str:
    """The canonical JSON of a value: keys sorted, no spaces, no escapes for non-ASCII, no NaN."""
    return _CANONICAL.encode(value)


def json_string(text: str) -> str:
    """The canonical JSON of a text; for long ones Pydantic takes a sixth of Python's time."""
    return to_json(text).decode()


def sha256_of(value: Any) -> str:
    """SHA-256 of a value's canonical JSON, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def _text_of(parts: Any) -> str:
    texts = []
    for part in parts:
        if part.type != "text" or getattr(part, "continuation", ()):
            raise FatalModelError(f"a {part.type} part cannot be sent: only text goes")
        texts.append(part.text)
    return "".join(texts)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (str, int, float, dict)):
        return value  # DSPy takes dictionaries of plain JSON only
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _plain(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if getattr(value, field.name) is not None
        }
    return value
