"""Seals: an entry of the store begins with the SHA-256 of the rest, so that damage is noticed.

A seal is no signature: whoever edits an entry on purpose can seal it again. What an entry says is
validated in any case, and a reply is only believed under the key of the request beside it.
"""

import hashlib
from typing import Any

from freshstack_dspy.errors import DamagedReplyError
from freshstack_dspy.lm.request import canonical_json

_DIGITS = 64


def sealed(value: Any) -> str:
    """The canonical JSON of a value, with its seal in a line before it."""
    line = canonical_json(value)
    return f"{_seal(line.encode())}\n{line}"


def unsealed(text: bytes) -> bytes:
    """The JSON behind a seal.

    Raises:
        DamagedReplyError: The seal is another's.
    """
    line = text[_DIGITS + 1 :]
    if text[: _DIGITS + 1] != f"{_seal(line)}\n".encode():
        raise DamagedReplyError("damaged or edited by hand")
    return line


def _seal(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()
