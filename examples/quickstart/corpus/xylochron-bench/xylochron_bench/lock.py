"""Leases: one client at a time writes to a session, any number may read."""

import secrets
from dataclasses import dataclass

LEASE_S = 60.0
"""A lease not renewed for this long is free again."""
HEARTBEAT_S = 20.0
"""How often a client should renew: two heartbeats may get lost."""


class LockedError(Exception):
    """Another client holds the session: HTTP 409 with code ``session_locked``."""

    def __init__(self, session_id: str, holder: str, seconds_left: float) -> None:
        super().__init__(
            f"session {session_id!r} is held by {holder!r} for another {seconds_left:.0f} s"
        )


@dataclass(frozen=True)
class Lease:
    """The right to write to one session."""

    session_id: str
    holder: str
    key: str
    expires: float


class LeaseRequiredError(Exception):
    """Nobody holds the session: HTTP 428 with code ``lease_required``."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id!r} needs a lease: POST /sessions/{session_id}/lease")


class Locks:
    """The leases in force, in memory: a restart of the server frees them all."""

    def __init__(self) -> None:
        self._leases: dict[str, Lease] = {}

    def acquire(
        self, session_id: str, holder: str, now: float, *, steal: bool = False
    ) -> Lease:
        """Take the lease of a session.

        Args:
            session_id: The session.
            holder: A name for people, shown to whoever is refused.
            now: Seconds of a monotonic clock.
            steal: Take it from its holder; needs a token with the ``admin`` role.

        Raises:
            LockedError: somebody else holds it.
        """
        held = self._leases.get(session_id)
        if held and held.expires > now and not steal:
            raise LockedError(session_id, held.holder, held.expires - now)
        lease = Lease(session_id, holder, secrets.token_hex(8), now + LEASE_S)
        self._leases[session_id] = lease
        return lease

    def renew(self, session_id: str, key: str, now: float) -> Lease:
        """Answer a heartbeat: the lease runs for another 60 s."""
        held = self.check(session_id, key, now)
        lease = Lease(session_id, held.holder, key, now + LEASE_S)
        self._leases[session_id] = lease
        return lease

    def release(self, session_id: str, key: str) -> None:
        """Give the lease back; a wrong key is ignored."""
        held = self._leases.get(session_id)
        if held and held.key == key:
            del self._leases[session_id]

    def check(self, session_id: str, key: str, now: float) -> Lease:
        """The lease, if ``key`` is good for it.

        Raises:
            LockedError: the lease ran out and another client took it.
            LeaseRequiredError: there is no lease, or it ran out.
        """
        held = self._leases.get(session_id)
        if held is None or held.expires <= now:
            raise LeaseRequiredError(session_id)
        if held.key != key:
            raise LockedError(session_id, held.holder, held.expires - now)
        return held
