"""Whether a text fits the response schema of the request that it is to answer.

A reply that is imported is used as it is; what is typed by hand is better looked at first. This
looks at the shape alone: what depends on the request's inputs is found when the reply is used.
"""

import functools
import json
from typing import Any

from freshstack_dspy.lm.request import Ask, canonical_json
from freshstack_dspy.lm.typed.conversation import unfenced

_LONGEST = 200


def fault_in(ask: Ask, text: str) -> str | None:
    """Say in one line how a text does not fit its request, or return None if it does.

    Args:
        ask: The request; one that asks for no JSON takes any text.
        text: The reply; one Markdown fence around it is not counted against it.
    """
    wanted = ask.parameters.get("response_format")
    if not isinstance(wanted, dict) or wanted.get("type") not in ("json_schema", "json_object"):
        return None
    try:
        value = json.loads(unfenced(text), parse_constant=_refuse)
        canonical_json(value).encode()
    except (ValueError, RecursionError):
        return "not JSON: it must be one JSON object and nothing else"
    if not isinstance(value, dict):
        return "not a JSON object"
    schema = wanted.get("schema")
    return _misfit(value, schema) if isinstance(schema, dict) else None


def _misfit(value: dict[str, Any], schema: dict[str, Any]) -> str | None:
    from jsonschema.exceptions import SchemaError, best_match  # type: ignore[import-untyped]

    try:
        error = best_match(_validator(canonical_json(schema)).iter_errors(value))
    except SchemaError:
        return None  # not a schema, so nothing can be held against it
    if error is None:
        return None
    said = " ".join(ascii(error.message)[1:-1].split())
    return f"{error.json_path.removeprefix('$').removeprefix('.') or 'it'}: {said}"[:_LONGEST]


@functools.lru_cache(maxsize=32)
def _validator(schema: str) -> Any:
    from jsonschema import Draft202012Validator, validators  # type: ignore[import-untyped]

    # JSON Schema takes 1.0 for an integer; the models that read the reply do not.
    types = Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    exactly: Any = validators.extend(Draft202012Validator, type_checker=types)
    loaded = json.loads(schema)
    exactly.check_schema(loaded)
    return exactly(loaded)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
