"""Which engine answers a model's name, and what its errors mean.

The embedded baseline answers `extractive/baseline`; DSPy's native client those providers that it
knows; LiteLLM all others. Each makes exactly one attempt: retries are `attempts.py`'s.
"""

import base64
import functools
import http.client
import importlib
import io
import json
import math
import os
import re
import select
import socket
import ssl
import threading
import time
import urllib.request
import warnings
import weakref
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self
from urllib.parse import SplitResult, quote, quote_plus, unquote, urlsplit

import httpx
from dspy.clients.engines import LiteLLMEngine
from dspy.lm15 import Message, RefusalPart, Request, Response, Usage
from pydantic import SecretStr

from freshstack_dspy.config import ModelConfig
from freshstack_dspy.errors import FatalModelError, ModelError, ReplyError, TransientModelError
from freshstack_dspy.lm import telemetry
from freshstack_dspy.lm.request import BASELINE, base_from_environment
from freshstack_dspy.lm.telemetry import describes_the_machine

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

_PIECE = 1 << 18
_BUFFER = 1 << 16


class Deadline:
    """A number of seconds from now, by a clock that nobody sets back.

    Attributes:
        seconds: How many it was at the beginning.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self, at_most: float = math.inf) -> float:
        """Seconds left.

        Raises:
            TimeoutError: There are none.
        """
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return min(left, at_most)


class PunctualSocket:
    """A connected socket whose every wait is bounded by what is left of a deadline.

    A socket's own timeout begins anew with every byte, so that a server that sends one byte a
    second is waited for without end. This is as much of a socket as `http.client` asks for.

    Attributes:
        deadline: Of the exchange that is under way; set anew for each.
    """

    def __init__(self, connected: socket.socket, deadline: Deadline) -> None:
        self._connected = connected
        self.deadline = deadline

    def sendall(self, data: "ReadableBuffer") -> None:
        """Send everything."""
        left = memoryview(data)
        while left:
            self._connected.settimeout(self.deadline.left())
            left = left[self._connected.send(left[:_PIECE]) :]

    def recv_into(self, buffer: "WriteableBuffer") -> int:
        """Receive what there is, at least one byte; 0 at the end."""
        self._connected.settimeout(self.deadline.left())
        return self._connected.recv_into(buffer)

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Read through a buffer."""
        return io.BufferedReader(_Reading(self), _BUFFER)

    def close(self) -> None:
        """Do nothing: `http.client` closes a socket whose reply it has yet to read."""

    def hang_up(self) -> None:
        """Close the connection."""
        self._connected.close()


class _Reading(io.RawIOBase):
    def __init__(self, source: PunctualSocket) -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        return self._source.recv_into(buffer)


_CONNECT_SECONDS = 10.0
_LONGEST_BODY = 1 << 26
"""64 MiB: no reply of a language model is longer, and a server cannot fill the memory."""
_PORTS = {"http": 80, "https": 443}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_UNSENDABLE = "its key or address holds a line break or another character that cannot be sent"
_FRAMING = ("content-encoding", "content-length", "transfer-encoding", "connection")


class Origin(NamedTuple):
    """Whom a connection leads to."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: SplitResult) -> Self:
        """The origin of a URL."""
        return cls(url.scheme, url.hostname or "", url.port or _PORTS.get(url.scheme, 0))

    @property
    def authority(self) -> str:
        """As `host:port`."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class NoReplyError(Exception):
    """A request has no whole reply.

    Attributes:
        maybe_billed: Whether all of the request was sent, so that it may have been worked on.
    """

    def __init__(self, message: str, *, maybe_billed: bool) -> None:
        super().__init__(message)
        self.maybe_billed = maybe_billed


class UnsendableError(Exception):
    """A request cannot be sent as it is, however often it is tried."""


