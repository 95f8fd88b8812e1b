"""A moment by which something must be done, and a socket that keeps to it."""

import io
import math
import socket
import time
from typing import TYPE_CHECKING

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
