"""How many tokens fit into a request and its reply, in the words of servers."""

import json
import re
from typing import Any

from freshstack_dspy.lm.reply import Reply

_NUMBER = r"\(?(\d[\d,]{2,})"
_WINDOWS = re.compile(
    "|".join(
        (
            # OpenAI, vLLM, DeepSeek, OpenRouter, SGLang, llama.cpp, LM Studio
            rf"context (?:length|size|window)[^.\d]{{0,40}}?{_NUMBER}(?: tokens|\b)",
            rf"maximum model length of {_NUMBER}",
            rf"n_ctx\W{{1,4}}{_NUMBER}",
            rf"{_NUMBER} maximum context length",  # Mistral
            rf"> {_NUMBER} maximum",  # Anthropic
            rf"context limit: [\d+ ]+> {_NUMBER}",
            rf"maximum number of tokens allowed {_NUMBER}",  # Gemini
            rf"cannot exceed {_NUMBER} tokens",  # Cohere
            rf"must be <= {_NUMBER}",  # text-generation-inference, Together
        )
    ),
    re.IGNORECASE,
)
_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|prompt is too long|input is too long"
    r"|exceeds? the (?:model's )?(?:maximum |available )?context|exceed context limit"
    r"|longer than the (?:maximum )?model|maximum context length|maximum number of tokens allowed"
    r"|loaded with context length|reduce the length of|request too large|too many tokens"
    r"|`max_new_tokens` must be|HTTP 413\b",
    re.IGNORECASE,
)


def is_too_long(refusal: str) -> bool:
    """Whether a provider's message says that a request is longer than the model's context."""
    return _TOO_LONG.search(refusal) is not None


def window_in(refusal: str) -> int | None:
    """How many tokens the context holds, where such a message says it."""
    found = _WINDOWS.search(refusal)
    number = next(filter(None, found.groups()), None) if found else None
    return int(number.replace(",", "")) if number else None


_LISTED = ("max_model_len", "loaded_context_length", "n_ctx", "context_length", "context_window")
_TRAINED = ("max_context_length", "n_ctx_train")
"""What the model could take; its server may be started with less."""


def window_listed(models: Any, name: str) -> int | None:
    """How many tokens a model's context holds by a server's `/models`, or None where it says nothing.

    vLLM and SGLang say `max_model_len`, llama.cpp `meta.n_ctx` or `n_ctx_train`, LM Studio
    `loaded_context_length`, others `context_length`.
    """
    data = models.get("data") if isinstance(models, dict) else None
    listed = [one for one in data or () if isinstance(one, dict)] if isinstance(data, list) else []
    named = [one for one in listed if one.get("id") == name] or (listed if len(listed) == 1 else [])
    for model in named:
        meta = model.get("meta")
        fields = {**(meta if isinstance(meta, dict) else {}), **model}
        for field in (*_LISTED, *_TRAINED):
            if type(fields.get(field)) is int and fields[field] > 0:
                return int(fields[field])
    return None


def context_in(reply: Reply | None) -> int | None:
    """The tokens that such a reply names."""
    found = json.loads(reply.text).get("context") if reply is not None else None
    return found if type(found) is int and found > 0 else None
