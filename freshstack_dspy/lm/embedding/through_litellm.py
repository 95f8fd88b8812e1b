"""LiteLLM's `embedding` and `rerank`: one attempt each, over our transport, its answer validated."""

import warnings
from typing import Any

import httpx
import openai

from freshstack_dspy.errors import FatalModelError, ModelError, ReplyError
from freshstack_dspy.lm.embedding.answers import (
    RefusedError,
    Scores,
    UnusableError,
    Vectors,
    scores_of,
    vectors_of,
)
from freshstack_dspy.lm.embedding.model import (
    EmbeddingRequest,
    HostedModel,
    RerankRequest,
    input_types_of,
)
from freshstack_dspy.lm.provider.choice import NO_ANSWER
from freshstack_dspy.lm.provider.errors import did_not_answer, explained
from freshstack_dspy.lm.provider.redaction import presentable
from freshstack_dspy.lm.provider.through_litellm import imported_litellm, litellm_transport
from freshstack_dspy.lm.provider.transport import Wire, watched

_IN_BASE64 = ("openai", "azure", "hosted_vllm")
"""Providers that take `encoding_format`: JSON numbers take thirty times as long to read."""
_KNOWN_BY_NAME = ("openai", "azure")
"""Providers of which LiteLLM lets only the models it knows shorten their vectors."""
_WARNS_OF_BASE64 = r"(?s)Pydantic serializer warnings:.*list\[float\].*field_name='embedding'"


class LiteLLMEmbedding:
    """Asks for vectors, once."""

    def __init__(self, model: HostedModel, dimensions: int | None) -> None:
        """Prepare.

        Args:
            model: Which.
            dimensions: Of the vectors, where the model is to shorten them.

        Raises:
            FatalModelError: LiteLLM cannot be imported, or does not know the provider.
        """
        self._model = model
        self._litellm = _litellm_for(model)
        self._options: dict[str, Any] = {}
        if dimensions is not None:
            self._options["dimensions"] = dimensions
            if model.provider in _KNOWN_BY_NAME:
                self._options["allowed_openai_params"] = ["dimensions"]
        if model.provider in _IN_BASE64:
            self._options["encoding_format"] = "base64"
            # The OpenAI SDK takes every vector for a list, and LiteLLM has Pydantic write it down.
            warnings.filterwarnings("ignore", _WARNS_OF_BASE64, UserWarning)

    def complete(self, request: EmbeddingRequest, /) -> Vectors:
        """Ask once.

        Raises:
            ModelError: As `NetworkProvider.complete`.
        """
        types = input_types_of(self._model.name)
        told = {types.parameter: request.input_type} if types and request.input_type else {}
        texts = list(request.texts)
        with watched(self._model.timeout, self._model.section) as wire:
            try:
                answer = self._litellm.embedding(
                    input=texts, **self._model.options(), **self._options, **told
                )
                return vectors_of(answer, len(texts))
            except _FAILURES as error:
                raise _explained(error, wire, self._model) from None

    def close(self) -> None:
        """Close the idle connections."""
        litellm_transport.close()


class LiteLLMRerank:
    """Asks for scores, once."""

    def __init__(self, model: HostedModel) -> None:
        """Prepare.

        Raises:
            FatalModelError: LiteLLM cannot be imported, or does not know the provider.
        """
        self._model = model
        self._litellm = _litellm_for(model)

    def complete(self, request: RerankRequest, /) -> Scores:
        """Ask once.

        Raises:
            ModelError: As `NetworkProvider.complete`.
        """
        passages = list(request.passages)
        with watched(self._model.timeout, self._model.section) as wire:
            try:
                answer = self._litellm.rerank(
                    query=request.query,
                    documents=passages,
                    return_documents=False,
                    **self._model.options(),
                )
                return scores_of(answer, len(passages))
            except _FAILURES as error:
                raise _explained(error, wire, self._model) from None

    def close(self) -> None:
        """Close the idle connections."""
        litellm_transport.close()


_FAILURES = (openai.OpenAIError, httpx.HTTPError, UnusableError, *NO_ANSWER)
"""LiteLLM's own errors are the OpenAI SDK's."""


def _litellm_for(model: HostedModel) -> Any:
    litellm = imported_litellm(model)
    try:
        litellm.get_llm_provider(model.name)
    except litellm.BadRequestError:
        raise FatalModelError(
            f"{model.section} model is {model.name!r}, and LiteLLM does not know its provider, "
            f"{model.provider!r}; the known ones are at https://docs.litellm.ai/docs/providers; "
            "for a server of one's own it is hosted_vllm/… with api_base"
        ) from None
    # Its OpenAI client takes a `max_retries` of 0 for none given, and this in its place.
    litellm.DEFAULT_MAX_RETRIES = 0
    return litellm


def _explained(error: Exception, wire: Wire, model: HostedModel) -> ModelError:
    """Say in one line what went wrong."""
    if isinstance(error, UnusableError):
        return did_not_answer(str(error), model)
    said = explained(error, wire, model)
    if isinstance(said, ReplyError):
        return RefusedError(str(said), status=said.status, call_id=None)
    if wire.reply is None and wire.failure is None and not isinstance(said, FatalModelError):
        # Nothing was sent: what LiteLLM does not like of the request, it will not like again.
        message = getattr(error, "message", None) or str(error)
        return FatalModelError(f"{model.name} cannot be asked: {presentable(message, model)}")
    return said
