"""HTTP to providers, where a timeout is a deadline: up to the last byte of the reply.

Both clients send through it, DSPy's own and LiteLLM's, so that both keep to the same clock, say
the same when there is no reply, and can have any number of requests in flight: a connection is
waited for by nobody, since a new one is opened when none is idle.
"""

import http.client
import socket
import ssl
import threading
import weakref
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from freshstack_dspy.lm.provider.connection import (
    Connection,
    HttpReply,
    NoReplyError,
    Origin,
    UnsendableError,
)
from freshstack_dspy.lm.provider.deadline import Deadline

_LONGEST_SECONDS = 6000.0
_MOST_IDLE = 256
"""Connections kept for the next requests: as many as [model] concurrency allows."""


@dataclass
class Wire:
    """What goes over the network in one attempt.

    Attributes:
        deadline: By when the attempt must end, however many exchanges it takes.
        section: Of the configuration, where the model is named.
        reply: The last reply, or None.
        failure: Why there was none to the last request, or None.
    """

    deadline: Deadline
    section: str = "[model]"
    reply: HttpReply | None = None
    failure: NoReplyError | UnsendableError | None = None


_wire: ContextVar[Wire | None] = ContextVar("freshstack_wire", default=None)


@contextmanager
def watched(seconds: float, section: str = "[model]") -> Iterator[Wire]:
    """Watch what goes over the network inside, and end it after a number of seconds."""
    wire = Wire(Deadline(seconds), section)
    token = _wire.set(wire)
    try:
        yield wire
    finally:
        _wire.reset(token)


class HttpRequest(Protocol):
    """What DSPy's client hands to a transport."""

    method: str
    url: str
    headers: list[tuple[str, str]]
    body: bytes


class Transport:
    """Connections to providers, kept open between requests; shared by threads."""

    def __init__(self) -> None:
        """Prepare; nothing is opened."""
        self._idle: defaultdict[Origin, list[Connection]] = defaultdict(list)
        self._guard = threading.Lock()
        weakref.finalize(self, _hang_up, self._idle)

    def stream(self, request: HttpRequest) -> HttpReply:
        """Exchange one request for its reply, as DSPy's client calls it; see `send`."""
        return self.send(request.method, request.url, request.headers, request.body)

    def send(
        self,
        method: str,
        url: str,
        headers: Iterable[tuple[str, str]],
        body: bytes,
        seconds: float = _LONGEST_SECONDS,
    ) -> HttpReply:
        """Exchange one request for its whole reply.

        Args:
            method: Of HTTP, as `POST`.
            url: Absolute, without a password.
            headers: Names and values; those of the connection itself are added.
            body: May be empty.
            seconds: How long it may take where the attempt is not `watched`.

        Raises:
            NoReplyError: There is no whole reply, or not in time.
            UnsendableError: The request cannot be sent.
        """
        wire = _wire.get() or Wire(Deadline(seconds))
        wire.reply = wire.failure = None
        try:
            wire.reply = self._exchanged(method, url, headers, body, wire)
        except (NoReplyError, UnsendableError) as failure:
            wire.failure = failure
            raise
        return wire.reply

    def close(self) -> None:
        """Close the idle connections; the next request opens one again."""
        with self._guard:
            _hang_up(self._idle)

    def _exchanged(
        self,
        method: str,
        url: str,
        headers: Iterable[tuple[str, str]],
        body: bytes,
        wire: Wire,
    ) -> HttpReply:
        deadline = wire.deadline
        parts = urlsplit(url)
        origin = Origin.of(parts)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        kept = connection = self._taken(origin)
        try:
            if connection is None:
                connection = Connection(origin, deadline)
            return connection.exchange(method, target, headers, body, deadline)
        except (OSError, http.client.HTTPException) as error:
            sent = connection is not None and connection.sent
            if kept and not sent and isinstance(error, ConnectionError):
                # The server closed an idle connection at this moment: nothing was asked over it.
                return self._exchanged(method, url, headers, body, wire)
            if isinstance(error, TimeoutError) and connection is not None:
                said = (
                    f"no whole reply within {deadline.seconds:g} s, which is {wire.section} timeout"
                )
            else:
                explain = _broken if sent else _unconnected
                said = explain(error, origin, wire.section)
            raise NoReplyError(said, maybe_billed=sent) from error
        finally:
            if connection is not None:
                self._give_back(origin, connection)

    def _taken(self, origin: Origin) -> Connection | None:
        """The connection that was used last, for it is the likeliest to be open still."""
        while True:
            with self._guard:
                kept = self._idle.get(origin)
                connection = kept.pop() if kept else None
            if connection is None or not connection.is_stale():
                return connection
            connection.close()

    def _give_back(self, origin: Origin, connection: Connection) -> None:
        with self._guard:
            keep = connection.reusable and len(self._idle[origin]) < _MOST_IDLE
            if keep:
                self._idle[origin].append(connection)
        if not keep:
            connection.close()


def _hang_up(idle: dict[Origin, list[Connection]]) -> None:
    """Close connections that nobody uses; also those of a transport that nobody closed."""
    for kept in idle.values():
        for connection in kept:
            connection.close()
    idle.clear()


def _unconnected(error: OSError | http.client.HTTPException, origin: Origin, section: str) -> str:
    """Why there is no connection, and what to look at."""
    where = origin.authority
    if isinstance(error, TimeoutError):
        return f"no connection to {where} in time: check {section} api_base"
    if isinstance(error, socket.gaierror):
        return (
            f"there is no host {origin.host!r} ({error.strerror}): "
            f"check {section} api_base and the network"
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate of {where} is not trusted ({error.verify_message}): name its "
            "authority's file in SSL_CERT_FILE"
        )
    if isinstance(error, ssl.SSLError):
        return f"no TLS with {where} ({error.reason}): check the https:// of {section} api_base"
    said = getattr(error, "strerror", None) or str(error)
    return f"no connection to {where} ({said}): is the server up, and {section} api_base right?"


def _broken(error: OSError | http.client.HTTPException, origin: Origin, section: str) -> str:
    """Why there is no whole reply to what was sent."""
    where = origin.authority
    if isinstance(error, OSError | http.client.IncompleteRead):
        return f"the connection to {where} broke before there was a whole reply"
    return f"what came from {where} cannot be read ({error!s}): check {section} api_base"