@dataclass(frozen=True)
class HttpReply:
    """A whole reply, in the shape that DSPy's client asks of a transport."""

    status: int
    reason: str
    headers: list[tuple[str, str]]
    body: bytes
    http_version: str = "HTTP/1.1"

    def read(self) -> bytes:
        """The body."""
        return self.body

    def __iter__(self) -> Iterator[bytes]:
        yield self.body

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to close: the reply was read when it was made."""


class Connection:
    """A connection that carries one request at a time.

    Attributes:
        sent: Whether all of the last request was sent.
        reusable: Whether the server keeps it open for the next.
    """

    def __init__(self, origin: Origin, deadline: Deadline) -> None:
        """Connect.

        Raises:
            OSError: The server cannot be reached, or not within the time.
            UnsendableError: The environment names a proxy of a kind that is not known.
        """
        self.sent = False
        self.reusable = False
        proxy = _proxy_to(origin)
        self._prefix = ""
        self._proxy_headers = _authorization(proxy)
        self._plain = _dialled(Origin.of(proxy) if proxy else origin, deadline)
        try:
            self._socket = PunctualSocket(self._plain, deadline)
            if origin.scheme == "https":
                if proxy:
                    self._tunnel(origin)
                self._socket = PunctualSocket(self._encrypted(origin.host, deadline), deadline)
                self._proxy_headers = {}
            elif proxy:
                self._prefix = f"http://{origin.authority}"
        except BaseException:
            self._plain.close()
            raise
        self._client = http.client.HTTPConnection(origin.host, origin.port)
        self._client.default_port = _PORTS[origin.scheme]
        self._client.auto_open = 0  # a connection that is lost is not opened again behind us
        self._client.sock = self._socket

    def exchange(
        self,
        method: str,
        target: str,
        headers: Iterable[tuple[str, str]],
        body: bytes,
        deadline: Deadline,
    ) -> HttpReply:
        """Send a request and read the whole reply.

        Raises:
            OSError: The connection broke, or there was not enough time.
            http.client.HTTPException: What came is not HTTP.
            UnsendableError: The request holds what no request may hold.
        """
        self.sent = self.reusable = False
        self._socket.deadline = deadline
        fields = {**self._proxy_headers, **dict(headers)}
        if any(map(_CONTROL.search, fields.values())):
            raise UnsendableError(_UNSENDABLE)
        try:
            self._client.request(method, self._prefix + target, body, fields)
        except (ValueError, http.client.InvalidURL):  # its message would show the key
            raise UnsendableError(_UNSENDABLE) from None
        self.sent = True
        with self._client.getresponse() as response:
            raw = _body(response)
            self.reusable = not response.will_close
        return HttpReply(
            status=response.status,
            reason=response.reason,
            headers=[pair for pair in response.getheaders() if pair[0].lower() not in _FRAMING],
            body=_decoded(raw, response.getheader("content-encoding") or ""),
        )

    def is_stale(self) -> bool:
        """Whether the server has closed it, or said something that nobody asked for."""
        if hasattr(select, "poll"):
            poll = select.poll()
            poll.register(self._plain, select.POLLIN)
            return bool(poll.poll(0))
        return bool(select.select([self._plain], [], [], 0)[0])

    def close(self) -> None:
        """Close it at once, whatever is under way."""
        self._socket.hang_up()
        self._plain.close()

    def _tunnel(self, origin: Origin) -> None:
        lines = [f"CONNECT {origin.authority} HTTP/1.1", f"Host: {origin.authority}"]
        lines += [f"{name}: {value}" for name, value in self._proxy_headers.items()]
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode("ascii"))
        reply = http.client.HTTPResponse(self._socket, method="CONNECT")  # type: ignore[arg-type]
        reply.begin()
        if reply.status != http.HTTPStatus.OK:
            raise ConnectionRefusedError(f"the proxy said {reply.status} {reply.reason}")

    def _encrypted(self, host: str, deadline: Deadline) -> ssl.SSLSocket:
        self._plain.settimeout(deadline.left(_CONNECT_SECONDS))
        return _tls().wrap_socket(self._plain, server_hostname=host)


def _dialled(origin: Origin, deadline: Deadline) -> socket.socket:
    """The first address of a host that answers."""
    failure: OSError = TimeoutError()
    for family, kind, protocol, _, address in socket.getaddrinfo(
        origin.host, origin.port, type=socket.SOCK_STREAM
    ):
        dialled = socket.socket(family, kind, protocol)
        try:
            dialled.settimeout(deadline.left(_CONNECT_SECONDS))
            dialled.connect(address)
            dialled.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            dialled.close()
            failure = error
        except BaseException:
            dialled.close()
            raise
        else:
            return dialled
    raise failure


@functools.cache
def _tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    known = ssl.get_default_verify_paths()
    if known.cafile is None and known.capath is None:
        import certifi  # a system without certificates of its own, as a slim container

        context.load_verify_locations(certifi.where())
    return context


def _proxy_to(origin: Origin) -> SplitResult | None:
    proxies = urllib.request.getproxies()
    named = proxies.get(origin.scheme) or proxies.get("all")
    if not named or urllib.request.proxy_bypass(origin.host):
        return None
    proxy = urlsplit(named if "://" in named else f"http://{named}")
    if proxy.scheme != "http" or not proxy.hostname:
        raise UnsendableError(
            f"the environment names a proxy of kind {proxy.scheme!r}, and only http:// ones are "
            f"known; to go past it add {origin.host} to NO_PROXY"
        )
    return proxy


def _authorization(proxy: SplitResult | None) -> dict[str, str]:
    if proxy is None or proxy.username is None:
        return {}
    user = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"}


def _body(response: http.client.HTTPResponse) -> bytes:
    body = response.read(_LONGEST_BODY + 1)
    if len(body) > _LONGEST_BODY:
        raise http.client.HTTPException(f"the reply is longer than {_LONGEST_BODY >> 20} MiB")
    if response.length:  # `read` with a bound says nothing when the connection ends before
        raise http.client.IncompleteRead(body, response.length)
    return body


def _decoded(body: bytes, coding: str) -> bytes:
    """Undo a compression that nobody asked for, as some gateways apply it."""
    if coding.lower() not in ("gzip", "x-gzip", "deflate"):
        return body
    decoder = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        plain = decoder.decompress(body, _LONGEST_BODY)
    except zlib.error as error:
        raise http.client.HTTPException(f"its {coding} cannot be undone: {error}") from None
    if decoder.unconsumed_tail:
        raise http.client.HTTPException(f"the reply is longer than {_LONGEST_BODY >> 20} MiB")
    return plain


class Service(Protocol):
    """A model at a provider; `ModelConfig` is one."""

    @property
    def name(self) -> str:
        """Of the model, with the provider's, as `openai/gpt-4o`."""
        ...

    @property
    def api_base(self) -> str | None:
        """Where it is, if not where the provider's models are."""
        ...

    @property
    def api_key(self) -> SecretStr | None:
        """The key, if it is not in the environment."""
        ...

    @property
    def concurrency(self) -> int:
        """Most requests in flight."""
        ...

    @property
    def timeout(self) -> float:
        """Seconds for one attempt."""
        ...

    @property
    def retries(self) -> int:
        """Attempts after the first."""
        ...


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


