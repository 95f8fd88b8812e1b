"""An embedding or rerank model at a provider, and what it must be told of its texts."""

import os
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pydantic import SecretStr

from freshstack_dspy.lm.request import base_from_environment, endpoint_identity

_ANY_KEY = "none"
"""For a server of one's own, which takes any key where a client insists on one."""


class HostedModel(NamedTuple):
    """Which model is asked, and how; a `Service`."""

    name: str
    """With the provider's, as LiteLLM takes it."""
    section: str
    """Of the configuration, where it is named."""
    api_base: str | None = None
    api_key: SecretStr | None = None
    concurrency: int = 8
    timeout: float = 120
    retries: int = 4

    @property
    def provider(self) -> str:
        """The provider's name."""
        return self.name.partition("/")[0]

    @property
    def endpoint(self) -> str:
        """Where requests go, without credentials; see `endpoint_identity`."""
        return endpoint_identity(self.name, self.api_base, self.section)

    def options(self) -> dict[str, Any]:
        """The arguments for a call of LiteLLM that makes one attempt."""
        options: dict[str, Any] = {
            "model": self.name,
            "timeout": self.timeout,
            "max_retries": 0,
            "num_retries": 0,
        }
        base = self.api_base or base_from_environment(self.name)
        if base:
            options["api_base"] = base
        if self.api_key:
            options["api_key"] = self.api_key.get_secret_value()
        elif base and ("@" in urlsplit(base).netloc or not self._has_key_in_environment()):
            options["api_key"] = _ANY_KEY
        return options

    def _has_key_in_environment(self) -> bool:
        return bool(os.environ.get(f"{self.provider.upper()}_API_KEY"))


class EmbeddingRequest(NamedTuple):
    """Texts that are sent together."""

    texts: tuple[str, ...]
    input_type: str | None = None


class RerankRequest(NamedTuple):
    """Passages that are scored for one text."""

    query: str
    passages: tuple[str, ...]


class InputTypes(NamedTuple):
    """How a provider is told whether a text is searched or searched for."""

    parameter: str
    query: str
    passage: str


_COHERE = InputTypes("input_type", "search_query", "search_document")
_INPUT_TYPES = {
    "cohere": _COHERE,
    "cohere_chat": _COHERE,
    "voyage": InputTypes("input_type", "query", "document"),
    "nvidia_nim": InputTypes("input_type", "query", "passage"),
}


def input_types_of(model: str) -> InputTypes | None:
    """What a model must be told of its texts, or None; others take prefixes, or nothing."""
    provider, _, name = model.partition("/")
    if provider == "bedrock" and "cohere." in name:
        return _COHERE
    return _INPUT_TYPES.get(provider)
