"""JSON text exactly as Python's `json` writes it, several times as fast where strings are long.

Prompts and keys are long strings for the most part, which `json` escapes a character at a time.
"""

import json
from json.encoder import JSONEncoder, c_make_encoder, encode_basestring  # type: ignore[attr-defined]
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

MOST_STRUCTURE = 2**19
"""Characters of a JSON text outside its strings; a reply has some hundreds, and ten for each field
of its response schema."""
_LONG = 200
"""From so many characters on it pays to call the other encoder."""


def quoted(text: str) -> str:
    """A string as JSON, with no escapes for non-ASCII."""
    if len(text) < _LONG:
        return encode_basestring(text)
    try:
        return to_json(text).decode()
    except PydanticSerializationError:
        return encode_basestring(text)  # half a surrogate pair, which has no UTF-8


def is_dense(text: bytes) -> bool:
    """Whether a JSON text has so much outside its strings that reading it could fill the memory.

    An array of zeros of 8 MB takes gigabytes where each of them is a fault that is to be told.
    """
    if len(text) <= MOST_STRUCTURE:
        return False
    plain = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    if plain.count(b'"') > 2 * MOST_STRUCTURE:
        return True
    return sum(map(len, plain.split(b'"')[::2])) > MOST_STRUCTURE


def indented(value: Any, margin: str = "\n") -> str:
    """What `json.dumps(value, ensure_ascii=False, indent=1)` gives.

    Args:
        value: Objects with text keys, arrays and scalars.
        margin: The line break before the value's last bracket.
    """
    if isinstance(value, str):
        return quoted(value)
    if type(value) is int:
        return repr(value)
    inner = f"{margin} "
    if isinstance(value, dict) and value:
        fields = [f"{quoted(name)}: {indented(item, inner)}" for name, item in value.items()]
        return f"{{{inner}{f',{inner}'.join(fields)}{margin}}}"
    if isinstance(value, list) and value:
        items = [indented(item, inner) for item in value]
        return f"[{inner}{f',{inner}'.join(items)}{margin}]"
    return json.dumps(value)


def canonical(value: Any) -> str:
    """What `json.dumps` gives with sorted keys, no spaces, no escapes for non-ASCII and no NaN."""
    return "".join(_CANONICAL(value, 0))


_CANONICAL: Any = c_make_encoder(
    None, JSONEncoder().default, quoted, None, ":", ",", True, False, False
)
"""`json`'s own encoder, which lets nobody else quote the strings when it is made by `json.dumps`."""