_IN_MILLISECONDS = ("retry-after-ms", "x-ms-retry-after-ms")


def retry_after(headers: Iterable[tuple[str, str]], now: datetime | None = None) -> float | None:
    """Read the seconds to wait out of a reply's headers.

    Args:
        headers: Names, in any case, and values.
        now: What a date is measured from; the clock's time by default.

    Returns:
        Finite seconds, at least 0; None where the server names none or what makes no sense.
        `Retry-After` is a number of seconds or a date (RFC 9110, section 10.2.3); the OpenAI and
        Azure services name milliseconds beside it, which are more exact.
    """
    values = {name.lower(): value.strip() for name, value in headers}
    for name in _IN_MILLISECONDS:
        milliseconds = _number(values.get(name, ""))
        if milliseconds is not None:
            return milliseconds / 1000
    value = values.get("retry-after", "")
    seconds = _number(value)
    return _seconds_until(value, now or datetime.now(UTC)) if seconds is None else seconds


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _seconds_until(date: str, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())


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


_TOO_MANY = (HTTPStatus.TOO_MANY_REQUESTS, 529)
_PASSING = (*_TOO_MANY, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_EARLY)
_NO_ACCESS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_NOT_THERE = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.GONE)
_UNPAID = re.compile(r"insufficient_quota|billing")
_NO_KEY = re.compile(r"missing credentials|locate credentials|api_key", re.IGNORECASE)
_WRONG_KEY = re.compile(r"(api key not valid|(incorrect|invalid) api key)", re.IGNORECASE)
_FILTERED = re.compile(r"content.?(filter|policy|management)", re.IGNORECASE)
# Every branch ends where another tag begins or the text does, so that no page takes long.
_MARKUP = re.compile(r"<(head|script|style)\b.*?(?:</\1>|\Z)|<[^<>]*>", re.IGNORECASE | re.DOTALL)
_ADVICE = re.compile(r"(\n\n  (To fix:|credential came from:)|To drop these, set).*", re.DOTALL)
_CLASS_NAMES = re.compile(r"^((litellm\.)?\w+(Error|Exception|Timeout)( -|:)\s*)+")
_CREDENTIALS = {
    "bedrock": "the credentials of AWS",
    "sagemaker": "the credentials of AWS",
    "vertex_ai": "the credentials of Google Cloud",
}


