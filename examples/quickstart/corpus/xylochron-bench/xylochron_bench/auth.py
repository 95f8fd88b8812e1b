"""Who may do what: bearer tokens with a role, and the origins of browsers."""

import hmac
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Role = Literal["read", "measure", "admin"]
RANK: dict[Role, int] = {"read": 0, "measure": 1, "admin": 2}


class AuthError(Exception):
    """A refused request with its HTTP status and code."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(frozen=True)
class Token:
    """A token of ``bench.toml``: ``[[tokens]]`` with name, secret and role."""

    name: str
    secret: str
    role: Role = "measure"


def authenticate(headers: Mapping[str, str], tokens: Sequence[Token]) -> Token:
    """Find the token of a request.

    ``Authorization: Bearer …`` is the way; ``X-Bench-Token`` still works but is
    deprecated since 2.0 and will go in 3.0.

    Raises:
        AuthError: 401 ``token_missing`` or ``token_unknown``.
    """
    given = headers.get("authorization", "")
    secret = given.removeprefix("Bearer ").strip() if given.startswith("Bearer ") else ""
    if not secret and "x-bench-token" in headers:
        warnings.warn(
            "X-Bench-Token is deprecated, send Authorization: Bearer",
            DeprecationWarning,
            stacklevel=2,
        )
        secret = headers["x-bench-token"].strip()
    if not secret:
        raise AuthError(401, "token_missing", "send Authorization: Bearer <secret>")
    for token in tokens:
        if hmac.compare_digest(token.secret.encode(), secret.encode()):
            return token
    raise AuthError(401, "token_unknown", "no token of bench.toml has this secret")


def require(token: Token, role: Role) -> None:
    """Refuse a token whose role is too low: 403 ``role_too_low``."""
    if RANK[token.role] < RANK[role]:
        raise AuthError(
            403, "role_too_low", f"token {token.name!r} has role {token.role!r}, needs {role!r}"
        )


def check_origin(origin: str | None, allowed: Sequence[str]) -> None:
    """Refuse a browser from elsewhere: 403 ``origin_not_allowed``.

    Requests without an ``Origin`` header do not come from a browser and pass. Origins
    are compared whole: scheme, host and port, no trailing slash, no wildcard.
    """
    if origin is not None and origin not in allowed:
        raise AuthError(
            403, "origin_not_allowed", f"origin {origin!r} is not in server.allowed_origins"
        )
