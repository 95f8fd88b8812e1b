"""What a model takes: parameters, limits, how strictly it holds a reply to a schema (see also `prices`).

The source is the table in LiteLLM's wheel, read as a file (LiteLLM is not imported, nothing is
fetched), with a few rules of providers that the table lacks. A model that is not in the table is
assumed to be like models of the same name at other providers.
"""

import functools
import importlib.util
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from freshstack_dspy.config import ModelConfig, Structured
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.lm.request import BASELINE, COMMAND, base_from_environment, remembered
from freshstack_dspy.lm.schemas import fits_strict_modes, in_order, in_strict_form, without
from freshstack_dspy.records import Record

if TYPE_CHECKING:
    from dspy.lm15 import Config, Request

_TABLE = "model_prices_and_context_window_backup.json"
_CHAT = ("chat", "responses")

TEMPERATURE = 0.1
"""The default for models that take a temperature and do not think."""
LONGEST_ANSWER = 4096
"""Tokens of a reply, thoughts aside, where nobody says how long it may be."""
THOUGHTS = {
    "none": 0,
    "minimal": 2_048,
    "low": 8_192,
    "medium": 16_384,
    "high": 32_768,
    "xhigh": 49_152,
    "max": 49_152,
}
"""Tokens for thoughts on top of those for the answer, by `reasoning_effort`."""
_MOST_OF_UNKNOWN = 16_384
"""Tokens of a reply of an unknown model in the cloud."""

_OPENAI_NAME = re.compile(r"(ft:)?(o\d|gpt-[5-9]|gpt-\d\d|codex|computer-use|chat-latest)")
"""Names of models that refuse what others ignore, at any provider."""
_LOCAL = (
    "hosted_vllm vllm ollama ollama_chat sglang llamafile lm_studio xinference fireworks_ai"
).split()
"""Servers that constrain a reply by a grammar of any schema."""
_STRICT = ("openai", "azure", "openrouter", "xai", "mistral", "cerebras")
"""Providers that enforce a schema where they are asked to be `strict`."""
_OBJECT_ONLY = ("deepseek", "zai")
"""Providers that take a schema and do not hold the reply to it."""
_COMPILED = (*_STRICT, "groq", "anthropic", "gemini", "vertex_ai", "azure_ai", "bedrock")
"""Providers that compile a schema themselves, and refuse bounds or give up on too many of them."""
_BY_GRAMMAR = ("hosted_vllm", "vllm", "llamafile", "ollama", "ollama_chat")
"""Local servers that turn a schema into a grammar; the schema may list the items of an array."""
_BY_OUTLINES = ("lm_studio",)
"""Servers that may decode with outlines: each string with a `maxLength` takes it seconds and GBs."""


