"""A request as it is sent, and the key that its reply is found by.

What is in the key, by name (`Ask`): the provider and model, the identity of the endpoint, the
messages, every sampling parameter, the response schema, the tools, and the sample number.

What is not (`NOT_IN_THE_KEY`): whatever cannot change the reply. Synchronous and asynchronous,
live and deferred requests have the same key.
"""

import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Mapping
from json.encoder import JSONEncoder, c_make_encoder, encode_basestring
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import FailFast
from pydantic_core import PydanticSerializationError, to_json

from freshstack_dspy.errors import FatalModelError
from freshstack_dspy.records import Record

if TYPE_CHECKING:
    from dspy.lm15 import Request

MOST_STRUCTURE = 2**19
"""Characters of a JSON text outside its strings; a reply has some hundreds, and ten for each field
of its response schema."""
_LONG = 200
"""From so many characters on it pays to call the other encoder."""


def quoted(text: str) -> str:
    """A string as JSON, with no escapes for non-ASCII."""
    if len(text) < _LONG:
        return encode_basestring(text)
    try:
        return to_json(text).decode()
    except PydanticSerializationError:
        return encode_basestring(text)  # half a surrogate pair, which has no UTF-8


def is_dense(text: bytes) -> bool:
    """Whether a JSON text has so much outside its strings that reading it could fill the memory.

    An array of zeros of 8 MB takes gigabytes where each of them is a fault that is to be told.
    """
    if len(text) <= MOST_STRUCTURE:
        return False
    plain = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    if plain.count(b'"') > 2 * MOST_STRUCTURE:
        return True
    return sum(map(len, plain.split(b'"')[::2])) > MOST_STRUCTURE


def indented(value: Any, margin: str = "\n") -> str:
    """What `json.dumps(value, ensure_ascii=False, indent=1)` gives.

    Args:
        value: Objects with text keys, arrays and scalars.
        margin: The line break before the value's last bracket.
    """
    if isinstance(value, str):
        return quoted(value)
    if type(value) is int:
        return repr(value)
    inner = f"{margin} "
    if isinstance(value, dict) and value:
        fields = [f"{quoted(name)}: {indented(item, inner)}" for name, item in value.items()]
        return f"{{{inner}{f',{inner}'.join(fields)}{margin}}}"
    if isinstance(value, list) and value:
        items = [indented(item, inner) for item in value]
        return f"[{inner}{f',{inner}'.join(items)}{margin}]"
    return json.dumps(value)


def canonical(value: Any) -> str:
    """What `json.dumps` gives with sorted keys, no spaces, no escapes for non-ASCII and no NaN."""
    return "".join(_CANONICAL(value, 0))


_CANONICAL: Any = c_make_encoder(
    None, JSONEncoder().default, quoted, None, ":", ",", True, False, False
)
"""`json`'s own encoder, which lets nobody else quote the strings when it is made by `json.dumps`."""


KEY_VERSION = 1
"""Raised when the same request gets another key, so that old stores say why they miss."""

NOT_IN_THE_KEY = (
    "api_key",
    "headers",
    "timeout",
    "retries",
    "concurrency",
    "mode",
    "budget and prices",
    "step",
    "user and password in api_base",
)

BASELINE = "extractive/baseline"
BASELINE_VERSION = 3
"""Raised when the embedded baseline answers the same request otherwise."""

_RENAMED = {"extensions": "extra", "cache": "prompt_cache"}
_PORTS = {"http": 80, "https": 443}


class ChatMessage(Record):
    """One message of a conversation; text only."""

    role: Literal["system", "user", "assistant"]
    content: str


class Ask(Record):
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
        return sha256_of({"key_version": KEY_VERSION, **self.model_dump(mode="json")})

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy without the key, which would be that of the original."""
        copied = super().model_copy(update=update, deep=deep)
        vars(copied).pop("key", None)
        return copied

    @property
    def task(self) -> str | None:
        """Name of the response schema, which is the name of the DSPy signature."""
        response_format = self.parameters.get("response_format")
        name = response_format.get("name") if isinstance(response_format, dict) else None
        return name if isinstance(name, str) else None

    @property
    def is_sendable(self) -> bool:
        """Whether it has a body, and parameters that leave its model and messages alone.

        A request from a foreign store may have any; one of ours always is.
        """
        parameters, extra = self.parameters, self.parameters.get("extra", {})
        if not isinstance(extra, dict) or {"model", "messages"} & (parameters.keys() | extra):
            return False
        longest, form = parameters.get("max_tokens", 1), parameters.get("response_format", {})
        return type(longest) is int and longest > 0 and isinstance(form, dict)

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
            else:
                body[parameter] = value
        return body


def _wire_format(response_format: dict[str, Any]) -> dict[str, Any]:
    """From DSPy's shape of a response format to that of the chat-completions protocol."""
    if response_format.get("type") != "json_schema":
        return response_format
    schema = {name: value for name, value in response_format.items() if name != "type"}
    return {"type": "json_schema", "json_schema": schema}


def ask_from(request: "Request", *, endpoint: str, sample: int | None) -> Ask:
    """Make the canonical form of a DSPy request.

    Raises:
        FatalModelError: The request holds something other than text.
    """
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
    parameters = {}
    # Every field of the configuration, not a list of known ones: a field that a later
    # DSPy adds must not be able to change the reply behind the key's back.
    for field in dataclasses.fields(request.config):
        value = _plain(getattr(request.config, field.name))
        if value not in (None, [], {}):
            parameters[_RENAMED.get(field.name, field.name)] = value
    if request.tools:
        parameters["tools"] = [_plain(tool) for tool in request.tools]
    return Ask(
        model=request.model,
        endpoint=endpoint,
        messages=tuple(messages),
        parameters=parameters,
        sample=sample,
    )


def endpoint_identity(model: str, api_base: str | None, section: str = "[model]") -> str:
    """Say where requests go, without credentials: a normalised URL, or the provider's own endpoint.

    Of the embedded baseline it is the version: what it answers changes with nothing else.
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
    names = (f"{prefix}_API_BASE", f"{prefix}_BASE_URL")
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def canonical_json(value: Any) -> str:
    """The one JSON text of a value: keys sorted, no spaces, no escapes for non-ASCII."""
    return canonical(value)


def sha256_of(value: Any) -> str:
    """SHA-256 of a value's canonical JSON, as 64 hexadecimal digits."""
    # A lone surrogate in a text has no UTF-8; it is hashed as it stands rather than refused.
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


def _text_of(parts: Any) -> str:
    texts = []
    for part in parts:
        if part.type != "text" or getattr(part, "continuation", ()):
            raise FatalModelError(f"a {part.type} part cannot be sent: only text goes")
        texts.append(part.text)
    return "".join(texts)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, (dict, Mapping)):
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
