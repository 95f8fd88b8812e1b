"""What a provider says, made fit to be shown: one line, and no key in it."""

import os
from urllib.parse import unquote, urlsplit

from freshstack_dspy.config import ModelConfig
from freshstack_dspy.lm.request import base_from_environment

_LONGEST = 400
_SHORTEST_SECRET = 6
_SECRET_NAMES = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")


def presentable(text: str, model: ModelConfig) -> str:
    """Put a message of a provider on one line, without its secrets and control characters."""
    for secret in sorted(_secrets(model), key=len, reverse=True):
        text = text.replace(secret, "[key]")
    line = " ".join(text.split())
    return "".join(character for character in line if character.isprintable())[:_LONGEST]


def _secrets(model: ModelConfig) -> set[str]:
    """Keys of the environment and the configuration, and the password in an address."""
    found = {value for name, value in os.environ.items() if name.endswith(_SECRET_NAMES)}
    if model.api_key is not None:
        found.add(model.api_key.get_secret_value())
    for part in urlsplit(model.api_base or base_from_environment(model.name) or "").netloc.split(
        "@"
    )[:-1]:
        found |= {part, part.partition(":")[2], unquote(part.partition(":")[2])}
    # A placeholder as "none" is no secret, and would only garble the message.
    return {secret for secret in found if len(secret) >= _SHORTEST_SECRET}
