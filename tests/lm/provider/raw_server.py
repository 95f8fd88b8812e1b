"""A server of bare sockets, for what no well-behaved HTTP server does."""

import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

Speech = Callable[[socket.socket], None]
"""What is done with a connection once a request has come over it."""


@dataclass
class RawServer:
    """Where it listens, and what has happened.

    Attributes:
        address: As `127.0.0.1:port`.
        hung_up: Set when a client has closed a connection that was still being spoken over.
        closed: Released when a connection has been closed from this side.
        requests: The first over each connection.
    """

    address: str
    hung_up: threading.Event = field(default_factory=threading.Event)
    closed: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    requests: list[bytes] = field(default_factory=list)


@contextmanager
def speaking(speech: Speech, context: ssl.SSLContext | None = None) -> Iterator[RawServer]:
    """Do the same with every connection, over TLS where there is a context."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = RawServer(f"127.0.0.1:{listener.getsockname()[1]}")

        def converse(connection: socket.socket) -> None:
            with suppress(OSError):
                secured = context.wrap_socket(connection, server_side=True) if context else None
                with secured or connection as spoken:
                    server.requests.append(heard(spoken))
                    try:
                        speech(spoken)
                    except OSError:
                        server.hung_up.set()
                        raise
            server.closed.release()

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    threading.Thread(target=converse, args=(connection,), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def saying(*pieces: bytes) -> Speech:
    """Send these, and close."""

    def speak(connection: socket.socket) -> None:
        for piece in pieces:
            connection.sendall(piece)

    return speak


def trickling(beginning: bytes) -> Speech:
    """Send a beginning, and then one byte after the other for as long as somebody listens."""

    def speak(connection: socket.socket) -> None:
        connection.sendall(beginning)
        while True:
            connection.sendall(b"x")
            threading.Event().wait(0.02)

    return speak


def silent(beginning: bytes = b"") -> Speech:
    """Send a beginning, and nothing until the client hangs up."""

    def speak(connection: socket.socket) -> None:
        connection.sendall(beginning)
        while connection.recv(65536):
            pass
        raise ConnectionResetError

    return speak


def heard(connection: socket.socket) -> bytes:
    """The next request; only the head of one whose body is very long, and nothing at the end."""
    request = b""
    while b"\r\n\r\n" not in request:
        piece = connection.recv(65536)
        if not piece:
            return b""
        request += piece
    head, _, body = request.partition(b"\r\n\r\n")
    length = re.search(rb"Content-Length: (\d+)", head)
    left = int(length[1]) - len(body) if length else 0
    while 0 < left < 1 << 20:
        piece = connection.recv(left)
        left -= len(piece)
        request += piece
    return request
