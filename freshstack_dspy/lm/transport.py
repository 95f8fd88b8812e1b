"""Bounds on replies over HTTP: bytes after decompression, and time, by closing the socket.

HTTP clients bound only the wait for the next byte: a server could send single bytes for ever, or
fill the memory.
"""

import contextvars
import functools
import json
import queue
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any, TypeVar

from freshstack_dspy.lm.dspy_parts import (
    ProtocolError,
    ReadTimeout,
    StdlibTransport,
    TransportResponse,
    lm15,
)

MOST_BYTES = 64 * 2**20
"""The longest body, decompressed; batches of vectors are some megabytes."""
_PIECE = 2**20
"""How much is decompressed at once."""

Result = TypeVar("Result")


class _Sockets:
    """The sockets that one call reads from."""

    def __init__(self) -> None:
        self._open: list[socket.socket] = []
        self._is_over = False

    def add(self, used: socket.socket) -> None:
        self._open.append(used)
        if self._is_over:
            self.shut()

    def shut(self) -> None:
        """End reads that are under way in another thread."""
        self._is_over = True
        for each in list(self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


_sockets: ContextVar[_Sockets | None] = ContextVar("freshstack_sockets", default=None)


def _bounded(chunks: Iterable[bytes], too_long: type[Exception]) -> Iterator[bytes]:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > MOST_BYTES:
            raise too_long(f"its reply is longer than {MOST_BYTES >> 20} MiB")
        yield chunk


def _inflated(chunks: Iterable[bytes], malformed: type[Exception]) -> Iterator[bytes]:
    """Decompress gzip or zlib, as the header of the data says, piece by piece."""
    inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    try:
        for chunk in chunks:
            left = chunk
            while left:
                yield inflate.decompress(left, _PIECE)
                left = inflate.unconsumed_tail
    except zlib.error as error:
        raise malformed(f"its reply cannot be decompressed: {error}") from None


def _with_error(body: bytes) -> bytes:
    """Move a server's error message to where OpenAI has it; vLLM before 0.10 did not."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return body
    message = (data.get("message") or data.get("detail")) if isinstance(data, dict) else None
    if message is None or "error" in data:
        return body
    shown = message if isinstance(message, str) else json.dumps(message)
    return json.dumps({"error": {**data, "message": shown}}).encode()


_deadline: ContextVar[float] = ContextVar("freshstack_deadline")


class _TimedSocket:
    """A connected socket, which is written and read until a deadline."""

    def __init__(self, connected: Any, timeout: float) -> None:
        self._connected, self._timeout = connected, timeout
        self.deadline = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connected, name)

    def settimeout(self, _seconds: float) -> None:
        """Without the wait for the next byte: the deadline is sooner."""

    def sendall(self, data: bytes) -> None:
        self._in_time(self._connected.sendall, data)

    def recv(self, size: int) -> bytes:
        return self._in_time(self._connected.recv, size)

    def _in_time(self, call: Callable[[Any], Result], argument: Any) -> Result:
        with suppress(TimeoutError):
            if (left := self.deadline - time.monotonic()) > 0:
                self._connected.settimeout(left)
                return call(argument)
        raise ReadTimeout(f"no whole reply within timeout = {self._timeout:g} s")


class BoundedTransport(StdlibTransport):
    """DSPy's own HTTP client; its `read_timeout` is for the whole reply."""

    def stream(self, request: Any) -> TransportResponse:
        """Send a request; the body of the response is bounded."""
        _deadline.set(time.monotonic() + self._read_timeout)
        response = super().stream(request)
        if len(",".join(response.headers_all("content-encoding")).split(",")) > 1:
            response.close()  # each coding can expand the other's bytes a thousandfold
            raise ProtocolError("its reply is compressed more than once")
        chunks = _bounded(response, ProtocolError)
        if response.status >= HTTPStatus.BAD_REQUEST:
            chunks = iter([_with_error(b"".join(chunks))])
        return TransportResponse(
            status=response.status,
            reason=response.reason,
            headers=response.headers,
            http_version=response.http_version,
            chunks=chunks,
            release=lambda _: response.close(),
        )

    def _open(self, *args: Any, **options: Any) -> Any:
        """Look the name up and connect in a thread: neither ends at a deadline by itself."""
        opened = functools.partial(super()._open, *args, **options)
        connection: Any = answer_within(self._read_timeout, opened)
        connection.sock = _TimedSocket(connection.sock, self._read_timeout)
        return connection

    def _send_request(self, conn: Any, *args: Any, **options: Any) -> None:
        conn.sock.deadline = _deadline.get()
        super()._send_request(conn, *args, **options)


@functools.cache
def bound_httpx() -> None:
    """Bound what LiteLLM and the SDKs below it read through httpx, in calls of `answer_within`.

    They make their own clients in many places, so httpx's transport itself is wrapped. Other
    requests of the process are unaffected.
    Compressed replies are not requested; some gateways send them all the same.
    """
    import httpx

    plain = httpx.HTTPTransport.handle_request

    class Bounded(httpx.SyncByteStream):
        def __init__(self, stream: Any, coding: str) -> None:
            self._stream, self._coding = stream, coding

        def __iter__(self) -> Iterator[bytes]:
            chunks = self._stream
            if self._coding != "identity":
                chunks = _inflated(chunks, httpx.ReadError)
            return _bounded(chunks, httpx.ReadError)

        def close(self) -> None:
            self._stream.close()

    def handle_request(self: Any, request: Any) -> Any:
        sockets = _sockets.get()
        if sockets is None:
            return plain(self, request)
        request.headers["accept-encoding"] = "identity"
        response = plain(self, request)
        network: Any = response.extensions.get("network_stream")
        if network is not None:
            sockets.add(network.get_extra_info("socket"))
        coding = response.headers.pop("content-encoding", "identity").strip().lower()
        if coding not in ("identity", "gzip", "deflate"):
            response.close()
            raise httpx.ReadError(f"its reply is compressed as {coding!r}, which nobody asked for")
        response.stream = Bounded(response.stream, coding)
        return response

    httpx.HTTPTransport.handle_request = handle_request  # type: ignore[method-assign]


class _Helper(threading.Thread):
    """A thread that asks; when that is done, it is used for the next attempt."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.attempts: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.start()

    def run(self) -> None:
        while True:
            ask, came = self.attempts.get()
            outcome: tuple[Any, BaseException | None]
            try:
                outcome = ask(), None
            except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
                outcome = None, error
            _idle.append(self)  # before it is waited for no longer: who asks next finds it
            came.put(outcome)
            del ask, came, outcome


_idle: list[_Helper] = []


def answer_within(seconds: float, ask: Callable[[], Result]) -> Result:
    """Call a function in a thread, and wait for its result no longer than this.

    After that its sockets are shut, which ends the thread's reading.
    """
    helper = None
    while helper is None or not helper.is_alive():  # in a forked process it is not
        try:
            helper = _idle.pop()
        except IndexError:
            helper = _Helper()
    sockets, context = _Sockets(), contextvars.copy_context()
    context.run(_sockets.set, sockets)
    came: queue.SimpleQueue[tuple[Result, BaseException | None]] = queue.SimpleQueue()
    helper.attempts.put((functools.partial(context.run, ask), came))
    try:
        answer, error = came.get(timeout=seconds)
    except queue.Empty:
        sockets.shut()
        raise lm15.TimeoutError(f"no whole reply within timeout = {seconds:g} s") from None
    except BaseException:  # an interrupt
        sockets.shut()
        raise
    if error is not None:
        raise error
    return answer