class _Said(NamedTuple):
    """What the provider said, or the client where the provider said nothing."""

    message: str
    codes: str
    status: int | None
    retry_after: float | None
    replied: bool


def explained(error: Exception, wire: Wire, model: Service) -> ModelError:
    """Say in one line what went wrong.

    Args:
        error: What the client raised.
        wire: What came over the network in this attempt.
        model: Which model was asked; its secrets are left out.

    Returns:
        `FatalModelError`, where no retry can help; `ReplyError`, where this one request was
        refused; `TransientModelError`, where asking again may help.
    """
    unanswered = _unanswered(error, wire, model)
    if unanswered is not None:
        return unanswered
    said = _said(error, wire.reply)
    if said.status == HTTPStatus.OK:
        return did_not_answer(f"its reply cannot be read: {said.message or 'it is empty'}", model)
    status = f"HTTP {said.status}" if said.replied else ""
    shown = ", ".join(filter(None, (said.message.strip(), status)))
    fatal = _fatal_reason(error, said, model.name, wire.section)
    if fatal is not None:
        return FatalModelError(f"{fatal} ({presentable(shown, model)})")
    if _is_refusal(error, said):
        return ReplyError(
            f"{model.name} refused the request: {presentable(shown, model)}",
            status="refused" if _FILTERED.search(f"{said.codes} {said.message}") else "failed",
            call_id=None,
        )
    return _slowed(did_not_answer(shown, model, maybe_billed=said.status is None), said)


def did_not_answer(why: str, model: Service, *, maybe_billed: bool = True) -> TransientModelError:
    """The error for a request without an answer, which may have one when it is asked again."""
    error = TransientModelError(f"{model.name} did not answer: {presentable(why, model)}")
    error.maybe_billed = maybe_billed
    return error


def _unanswered(error: Exception, wire: Wire, model: Service) -> ModelError | None:
    """What to say where there is no reply, or None where there is one."""
    causes = _causes(error)
    if wire.failure in causes:
        if isinstance(wire.failure, NoReplyError):
            billed = wire.failure.maybe_billed
            return did_not_answer(str(wire.failure), model, maybe_billed=billed)
        return FatalModelError(f"{model.name} cannot be asked: {wire.failure}")
    missing = next((cause for cause in causes if isinstance(cause, ImportError)), None)
    if wire.reply is None and missing is not None:
        return FatalModelError(f"{model.name} cannot be asked: {presentable(str(missing), model)}")
    return None


def _causes(error: BaseException | None) -> list[BaseException]:
    """An error and what was behind it: the clients raise theirs in place of ours."""
    causes = []
    while error is not None and error not in causes:
        causes.append(error)
        error = error.__cause__ or error.__context__
    return causes


def _slowed(error: TransientModelError, said: _Said) -> TransientModelError:
    busy = said.status == HTTPStatus.SERVICE_UNAVAILABLE and said.retry_after is not None
    error.retry_after = said.retry_after
    error.rate_limited = busy or said.status in _TOO_MANY
    return error


def _said(error: Any, reply: HttpReply | None) -> _Said:
    wait: float | None = getattr(error, "retry_after", None)
    if reply is None:
        message = _ADVICE.sub("", str(getattr(error, "message", "") or error))
        status, code = getattr(error, "status", None), getattr(error, "provider_code", None)
        if _NO_KEY.search(message):
            status = HTTPStatus.UNAUTHORIZED  # LiteLLM gives some of these the status 500
        return _Said(_CLASS_NAMES.sub("", message), str(code), status, wait, replied=False)
    text = reply.body.decode("utf-8", "replace")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = None
    problem = (body.get("error") or body) if isinstance(body, dict) else body
    codes: dict[str, Any] = problem if isinstance(problem, dict) else {}
    status, code = reply.status, codes.get("code")
    if status == HTTPStatus.OK and isinstance(code, int) and 400 <= code < 600:
        status = code  # some gateways pass an upstream's failure on in a reply of status 200
    return _Said(
        message=_message(problem) or _MARKUP.sub(" ", text),
        codes=" ".join(str(codes.get(name)) for name in ("code", "type", "status")),
        status=status,
        retry_after=retry_after(reply.headers) if wait is None else wait,
        replied=True,
    )


