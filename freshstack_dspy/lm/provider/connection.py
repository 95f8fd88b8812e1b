"""One HTTP/1.1 connection to a provider, direct or through the environment's proxy."""

import base64
import functools
import http.client
import re
import select
import socket
import ssl
import urllib.request
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self
from urllib.parse import SplitResult, unquote, urlsplit

from freshstack_dspy.lm.provider.deadline import Deadline, PunctualSocket

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
