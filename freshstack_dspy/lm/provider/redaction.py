"""What a provider says, made fit to be shown: one line, and no key in it."""

import base64
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus, unquote, urlsplit

from freshstack_dspy.lm.provider.service import Service
from freshstack_dspy.lm.request import base_from_environment

_LONGEST = 400
_READ = 1 << 18
"""Characters of a message that are looked at; what is behind them is never shown."""
_SHORTEST_SECRET = 6
_TELLING = 12
"""Where a message was cut inside a key, so many characters of it are taken for the key."""
_SECRET_NAME = re.compile(
    r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASS|PAT|CREDENTIALS)(_?\d+)?$", re.IGNORECASE
)


def presentable(text: str, model: Service) -> str:
    """Put a message of a provider on one line, without its secrets and control characters."""
    rests: defaultdict[str, set[str]] = defaultdict(set)
    for form in {_in_one_line(form) for secret in _secrets(model) for form in _forms(secret)}:
        if len(form) >= _SHORTEST_SECRET:
            rests[form[:_TELLING]].add(form[_TELLING:])
    # In one line first: what does not print, as the zeros of UTF-16, would hide a key until then.
    line = _in_one_line(text[:_READ])
    for head in sorted(rests, key=lambda head: (-len(head), head)):
        line = _without(line, head, rests[head])
    return line[:_LONGEST]


def _in_one_line(text: str) -> str:
    return "".join(letter for letter in " ".join(text.split()) if letter.isprintable())


def _secrets(model: Service) -> set[str]:
    """Keys of the environment and the configuration, and the passwords in addresses."""
    found = {value for name, value in os.environ.items() if _SECRET_NAME.search(name)}
    if model.api_key is not None:
        found.add(model.api_key.get_secret_value())
    addresses = [value for value in os.environ.values() if "://" in value and "@" in value]
    addresses.append(model.api_base or base_from_environment(model.name) or "")
    for address in addresses:
        user, _, password = _netloc(address).rpartition("@")[0].partition(":")
        found |= {password, unquote(password), f"{user}:{password}"}
        found.add(f"{unquote(user)}:{unquote(password)}")
        if not password:
            found |= {user, unquote(user)}  # a token, as in https://TOKEN@gateway
    # A placeholder as "none" is no secret, and would only garble the message.
    found = {secret.strip() for secret in found}
    return {secret for secret in found if len(secret) >= _SHORTEST_SECRET}


def _netloc(address: str) -> str:
    try:
        return urlsplit(address).netloc
    except ValueError:
        return ""


def _forms(secret: str) -> Iterator[str]:
    """A secret as it stands, in a URL, in JSON, and as HTTP's Basic authorization."""
    yield from (secret, quote(secret), quote(secret, safe=""), quote_plus(secret))
    yield json.dumps(secret)[1:-1]
    for plain in (secret, f":{secret}", f"{secret}:"):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(plain.encode("utf-8", "surrogateescape")).decode().rstrip("=")


def _without(text: str, head: str, rests: Iterable[str]) -> str:
    """Leave out the secrets that begin so, and every beginning of theirs that is longer."""
    kept, *tails = text.split(head)
    for tail in tails:
        kept += "[key]" + tail[max(_in_common(tail, rest) for rest in rests) :]
    return kept


def _in_common(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))
