"""Servers of the loopback that refuse what providers refuse, as they do, and judge every chunk."""

import json
from collections.abc import Iterator
from typing import Any

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
    for name in sorted(body.keys() - known - {"stream"}):
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
    stack = [config.get("responseJsonSchema")]
    while stack:
        schema = stack.pop()
        if isinstance(schema, dict):
            yield from (f'Unknown name "{name}"' for name in sorted(schema.keys() - _GEMINI))
            stack += [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
            stack += [schema.get("items"), *schema.get("anyOf", ())]
