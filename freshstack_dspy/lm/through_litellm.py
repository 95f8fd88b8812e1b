"""DSPy's LiteLLM engine, with what it drops: how long to wait, and that a reply is a refusal."""

import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from dspy.clients.engines import LiteLLMEngine
from dspy.lm15 import LM15Error, Message, RefusalPart, Request, Response

from freshstack_dspy.config import ModelConfig
from freshstack_dspy.errors import FatalModelError
from freshstack_dspy.lm.request import base_from_environment


def litellm_engine(model: ModelConfig) -> LiteLLMEngine:
    """An engine for a provider that DSPy's own client does not know.

    Raises:
        FatalModelError: LiteLLM does not know the provider either, or is not installed.
    """
    litellm = _imported(model)
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


def _imported(model: ModelConfig) -> Any:
    # It fetches its price table when it is imported, and prints advice, unless told not to.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_LOG", "ERROR")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import litellm

            litellm.ModelResponse()  # Pydantic warns of its types when the first is made
    except ImportError as error:
        raise FatalModelError(f"{model.name} cannot be asked: {error}") from error
    litellm.suppress_debug_info = True
    return litellm


class _Engine(LiteLLMEngine):
    def complete(self, request: Request) -> Response:
        try:
            response: Response = super().complete(request)
        except LM15Error as error:
            if error.retry_after is None:
                error.retry_after = _retry_after(error.__cause__)
            raise
        refusal = _refusal(response.provider_data)
        if refusal is None:
            return response
        return replace(response, message=Message(role="assistant", parts=(RefusalPart(refusal),)))


def _retry_after(error: BaseException | None) -> float | None:
    """Seconds, where the server named them in its header."""
    headers: Mapping[str, str] = getattr(error, "litellm_response_headers", None) or {}
    try:
        seconds = float(headers.get("retry-after", "nan"))
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _refusal(body: Any) -> str | None:
    """The refusal that LiteLLM moves to a field of its own."""
    for name in ("choices", 0, "message", "provider_specific_fields", "refusal"):
        try:
            body = body[name]
        except (KeyError, IndexError, TypeError):
            return None
    return body if isinstance(body, str) and body else None
