"""Which engine answers a model's name, and what its errors mean.

The embedded baseline answers `extractive/baseline`; DSPy's native client those providers that it
knows; LiteLLM all others. Each makes exactly one attempt: retries are `attempts.py`'s.
"""

import json
import os
import re
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from freshstack_dspy.config import ModelConfig
from freshstack_dspy.errors import FatalModelError, ModelError, ReplyError, TransientModelError
from freshstack_dspy.lm.redaction import presentable
from freshstack_dspy.lm.request import BASELINE, base_from_environment

if TYPE_CHECKING:
    from dspy.lm15 import Request, Response

_CONNECT_SECONDS = 10.0
_SPARE_CONNECTIONS = 8
_UNREADABLE = (AttributeError, KeyError, IndexError, TypeError, ValueError)
"""What the clients raise on a body that is JSON but no chat completion."""


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
    return NetworkProvider(_native(model) or _litellm(model), model)


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

    def __init__(self, engine: Any, model: ModelConfig) -> None:
        self._engine = engine
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

        try:
            response: Response = self._engine.complete(request)
        except lm15.LM15Error as error:
            raise _explained(error, self._model) from None
        except ImportError as error:
            raise FatalModelError(f"{self._model.name} cannot be asked: {error}") from error
        except _UNREADABLE as error:
            said = presentable(f"{type(error).__name__}: {error}", self._model)
            raise TransientModelError(
                f"{self._model.name} did not answer: its reply cannot be read: {said}"
            ) from error
        if _is_nothing(response):
            raise TransientModelError(f"{self._model.name} did not answer: there is no reply in it")
        return response

    def close(self) -> None:
        """Close the connections."""
        self._engine.close()


def _is_nothing(response: "Response") -> bool:
    """What the clients make of a JSON body without any reply: no text, and nothing counted."""
    counted = (response.usage.input_tokens, response.usage.output_tokens)
    parts = response.message.parts
    return counted == (None, None) and all(part.type == "text" and not part.text for part in parts)


def _native(model: ModelConfig) -> Any | None:
    """DSPy's own client, or None for a provider that it does not know."""
    from dspy.clients.engines import LM15Engine
    from dspy.lm15 import RouterConfig, Timeouts, UnknownModelError, UnsupportedFeatureError

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
    return LM15Engine(
        RouterConfig(
            api_keys=keys,
            base_urls={provider: base} if base else {},
            timeouts=Timeouts(
                connect=_CONNECT_SECONDS,
                read=model.timeout,
                write=model.timeout,
                pool=model.timeout,
            ),
            max_connections=model.concurrency + _SPARE_CONNECTIONS,
        )
    )


def _has_key_in_environment(name: str) -> bool:
    return bool(os.environ.get(f"{name.partition('/')[0].upper()}_API_KEY"))


def _litellm(model: ModelConfig) -> Any:
    from freshstack_dspy.lm.through_litellm import litellm_engine

    return litellm_engine(model)


def _explained(error: Any, model: ModelConfig) -> ModelError:
    from dspy import lm15

    said = presentable(str(error), model)
    fatal = _fatal_reason(error, model.name)
    if fatal is not None:
        return FatalModelError(f"{fatal} ({said})")
    if isinstance(error, lm15.InvalidRequestError):
        refused = bool(re.search(r"content.?(filter|policy|management)", said, re.IGNORECASE))
        return ReplyError(
            f"{model.name} refused the request: {said}",
            status="refused" if refused else "failed",
            call_id=None,
        )
    transient = TransientModelError(f"{model.name} did not answer: {said}")
    transient.retry_after = getattr(error, "retry_after", None)
    return transient


def _fatal_reason(error: Any, name: str) -> str | None:
    """Why no retry can help, and what to do; None where one can."""
    from dspy import lm15

    key = f"{name.partition('/')[0].upper()}_API_KEY"
    unknown = f"{name} is not known where it was asked for"
    reasons: tuple[tuple[type[Exception], str], ...] = (
        (lm15.NotConfiguredError, f"no key for {name}: set {key} in the environment"),
        (lm15.AuthError, f"{name} refused the key: check {key}"),
        (lm15.BillingError, f"{name} is not paid for"),
        (lm15.UnsupportedModelError, unknown),
        (lm15.UnknownModelError, unknown),
        (lm15.ConfigurationError, f"{name} cannot be asked: check [model]"),
        (
            lm15.CapabilityError,
            f'{name} cannot be asked: if it is the response format, set [model] structured = "none"',
        ),
    )
    for kind, reason in reasons:
        if isinstance(error, kind):
            return reason
    return unknown if getattr(error, "status", None) == 404 else None