def _message(problem: Any) -> str:
    """The text, in whichever of the usual places a provider has put it."""
    if isinstance(problem, list) and problem:
        return _message(problem[0])
    if isinstance(problem, dict):
        places = (problem.get(name) for name in ("message", "msg", "detail", "error"))
        return next(filter(None, map(_message, places)), "")
    return problem if isinstance(problem, str) else ""


def _fatal_reason(error: Exception, said: _Said, name: str, section: str) -> str | None:
    """Why no retry can help, and what to do; None where one can."""
    from dspy import lm15

    status = said.status or 0
    prefix = name.partition("/")[0]
    key = _CREDENTIALS.get(prefix, f"{prefix.upper()}_API_KEY")
    named = f"{section} name" if section == "[model]" else f"{section} model"
    unpaid = isinstance(error, lm15.BillingError) or status == HTTPStatus.PAYMENT_REQUIRED
    if unpaid or _UNPAID.search(said.codes):
        return f"{name} is not paid for"
    if status >= 500 or status in _PASSING:
        return None
    denied = isinstance(error, lm15.AuthError) or status in _NO_ACCESS
    unknown = isinstance(error, lm15.UnsupportedModelError | lm15.UnknownModelError)
    reasons = (
        (
            isinstance(error, lm15.NotConfiguredError),
            f"no key for {name}: set {key} in the environment",
        ),
        (denied and not said.replied, f"no key for {name}: set {key} in the environment"),
        (denied or bool(_WRONG_KEY.match(said.message)), f"{name} refused the key: check {key}"),
        (
            status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED,
            "the proxy refused to pass a request on",
        ),
        (
            unknown or status in _NOT_THERE,
            f"{name} is not known where it was asked for: check {named} and api_base",
        ),
        (300 <= status < 400, f"{name} is asked for at another address: check {section} api_base"),
        (isinstance(error, lm15.ConfigurationError), f"{name} cannot be asked: check {section}"),
        (
            isinstance(error, lm15.CapabilityError),
            f'{name} cannot be asked: if it is the response format, set [model] structured = "none"',
        ),
    )
    return next((reason for holds, reason in reasons if holds), None)


def _is_refusal(error: Exception, said: _Said) -> bool:
    from dspy import lm15

    if said.status is None:
        return isinstance(error, lm15.InvalidRequestError)
    return 400 <= said.status < 500 and said.status not in _PASSING


def with_raw_text(response: "Response") -> "Response":
    """Put the text back where the client gives an object; any other response is as it was."""
    from dspy.lm15 import Message, TextPart

    parts = response.message.parts
    if not any(part.type == "data" for part in parts):
        return response
    texts = list(_texts(response.provider_data))
    written = tuple(
        TextPart(_raw(part.value, texts)) if part.type == "data" else part for part in parts
    )
    return replace(response, message=Message(role=response.message.role, parts=written))


def _raw(value: Any, texts: list[str]) -> str:
    """Find the text, among those of the body, that the object was parsed from."""
    for text in texts:
        try:
            if json.loads(text.strip()) == value:
                return text
        except (ValueError, RecursionError):
            continue
    return json.dumps(value, ensure_ascii=False)


def _texts(body: Any) -> Iterator[str]:
    """Give the texts of a provider's body that could be an object, in their order."""
    waiting = [body]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            if "{" in item:
                yield item
        elif isinstance(item, dict):
            waiting.extend(reversed(item.values()))
        elif isinstance(item, list | tuple):
            waiting.extend(reversed(item))


NO_ANSWER = (AttributeError, LookupError, TypeError, ValueError, RecursionError, ImportError)
"""What the clients raise on a body that is no chat completion, or for want of a package."""


class Provider(Protocol):
    """Whatever answers one request, once."""

    def complete(self, request: "Request") -> "Response":
        """Answer one request or raise."""
        ...


