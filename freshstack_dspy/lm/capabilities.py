"""What a model takes: the parameters of a call, its limits, how strictly it holds a reply to a schema.

Known from the table in LiteLLM's wheel, read as a file (LiteLLM is not imported, nothing is
fetched), and from a few rules of providers that the table does not hold. A model that the table
lacks is taken to be like those of its name at other providers.
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
from freshstack_dspy.lm.request import BASELINE, COMMAND, base_from_environment
from freshstack_dspy.lm.schemas import in_order
from freshstack_dspy.records import Record

if TYPE_CHECKING:
    from dspy.lm15 import Request

_TABLE = "model_prices_and_context_window_backup.json"
_CHAT = ("chat", "responses")

TEMPERATURE = 0.1
"""The default of models that take one and do not think."""
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
"""Tokens of a reply of a model in the cloud that nothing is known of."""

_OPENAI_NAME = re.compile(r"(ft:)?(o\d|gpt-[5-9]|gpt-\d\d|codex|computer-use|chat-latest)")
"""Names of models that refuse what others ignore, at whichever provider."""
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
"""Servers of one's own that make a grammar of a schema, which may list the items of an array."""
_BY_OUTLINES = ("lm_studio",)
"""Servers that may decode with outlines: each string with a `maxLength` takes it seconds and GBs."""
_BOUNDS = frozenset(
    "minLength maxLength pattern format minimum maximum exclusiveMinimum exclusiveMaximum "
    "multipleOf minItems maxItems uniqueItems minProperties maxProperties default".split()
)
_OUTSIDE_STRICT = frozenset(
    "allOf oneOf not if then else patternProperties dependentRequired dependentSchemas "
    "propertyNames contains prefixItems unevaluatedProperties".split()
)


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
        """`max_tokens` of a call whose answer takes so many: the user's own, or with thoughts."""
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
        from dspy.lm15 import Reasoning

        config, model = request.config, self.model
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
        config = replace(
            config,
            **sampling,
            max_tokens=min(most, self.max_output or most),
            reasoning=reasoning,
            response_format=self.response_format(config.response_format),
        )
        return replace(request, config=config)

    def response_format(self, asked: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """How a schema is asked for, in DSPy's shape; None: by the prompt alone."""
        if asked is None or self.structured == "none":
            return None
        if self.structured == "json_object" or asked.get("type") != "json_schema":
            return {"type": "json_object"} if self.structured != "json_schema" else dict(asked)
        if self.model.name.partition("/")[0] in _BY_OUTLINES:
            return {**asked, "schema": _without_lengths(asked["schema"])}
        if self.model.name.partition("/")[0] in _BY_GRAMMAR:
            return {**asked, "schema": in_order(asked["schema"])}
        if self.bounds:
            return dict(asked)
        wanted: dict[str, Any] = {**asked, "schema": in_strict_form(asked["schema"])}
        fits = fits_strict_modes(wanted["schema"])
        if self.strict and fits:
            wanted["strict"] = True
        is_refused = self.model.name.startswith("anthropic/") and not fits
        return None if is_refused else wanted


def _without_lengths(schema: Any) -> Any:
    def hook(part: dict[str, Any]) -> dict[str, Any]:
        # A property of that name is an object.
        return {key: v for key, v in part.items() if key != "maxLength" or isinstance(v, dict)}

    return json.loads(json.dumps(schema), object_hook=hook)


def in_strict_form(schema: Any) -> Any:
    """A schema as strict modes want it: closed objects, all properties required, no bounds."""
    if isinstance(schema, list | tuple):
        return [in_strict_form(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    strict: dict[str, Any] = {}
    for name, value in schema.items():
        if name in ("properties", "$defs"):  # names here are the signature's own
            strict[name] = {key: in_strict_form(each) for key, each in value.items()}
        elif name == "const":
            strict["enum"] = [value]
        elif name not in _BOUNDS:
            strict[name] = in_strict_form(value)
    if "properties" in strict:
        strict.setdefault("additionalProperties", False)
        strict["required"] = list(strict["properties"])
    return strict


def fits_strict_modes(schema: Any) -> bool:
    """Whether every object of a schema is closed, with all properties required."""
    if isinstance(schema, list | tuple):
        return all(map(fits_strict_modes, schema))
    if not isinstance(schema, Mapping):
        return True
    if _OUTSIDE_STRICT & schema.keys():
        return False
    if schema.get("type") == "object" or "properties" in schema:
        names = schema.get("properties", {}).keys()
        if (
            schema.get("additionalProperties") is not False
            or set(schema.get("required", ())) != names
        ):
            return False
    return all(
        all(map(fits_strict_modes, value.values()))
        if name in ("properties", "$defs")
        else fits_strict_modes(value)
        for name, value in schema.items()
        if name not in ("enum", "required")
    )


def capabilities_of(model: ModelConfig) -> Capabilities:
    """What a model takes, with what its configuration says of it.

    Raises:
        ConfigError: The configuration sets what the model does not take.
    """
    found = _found(model)
    _check(model, found)
    return found


def entry_of(model: str) -> dict[str, Any]:
    """The table's entry, or none; under a bare name only if it is this provider's."""
    provider, _, name = model.partition("/")
    entry = _entry(model)
    if not entry and name:
        bare = _entry(name)
        entry = bare if bare.get("litellm_provider", "").startswith(provider) else {}
    return entry


def _found(model: ModelConfig) -> Capabilities:
    provider, entry = model.name.partition("/")[0], entry_of(model.name)
    if model.name == BASELINE or model.name.startswith(COMMAND):
        return _of_this_machine(model)
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
    by_itself = not (
        says("default_reasoning_effort", "none")
        or (
            "claude" in model.name
            and not (says("thinking_always_on") or says("thinking_on_by_default"))
        )
        or (provider == "mistral" and "none" in (efforts or ()))
    )
    effort = model.reasoning_effort
    thinks = unknown or (effort != "none" if effort else reasons and by_itself)
    fixed = (is_openai or "claude" in model.name) and thinks
    samples = not (says("supports_sampling_params", False) or fixed)
    structured = model.structured or _structured(provider, entry)
    return Capabilities(
        thinks=thinks,
        samples=samples,
        efforts=efforts,
        max_output=entry.get("max_output_tokens") or (_MOST_OF_UNKNOWN if unknown else None),
        context=model.context or entry.get("max_input_tokens") or None,
        structured=structured,
        strict=provider in _STRICT or (provider == "groq" and "gpt-oss" in model.name),
        bounds=provider not in _COMPILED,
        budgets=provider == "anthropic" and not says("supports_adaptive_thinking"),
        model=model,
    )


def _of_this_machine(model: ModelConfig) -> Capabilities:
    """The baseline, which takes all, or a command, which is given the prompt alone."""
    is_command = model.name != BASELINE
    return Capabilities(
        thinks=False,
        samples=not is_command,
        efforts=() if is_command else None,
        max_output=None,
        context=model.context,
        structured="none" if is_command else model.structured or "json_schema",
        model=model,
    )


def _structured(provider: str, entry: Mapping[str, Any]) -> Structured:
    """How far a provider holds a reply to a schema: as the table says, where that is to be had."""
    if provider in _OBJECT_ONLY:
        return "json_object"
    takes = not entry or any(
        entry.get(f"supports_{what}") for what in ("native_structured_output", "response_schema")
    )
    if provider == "groq":
        return "json_schema" if entry and takes else "json_object"
    if provider == "anthropic":
        takes = not entry or bool(entry.get("supports_native_structured_output"))
    return "json_schema" if (takes and provider != "cohere") or provider in _LOCAL else "none"


def _efforts(alike: list[dict[str, Any]], *, is_openai: bool) -> tuple[str, ...] | None:
    for each in alike:
        if each.get("reasoning_effort_levels"):
            return tuple(each["reasoning_effort_levels"])
    said = {
        effort: each[key]
        for each in alike
        for effort in THOUGHTS
        if (key := f"supports_{effort}_reasoning_effort") in each
    }
    if not said:
        return None
    always = ("low", "medium", "high") if is_openai else tuple(THOUGHTS)
    return tuple(effort for effort in THOUGHTS if said.get(effort, effort in always))


def _check(model: ModelConfig, found: Capabilities) -> None:
    def refuse(what: str, why: str) -> None:
        raise ConfigError(f"{model.section} {what}: {model.name} {why}")

    # 1 is what they do by themselves.
    if not found.samples and model.temperature not in (None, 1):
        refuse(f"temperature is {model.temperature:g}", "takes none; leave it out")
    if not found.samples and model.top_p not in (None, 1):
        refuse(f"top_p is {model.top_p:g}", "takes none; leave it out")
    effort, efforts = model.reasoning_effort, found.efforts
    if (
        effort is not None
        and efforts is not None
        and effort not in efforts
        and (efforts or effort != "none")
    ):
        takes = f"takes {', '.join(efforts)}" if efforts else "does not reason; leave it out"
        refuse(f"reasoning_effort is {effort!r}", takes)
    most = found.max_output
    if model.max_tokens is not None and most and model.max_tokens > most:
        refuse(
            f"max_tokens is {model.max_tokens:,}",
            f"writes at most {most:,}; lower it",
        )


def longest_input_of(model: str) -> int | None:
    """How many tokens a model takes, or None where the table does not say."""
    most = entry_of(model).get("max_input_tokens")
    return most if isinstance(most, int) and most > 0 else None


@functools.lru_cache(maxsize=1)
def table() -> dict[str, Any]:
    """LiteLLM's table of models, as it is."""
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
    """The entries of models of a name at any provider, perhaps but for a tag, as `:free`."""
    names, last = _by_last_name(), _last(name)
    others = names.get(last) or names.get(_last(name.partition(":")[0]), [])
    return [_entry(other) for other in others]