class Capabilities(Record):
    """What one model takes."""

    thinks: bool
    """Whether it writes thoughts before its answer when it is asked as configured."""
    samples: bool
    """Whether it takes `temperature` and `top_p`."""
    efforts: tuple[str, ...] | None
    """The values of `reasoning_effort` that it takes; None: not known."""
    max_output: int | None
    """Most tokens of a reply, with its thoughts; None: not known."""
    context: int | None
    """Tokens of its input, which at some providers its reply is part of; None: not known."""
    structured: Structured
    """How a reply's schema is asked for."""
    strict: bool = False
    """Whether a schema has to be asked for as `strict` to be enforced."""
    bounds: bool = True
    """Whether a schema may bound lengths and numbers."""
    budgets: bool = False
    """Whether DSPy's client adds the tokens for thoughts to `max_tokens` by itself."""
    model: ModelConfig

    def reply_tokens(self, answer: int = LONGEST_ANSWER) -> int:
        """`max_tokens` of a call: the user's own, or those of the answer plus the thoughts."""
        if self.model.max_tokens is not None:
            return self.model.max_tokens
        thoughts = THOUGHTS[self.model.reasoning_effort or "medium"] if self.thinks else 0
        if self.budgets:
            return min(answer, (self.max_output or answer + thoughts) - thoughts)
        if self.context is not None:  # the rest is for the prompt
            answer = min(answer, self.context // 2, max(LONGEST_ANSWER, self.context // 16))
            thoughts = min(thoughts, self.context // 4)
        return min(answer + thoughts, self.max_output or answer + thoughts)

    def fitted(self, request: "Request") -> "Request":
        """A request with the defaults of this model, and without what it does not take."""
        return replace(request, config=remembered(_fitted, self, request.config))

    def fitted_config(self, config: "Config") -> "Config":
        """The same of what is asked besides the messages."""
        from dspy.lm15 import Reasoning

        model = self.model
        sampling = {
            "temperature": config.temperature,
            "top_p": model.top_p if config.top_p is None else config.top_p,
        }
        if sampling["temperature"] is None:
            quiet = TEMPERATURE if self.samples and not self.thinks else None
            sampling["temperature"] = quiet if model.temperature is None else model.temperature
        if not self.samples:
            sampling = dict.fromkeys(sampling)
        reasoning = config.reasoning
        if reasoning is None and model.reasoning_effort is not None:
            effort: Any = {"none": "off"}.get(model.reasoning_effort, model.reasoning_effort)
            reasoning = Reasoning(effort=effort)
        most = config.max_tokens or self.reply_tokens()
        return replace(
            config,
            **sampling,
            max_tokens=min(most, self.max_output or most),
            reasoning=reasoning,
            response_format=self.response_format(config.response_format),
        )

    def response_format(self, asked: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """The request for a schema, in DSPy's shape; None: the prompt alone asks."""
        if asked is None or self.structured == "none":
            return None
        if self.structured == "json_object":
            return {"type": "json_object"}
        if asked.get("type") != "json_schema":
            return dict(asked)
        provider, schema = self.model.name.partition("/")[0], asked["schema"]
        if provider in _BY_OUTLINES:
            schema = without(schema, "maxLength")
        elif provider in _BY_GRAMMAR:
            schema = in_order(schema)
        elif not self.bounds:
            schema = in_strict_form(schema)
            if fits_strict_modes(schema):
                return {**asked, "schema": schema, **({"strict": True} if self.strict else {})}
            if provider == "anthropic":
                return None
        return {**asked, "schema": schema}


@functools.lru_cache(maxsize=256)
def _fitted(capabilities: Capabilities, config: "Config") -> "Config":
    return capabilities.fitted_config(config)


def entry_of(model: str) -> dict[str, Any]:
    """The table's entry, or none; under a bare name only if it is this provider's."""
    provider, _, name = model.partition("/")
    entry = _entry(model)
    if not entry and name:
        bare = _entry(name)
        entry = bare if bare.get("litellm_provider", "").startswith(provider) else {}
    return entry


def capabilities_of(model: ModelConfig) -> Capabilities:
    """What a model takes, including what its configuration says.

    Raises:
        ConfigError: The configuration sets what the model does not take.
    """
    capabilities = _of_this_machine(model) or _by_table(model)
    _check_settings(model, capabilities)
    return capabilities


def _of_this_machine(model: ModelConfig) -> Capabilities | None:
    """The baseline, which takes all, or a command, which is given the prompt alone."""
    is_command = model.name.startswith(COMMAND)
    if model.name != BASELINE and not is_command:
        return None
    return Capabilities(
        thinks=False,
        samples=not is_command,
        efforts=() if is_command else None,
        max_output=None,
        context=model.context,
        structured="none" if is_command else model.structured or "json_schema",
        model=model,
    )


def _by_table(model: ModelConfig) -> Capabilities:
    provider, entry = model.name.partition("/")[0], entry_of(model.name)
    is_openai = bool(_OPENAI_NAME.match(_last(model.name).rpartition("openai.")[2]))
    maker = entry_of(f"openai/{_last(model.name)}") if is_openai or provider == "azure" else {}
    if entry:  # what the table leaves out of another provider's entry is as at OpenAI
        entry = {**maker, "default_reasoning_effort": None, **entry}
    alike = [entry] if entry else _namesakes(model.name)
    if provider == "openai" and not alike and (model.api_base or base_from_environment(model.name)):
        provider = _LOCAL[0]  # a server that speaks OpenAI's protocol
    unknown = not alike and provider in ("openai", "azure")  # a deployment of Azure has any name

    def says(key: str, value: Any = True) -> bool:
        return any(each.get(key) == value for each in alike)

    reasons = is_openai or says("supports_reasoning")
    efforts = _efforts([*alike, maker], is_openai=is_openai) if reasons else () if entry else None
    is_claude = "claude" in model.name
    by_itself = not (
        says("default_reasoning_effort", "none")
        or (is_claude and not (says("thinking_always_on") or says("thinking_on_by_default")))
        or (provider == "mistral" and "none" in (efforts or ()))
    )
    effort = model.reasoning_effort
    thinks = unknown or (effort != "none" if effort else reasons and by_itself)
    is_fixed = (is_openai or is_claude) and thinks
    return Capabilities(
        thinks=thinks,
        samples=not (says("supports_sampling_params", False) or is_fixed),
        efforts=efforts,
        max_output=entry.get("max_output_tokens") or (_MOST_OF_UNKNOWN if unknown else None),
        context=model.context or entry.get("max_input_tokens") or None,
        structured=model.structured or _structured(provider, entry),
        strict=provider in _STRICT or (provider == "groq" and "gpt-oss" in model.name),
        bounds=provider not in _COMPILED,
        budgets=provider == "anthropic" and not says("supports_adaptive_thinking"),
        model=model,
    )


def _structured(provider: str, entry: Mapping[str, Any]) -> Structured:
    """How strictly a provider holds a reply to a schema, from the table if it says."""
    if provider in _OBJECT_ONLY:
        return "json_object"
    native = bool(entry.get("supports_native_structured_output"))
    takes = not entry or native or bool(entry.get("supports_response_schema"))
    if provider == "groq":
        return "json_schema" if entry and takes else "json_object"
    if provider == "anthropic":
        takes = not entry or native
    return "json_schema" if (takes and provider != "cohere") or provider in _LOCAL else "none"


def _efforts(alike: list[dict[str, Any]], *, is_openai: bool) -> tuple[str, ...] | None:
    for each in alike:
        if each.get("reasoning_effort_levels"):
            return tuple(each["reasoning_effort_levels"])
    stated = {
        effort: each[key]
        for each in alike
        for effort in THOUGHTS
        if (key := f"supports_{effort}_reasoning_effort") in each
    }
    if not stated:
        return None
    always = ("low", "medium", "high") if is_openai else tuple(THOUGHTS)
    return tuple(effort for effort in THOUGHTS if stated.get(effort, effort in always))


def _check_settings(model: ModelConfig, takes: Capabilities) -> None:
    """Refuse settings that the model does not take; models sample at 1 by default."""
    fault, effort = "", model.reasoning_effort
    if not takes.samples and model.temperature not in (None, 1):
        fault = f"temperature is {model.temperature:g}: {model.name} takes none; leave it out"
    elif not takes.samples and model.top_p not in (None, 1):
        fault = f"top_p is {model.top_p:g}: {model.name} takes none; leave it out"
    elif effort and takes.efforts and effort not in takes.efforts:
        allowed = ", ".join(takes.efforts)
        fault = f"reasoning_effort is {effort!r}: {model.name} takes {allowed}"
    elif effort not in (None, "none") and takes.efforts == ():
        fault = f"reasoning_effort is {effort!r}: {model.name} does not reason; leave it out"
    elif model.max_tokens and takes.max_output and model.max_tokens > takes.max_output:
        most = f"{model.name} writes at most {takes.max_output:,}; lower it"
        fault = f"max_tokens is {model.max_tokens:,}: {most}"
    if fault:
        raise ConfigError(f"{model.section} {fault}")


def longest_input_of(model: str) -> int | None:
    """How many tokens a model takes, or None where the table does not say."""
    most = entry_of(model).get("max_input_tokens")
    return most if isinstance(most, int) and most > 0 else None


@functools.lru_cache(maxsize=1)
def table() -> dict[str, Any]:
    """LiteLLM's table of models, unchanged."""
    spec = importlib.util.find_spec("litellm")
    if spec is None or spec.origin is None:
        return {}
    table: dict[str, Any] = json.loads((Path(spec.origin).parent / _TABLE).read_bytes())
    return table


def _entry(name: str) -> dict[str, Any]:
    entry: dict[str, Any] = table().get(name) or {}
    return table().get(entry["alias_of"], {}) if "alias_of" in entry else entry


@functools.lru_cache(maxsize=1)
def _by_last_name() -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for name, entry in table().items():
        if entry.get("mode") in _CHAT:
            names.setdefault(_last(name), []).append(name)
    return names


def _last(name: str) -> str:
    """A model's name without provider and organisation, in one spelling."""
    return name.rpartition("/")[2].lower().replace(":", "-")


def _namesakes(name: str) -> list[dict[str, Any]]:
    """The entries of models with this name at any provider, also with a tag such as `:free`."""
    names, last = _by_last_name(), _last(name)
    others = names.get(last) or names.get(_last(name.partition(":")[0]), [])
    return [_entry(other) for other in others]


# How many tokens fit into a request and its reply, in the words of servers

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
    """How many tokens the context holds, if such a message says."""
    match = _WINDOWS.search(refusal)
    number = next(filter(None, match.groups()), None) if match else None
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
    listed = [model for model in data if isinstance(model, dict)] if isinstance(data, list) else []
    named = [model for model in listed if model.get("id") == name]
    for model in named or (listed if len(listed) == 1 else ()):
        meta = model.get("meta")
        fields = {**(meta if isinstance(meta, dict) else {}), **model}
        for field in (*_LISTED, *_TRAINED):
            if type(fields.get(field)) is int and fields[field] > 0:
                return int(fields[field])
    return None


def context_in(text: str) -> int | None:
    """The tokens that a recorded answer to this question names."""
    tokens = json.loads(text).get("context")
    return tokens if type(tokens) is int and tokens > 0 else None