def provider_for(model: ModelConfig) -> Provider:
    """Choose the engine for a model.

    Raises:
        FatalModelError: The name has no provider, as `openai/…`.
    """
    if model.name == BASELINE:
        return BaselineProvider()
    prefix, slash, name = model.name.partition("/")
    if prefix == BASELINE.partition("/")[0]:
        raise FatalModelError(f"there is no {model.name}; the only embedded model is {BASELINE}")
    if not (prefix and slash and name):
        raise FatalModelError(
            f"[model] name is {model.name!r}; it takes a provider and a model, as openai/gpt-4o, "
            f"anthropic/…, hosted_vllm/…, or {BASELINE}, which needs no network"
        )
    return _native(model) or _through_litellm(model)


class BaselineProvider:
    """The embedded model: it reads the JSON of the prompt and answers by counting words."""

    def complete(self, request: "Request") -> "Response":
        """Answer from the request's own texts."""
        from dspy.lm15 import Message, Response, Usage

        from freshstack_dspy.lm import baseline

        task = str((request.config.response_format or {}).get("name"))
        *history, last = [message.text or "" for message in request.messages]
        try:
            turns = [json.loads(text) for text in history]
            demos = list(zip(turns[::2], turns[1::2], strict=True))
            inputs = json.loads(last)
        except ValueError:
            raise FatalModelError(
                f"{BASELINE} answers the programs of this package only; "
                "for other prompts name a real model in [model] name"
            ) from None
        text = json.dumps(baseline.reply(task, inputs, demos), ensure_ascii=False)
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant(text),
            finish_reason="stop",
            usage=Usage(input_tokens=0, output_tokens=0),
        )


class NetworkProvider:
    """An engine over the network, with its errors told apart by whether asking again can help."""

    def __init__(self, engine: Any, transport: Any, model: ModelConfig) -> None:
        self._engine = engine
        self._transport = transport
        self._model = model

    def complete(self, request: "Request") -> "Response":
        """Ask once.

        Raises:
            FatalModelError: No key, no access, unknown model.
            ReplyError: This one request was refused, as one that is too long.
            TransientModelError: Rate limit, timeout, dropped connection, server error, a reply
                that is none; with `retry_after` in seconds where the server named it.
        """
        from dspy import lm15

        with watched(self._model.timeout) as wire:
            try:
                response: Response = self._engine.complete(request)
            except (lm15.LM15Error, NoReplyError, UnsendableError, *NO_ANSWER) as error:
                raise explained(error, wire, self._model) from None
        if _is_nothing(response):
            raise did_not_answer("there is no reply in what it sent", self._model)
        return with_raw_text(response)

    def close(self) -> None:
        """Close the connections."""
        self._engine.close()
        self._transport.close()


def _is_nothing(response: "Response") -> bool:
    """What the clients make of a JSON body without any reply: no text, and nothing counted."""
    counted = (response.usage.input_tokens, response.usage.output_tokens)
    parts = response.message.parts
    return counted == (None, None) and all(part.type == "text" and not part.text for part in parts)


def _native(model: ModelConfig) -> NetworkProvider | None:
    """DSPy's own client over our transport, or None for a provider that it does not know."""
    from dspy.clients.engines import LM15Engine
    from dspy.lm15 import RouterConfig, UnknownModelError, UnsupportedFeatureError

    base = model.api_base or base_from_environment(model.name)
    try:
        provider = LM15Engine(RouterConfig(env={})).resolve(model.name).provider
    except (UnknownModelError, UnsupportedFeatureError):
        return None
    if base and (provider.startswith("azure") or "@" in urlsplit(base).netloc):
        return None  # an address with further parts or a password, which LiteLLM knows to use
    keys = {provider: model.api_key.get_secret_value()} if model.api_key else {}
    if base and not keys and not _has_key_in_environment(model.name):
        keys = {provider: "none"}  # a local server takes any key, and the client insists on one
    transport = Transport()
    config = RouterConfig(
        api_keys=keys, base_urls={provider: base} if base else {}, transport=transport
    )
    return NetworkProvider(LM15Engine(config), transport, model)


def _has_key_in_environment(name: str) -> bool:
    return bool(os.environ.get(f"{name.partition('/')[0].upper()}_API_KEY"))


def _through_litellm(model: ModelConfig) -> NetworkProvider:
    """LiteLLM over our transport."""
    return NetworkProvider(litellm_engine(model), litellm_transport, model)


_OURS = ("accept-encoding", "connection", "content-length", "transfer-encoding")
"""Headers that the transport writes itself."""


