"""Which engine answers a model's name, and what its errors mean.

The embedded baseline answers `extractive/baseline`; DSPy's native client those providers that it
knows; LiteLLM all others. Each makes exactly one attempt: retries are `attempts.py`'s.
"""

import json
import os
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from freshstack_dspy.config import ModelConfig
from freshstack_dspy.errors import FatalModelError
from freshstack_dspy.lm.provider.connection import NoReplyError, UnsendableError
from freshstack_dspy.lm.provider.errors import did_not_answer, explained
from freshstack_dspy.lm.provider.raw_text import with_raw_text
from freshstack_dspy.lm.provider.transport import Transport, watched
from freshstack_dspy.lm.request import BASELINE, base_from_environment

if TYPE_CHECKING:
    from dspy.lm15 import Request, Response

NO_ANSWER = (AttributeError, LookupError, TypeError, ValueError, RecursionError, ImportError)
"""What the clients raise on a body that is no chat completion, or for want of a package."""


class Provider(Protocol):
    """Whatever answers one request, once."""

    def complete(self, request: "Request") -> "Response":
        """Answer one request or raise."""
        ...


def provider_for(model: ModelConfig) -> Provider:
    """Choose the engine for a model.

    Raises:
        FatalModelError: The name has no provider, as `openai/…`.
    """
    if model.name == BASELINE:
        return BaselineProvider()
    prefix, slash, name = model.name.partition("/")
    if prefix == BASELINE.partition("/")[0]:
        raise FatalModelError(f"there is no {model.name}; the only embedded model is {BASELINE}")
    if not (prefix and slash and name):
        raise FatalModelError(
            f"[model] name is {model.name!r}; it takes a provider and a model, as openai/gpt-4o, "
            f"anthropic/…, hosted_vllm/…, or {BASELINE}, which needs no network"
        )
    return _native(model) or _through_litellm(model)


class BaselineProvider:
    """The embedded model: it reads the JSON of the prompt and answers by counting words."""

    def complete(self, request: "Request") -> "Response":
        """Answer from the request's own texts."""
        from dspy.lm15 import Message, Response, Usage

        from freshstack_dspy.lm import baseline

        task = str((request.config.response_format or {}).get("name"))
        *history, last = [message.text or "" for message in request.messages]
        try:
            turns = [json.loads(text) for text in history]
            demos = list(zip(turns[::2], turns[1::2], strict=True))
            inputs = json.loads(last)
        except ValueError:
            raise FatalModelError(
                f"{BASELINE} answers the programs of this package only; "
                "for other prompts name a real model in [model] name"
            ) from None
        text = json.dumps(baseline.reply(task, inputs, demos), ensure_ascii=False)
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant(text),
            finish_reason="stop",
            usage=Usage(input_tokens=0, output_tokens=0),
        )


class NetworkProvider:
    """An engine over the network, with its errors told apart by whether asking again can help."""

    def __init__(self, engine: Any, transport: Any, model: ModelConfig) -> None:
        self._engine = engine
        self._transport = transport
        self._model = model

    def complete(self, request: "Request") -> "Response":
        """Ask once.

        Raises:
            FatalModelError: No key, no access, unknown model.
            ReplyError: This one request was refused, as one that is too long.
            TransientModelError: Rate limit, timeout, dropped connection, server error, a reply
                that is none; with `retry_after` in seconds where the server named it.
        """
        from dspy import lm15

        with watched(self._model.timeout) as wire:
            try:
                response: Response = self._engine.complete(request)
            except (lm15.LM15Error, NoReplyError, UnsendableError, *NO_ANSWER) as error:
                raise explained(error, wire, self._model) from None
        if _is_nothing(response):
            raise did_not_answer("there is no reply in what it sent", self._model)
        return with_raw_text(response)

    def close(self) -> None:
        """Close the connections."""
        self._engine.close()
        self._transport.close()


def _is_nothing(response: "Response") -> bool:
    """What the clients make of a JSON body without any reply: no text, and nothing counted."""
    counted = (response.usage.input_tokens, response.usage.output_tokens)
    parts = response.message.parts
    return counted == (None, None) and all(part.type == "text" and not part.text for part in parts)


def _native(model: ModelConfig) -> NetworkProvider | None:
    """DSPy's own client over our transport, or None for a provider that it does not know."""
    from dspy.clients.engines import LM15Engine
    from dspy.lm15 import RouterConfig, UnknownModelError, UnsupportedFeatureError

    base = model.api_base or base_from_environment(model.name)
    try:
        provider = LM15Engine(RouterConfig(env={})).resolve(model.name).provider
    except (UnknownModelError, UnsupportedFeatureError):
        return None
    if base and (provider.startswith("azure") or "@" in urlsplit(base).netloc):
        return None  # an address with further parts or a password, which LiteLLM knows to use
    keys = {provider: model.api_key.get_secret_value()} if model.api_key else {}
    if base and not keys and not _has_key_in_environment(model.name):
        keys = {provider: "none"}  # a local server takes any key, and the client insists on one
    transport = Transport()
    config = RouterConfig(
        api_keys=keys, base_urls={provider: base} if base else {}, transport=transport
    )
    return NetworkProvider(LM15Engine(config), transport, model)


def _has_key_in_environment(name: str) -> bool:
    return bool(os.environ.get(f"{name.partition('/')[0].upper()}_API_KEY"))


def _through_litellm(model: ModelConfig) -> NetworkProvider:
    """LiteLLM over our transport."""
    from freshstack_dspy.lm.provider.through_litellm import litellm_engine, litellm_transport

    return NetworkProvider(litellm_engine(model), litellm_transport, model)
