"""Servers of the loopback that refuse what providers refuse, as they do, and judge every chunk."""

import json
from collections.abc import Iterator
from typing import Any

import llguidance
import outlines_core.json_schema

from .chat_server import Scripted

_CLOSED = "additionalProperties"
_KNOWN = set(
    "type properties required additionalProperties items enum anyOf $ref $defs description".split()
)


def schema_faults(schema: Any, *, where: str = "schema") -> Iterator[str]:
    """What OpenAI's strict mode, Azure's and Anthropic's output format refuse in a schema."""
    if not isinstance(schema, dict):
        return
    yield from (f"{where}: {name} is not permitted" for name in sorted(schema.keys() - _KNOWN))
    if "$ref" in schema and len(schema) > 1:
        yield f"{where}: $ref cannot have keywords beside it"
    if "properties" in schema or schema.get("type") == "object":
        if schema.get(_CLOSED) is not False:
            yield f"{where}: {_CLOSED} is required to be supplied and to be false"
        if set(schema.get("required", ())) != set(schema.get("properties", {})):
            yield f"{where}: required is required to include every key in properties"
    for name in ("properties", "$defs"):
        for key, inner in schema.get(name, {}).items():
            yield from schema_faults(inner, where=f"{where}.{key}")
    yield from schema_faults(schema.get("items"), where=f"{where}[]")
    for inner in schema.get("anyOf", ()):
        yield from schema_faults(inner, where=f"{where}|")


def refusal(message: str, status: int = 400) -> Scripted:
    """An error in the form that all of them share."""
    error = {"error": {"message": message, "type": "invalid_request_error", "code": None}}
    return Scripted(status=status, body=json.dumps(error).encode())


def openai_faults(body: dict[str, Any]) -> Iterator[str]:
    """What the chat completions of OpenAI and Azure refuse, of a model that reasons."""
    known = set("model messages max_completion_tokens reasoning_effort response_format".split())
    for name in sorted(body.keys() - known - {"stream", "n"}):
        yield f"Unsupported parameter: '{name}' is not supported with this model."
    if body.get("stream"):
        yield "no stream was asked for"
    if body.get("max_completion_tokens", 0) > 128_000:
        yield "max_tokens is too large"
    form = body.get("response_format", {})
    if form.get("type") != "json_schema" or form["json_schema"].get("strict") is not True:
        yield "this server is here to see strict schemas"
    else:
        yield from schema_faults(form["json_schema"]["schema"])


def anthropic_faults(body: dict[str, Any]) -> Iterator[str]:
    """What Anthropic's messages refuse, of a model that takes no sampling parameters."""
    known = set("model messages max_tokens system stream output_config thinking".split())
    for name in sorted(body.keys() - known):
        yield f"{name}: Extra inputs are not permitted"
    if "max_tokens" not in body:
        yield "max_tokens: Field required"
    form = body.get("output_config", {}).get("format")
    if form is None or form.keys() != {"type", "schema"}:
        yield "output_config.format: Field required"
    else:
        yield from schema_faults(form["schema"])


_GEMINI = {
    *"type format title description enum items prefixItems minItems maxItems minimum maximum".split(),
    *"anyOf oneOf properties additionalProperties required $id $defs $ref $anchor".split(),
}


def gemini_faults(body: dict[str, Any]) -> Iterator[str]:
    """What Gemini's generateContent refuses."""
    config = body.get("generationConfig", {})
    known = set("maxOutputTokens responseMimeType responseJsonSchema thinkingConfig".split())
    for name in sorted(config.keys() - known):
        yield f'Invalid JSON payload received. Unknown name "{name}"'
    if config.get("responseMimeType") != "application/json":
        yield "responseMimeType: application/json is required with a schema"
    yield from gemini_schema_faults(config.get("responseJsonSchema"))


def gemini_schema_faults(schema: Any) -> Iterator[str]:
    """What Gemini refuses in a schema."""
    if isinstance(schema, dict):
        yield from (f'Unknown name "{name}"' for name in sorted(schema.keys() - _GEMINI))
        inner = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
        for each in [*inner, schema.get("items"), *schema.get("anyOf", ())]:
            yield from gemini_schema_faults(each)


def grammar_faults(body: dict[str, Any]) -> Iterator[str]:
    """What a server refuses that makes a grammar of any schema, as vLLM and llama.cpp do."""
    schema = body["response_format"]["json_schema"]["schema"]
    for fault in compiled(schema):
        yield f"Grammar error: {fault}"


def compiled(schema: Any) -> Iterator[str]:
    """What two grammar compilers say of a schema."""
    grammar = llguidance.LLMatcher.grammar_from_json_schema(schema)
    if fault := llguidance.LLMatcher.validate_grammar(grammar):
        yield fault
    try:
        outlines_core.json_schema.build_regex_from_schema(json.dumps(schema))
    except ValueError as error:
        yield str(error)


def object_only_faults(body: dict[str, Any]) -> Iterator[str]:
    """What DeepSeek refuses, and Groq of most models."""
    if body.get("response_format") != {"type": "json_object"}:
        yield "This response_format type is unavailable now"
    if "json" not in json.dumps(body["messages"]).lower():
        yield "Prompt must contain the word 'json' in some form"
    if body.get("max_tokens", 10**6) > 8192:
        yield "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"


def prompt_alone_faults(body: dict[str, Any]) -> Iterator[str]:
    """What a model refuses that has no structured output."""
    if "response_format" in body or "tools" in body:
        yield "response_format: Extra inputs are not permitted"
