"""DSPy's LiteLLM engine, over our transport, and with what it drops: that a reply is a refusal."""

import importlib
import warnings
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import httpx
from dspy.clients.engines import LiteLLMEngine
from dspy.lm15 import Message, RefusalPart, Request, Response, Usage

from freshstack_dspy.config import ModelConfig
from freshstack_dspy.errors import FatalModelError
from freshstack_dspy.lm.provider import telemetry
from freshstack_dspy.lm.provider.over_httpx import OverHttpx
from freshstack_dspy.lm.provider.service import Service
from freshstack_dspy.lm.request import base_from_environment

litellm_transport = OverHttpx()
"""What LiteLLM sends through, whichever model it asks."""


def litellm_engine(model: ModelConfig) -> LiteLLMEngine:
    """An engine for a provider that DSPy's own client does not know.

    Raises:
        FatalModelError: LiteLLM does not know the provider either, or is not installed.
    """
    litellm = imported_litellm(model)
    try:
        litellm.get_llm_provider(model.name)
    except litellm.BadRequestError:
        raise FatalModelError(
            f"[model] name is {model.name!r}, and neither DSPy nor LiteLLM knows its provider, "
            f"{model.name.partition('/')[0]!r}; the known ones are at "
            "https://docs.litellm.ai/docs/providers; for a server of one's own it is hosted_vllm/…"
        ) from None
    options: dict[str, Any] = {"timeout": model.timeout}
    if model.api_key:
        options["api_key"] = model.api_key.get_secret_value()
    if base := model.api_base or base_from_environment(model.name):
        options["api_base"] = base
        if "@" in urlsplit(base).netloc:
            options.setdefault("api_key", "none")  # the password serves, and a client insists
    return _Engine(**options)


def imported_litellm(model: Service) -> Any:
    """LiteLLM as a module, quiet and over our transport.

    Raises:
        FatalModelError: It cannot be imported.
    """
    telemetry.turn_off()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            litellm: Any = importlib.import_module("litellm")

            litellm.ModelResponse()  # Pydantic warns of its types when the first is made
    except ImportError as error:
        raise FatalModelError(f"{model.name} cannot be asked: {error}") from error
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.disable_hf_tokenizer_download = True  # to count tokens, which the replies name
    _send_over_ours(litellm)
    return litellm


def _send_over_ours(litellm: Any) -> None:
    """Let LiteLLM's clients send through our transport, unless the program has chosen others.

    It takes no client for one call that all its providers would use: some want the OpenAI SDK's,
    some a handler of its own. These two settings, which are the process's, reach both; each
    request's own timeout holds.
    """
    if litellm.client_session is None:
        litellm.client_session = httpx.Client(transport=litellm_transport)
    if getattr(litellm, "sync_transport", None) is None:
        litellm.sync_transport = litellm_transport


class _Engine(LiteLLMEngine):
    def complete(self, request: Request) -> Response:
        response: Response = super().complete(request)
        if not response.usage.input_tokens:
            # LiteLLM counts nothing where the provider does not say, and a budget would not end.
            response = replace(response, usage=Usage())
        refusal = _refusal(response.provider_data)
        if refusal is None:
            return response
        return replace(response, message=Message(role="assistant", parts=(RefusalPart(refusal),)))


def _refusal(body: Any) -> str | None:
    """The refusal that LiteLLM moves to a field of its own."""
    for name in ("choices", 0, "message", "provider_specific_fields", "refusal"):
        try:
            body = body[name]
        except (KeyError, IndexError, TypeError):
            return None
    return body if isinstance(body, str) and body else None