class OverHttpx(httpx.BaseTransport):
    """httpx over our transport, with each request's own read timeout as its deadline."""

    def __init__(self) -> None:
        self._transport = Transport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Exchange one request for its whole reply.

        Raises:
            httpx.NetworkError: There is none; its cause is a `NoReplyError`.
            httpx.LocalProtocolError: It cannot be sent; its cause is an `UnsendableError`.
        """
        url = request.url
        seconds = request.extensions.get("timeout", {}).get("read")
        headers = [(name.decode(), value.decode("latin-1")) for name, value in request.headers.raw]
        try:
            reply = self._transport.send(
                request.method,
                # Without the user and password, which httpx has made a header of.
                f"{url.scheme}://{url.netloc.decode()}{url.raw_path.decode()}",
                [pair for pair in headers if not _left_out(pair[0])],
                request.read(),
                **({"seconds": seconds} if seconds else {}),
            )
        except NoReplyError as error:
            raise httpx.NetworkError(str(error), request=request) from error
        except UnsendableError as error:
            raise httpx.LocalProtocolError(str(error), request=request) from error
        # A redirect is not followed: the prompt, and the key, are for the address that was named.
        kept = [pair for pair in reply.headers if pair[0].lower() != "location"]
        return httpx.Response(reply.status, headers=kept, content=reply.body, request=request)

    def close(self) -> None:
        """Close the idle connections; the next request opens one again."""
        self._transport.close()


def _left_out(header: str) -> bool:
    return header.lower() in _OURS or describes_the_machine(header)


litellm_transport = OverHttpx()
"""What LiteLLM sends through, whichever model it asks."""


def litellm_engine(model: ModelConfig) -> LiteLLMEngine:
    """An engine for a provider that DSPy's own client does not know.

    Raises:
        FatalModelError: LiteLLM does not know the provider either, or is not installed.
    """
    litellm = imported_litellm(model)
    try:
        litellm.get_llm_provider(model.name)
    except litellm.BadRequestError:
        raise FatalModelError(
            f"[model] name is {model.name!r}, and neither DSPy nor LiteLLM knows its provider, "
            f"{model.name.partition('/')[0]!r}; the known ones are at "
            "https://docs.litellm.ai/docs/providers; for a server of one's own it is hosted_vllm/…"
        ) from None
    options: dict[str, Any] = {"timeout": model.timeout}
    if model.api_key:
        options["api_key"] = model.api_key.get_secret_value()
    if base := model.api_base or base_from_environment(model.name):
        options["api_base"] = base
        if "@" in urlsplit(base).netloc:
            options.setdefault("api_key", "none")  # the password serves, and a client insists
    return _Engine(**options)


def imported_litellm(model: Service) -> Any:
    """LiteLLM as a module, quiet and over our transport.

    Raises:
        FatalModelError: It cannot be imported.
    """
    telemetry.turn_off()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            litellm: Any = importlib.import_module("litellm")

            litellm.ModelResponse()  # Pydantic warns of its types when the first is made
    except ImportError as error:
        raise FatalModelError(f"{model.name} cannot be asked: {error}") from error
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.disable_hf_tokenizer_download = True  # to count tokens, which the replies name
    _send_over_ours(litellm)
    return litellm


def _send_over_ours(litellm: Any) -> None:
    """Let LiteLLM's clients send through our transport, unless the program has chosen others.

    It takes no client for one call that all its providers would use: some want the OpenAI SDK's,
    some a handler of its own. These two settings, which are the process's, reach both; each
    request's own timeout holds.
    """
    if litellm.client_session is None:
        litellm.client_session = httpx.Client(transport=litellm_transport)
    if getattr(litellm, "sync_transport", None) is None:
        litellm.sync_transport = litellm_transport


class _Engine(LiteLLMEngine):
    def complete(self, request: Request) -> Response:
        response: Response = super().complete(request)
        if not response.usage.input_tokens:
            # LiteLLM counts nothing where the provider does not say, and a budget would not end.
            response = replace(response, usage=Usage())
        refusal = _refusal(response.provider_data)
        if refusal is None:
            return response
        return replace(response, message=Message(role="assistant", parts=(RefusalPart(refusal),)))


def _refusal(body: Any) -> str | None:
    """The refusal that LiteLLM moves to a field of its own."""
    for name in ("choices", 0, "message", "provider_specific_fields", "refusal"):
        try:
            body = body[name]
        except (KeyError, IndexError, TypeError):
            return None
    return body if isinstance(body, str) and body else None
