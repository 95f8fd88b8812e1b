"""A real HTTP server that speaks the chat-completions protocol and replies by a script."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

_USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


@dataclass(frozen=True)
class Scripted:
    """What the server does with one request."""

    content: str | None = ""
    finish_reason: str = "stop"
    refusal: str | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    drip: float = 0.0
    """Seconds after each byte of the body."""
    drop: bool = False
    """Close the connection without a word."""
    body: bytes | None = None
    """Sent as it is, in place of a chat completion."""
    usage: Any = field(default_factory=_USAGE.copy)

    def encoded(self) -> bytes:
        if self.body is not None:
            return self.body
        if self.status != 200:
            return json.dumps({"error": {"message": self.content, "code": self.status}}).encode()
        message = {"role": "assistant", "content": self.content, "refusal": self.refusal}
        choice = {"index": 0, "message": message, "finish_reason": self.finish_reason}
        return json.dumps(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": 0,
                "model": "scripted",
                "choices": [choice],
                "usage": self.usage,
            }
        ).encode()


Script = Callable[[dict[str, Any]], Scripted]
"""From the body of a request to what the server does."""


class LocalServer:
    """A server of the loopback, which answers as long as it is running."""

    protocol = "HTTP/1.1"

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._http = _Server(("127.0.0.1", 0), _handler(self))

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def api_base(self) -> str:
        return f"{self.address}/v1"

    def answer(self, method: str, target: str, headers: Any, content: bytes) -> Scripted:
        """Answer one HTTP request."""
        raise NotImplementedError

    @contextmanager
    def running(self) -> Iterator[Self]:
        thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._http.shutdown()
            self._http.server_close()
            thread.join()


class ChatServer(LocalServer):
    """Replies by its script and remembers what it was asked."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.at_once = 0
        """The most requests that were open at the same time."""
        self._open = 0

    def says(self, *replies: str | Scripted) -> None:
        """Reply with these in turn, and with the last of them from then on."""
        left = [Scripted(reply) if isinstance(reply, str) else reply for reply in replies]
        lock = threading.Lock()

        def next_reply(_: dict[str, Any]) -> Scripted:
            with lock:
                return left.pop(0) if len(left) > 1 else left[0]

        self.script = next_reply

    def sent(self, number: int = -1) -> list[dict[str, str]]:
        """The messages of a request; of the last, if none is named."""
        messages: list[dict[str, str]] = self.requests[number]["messages"]
        return messages

    def answer(self, method: str, target: str, headers: Any, content: bytes) -> Scripted:
        if method == "GET":  # the list of models, which says nothing here
            return Scripted("not found", status=404)
        body = json.loads(content)
        with self._lock:
            self.requests.append(body)
            self.headers.append(dict(headers.items()))
            self._open += 1
            self.at_once = max(self.at_once, self._open)
        try:
            reply = self.script(body)
            time.sleep(reply.delay)
            return reply
        finally:
            with self._lock:
                self._open -= 1


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128


def _handler(server: LocalServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = server.protocol
        disable_nagle_algorithm = True

        def _do(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            reply = server.answer(self.command, self.path, self.headers, content)
            if reply.drop:
                self.close_connection = True
                return
            payload = reply.encoded()
            self.send_response(reply.status)
            for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            for part in (
                [payload[i : i + 1] for i in range(len(payload))] if reply.drip else [payload]
            ):
                self.wfile.write(part)
                time.sleep(reply.drip)

        do_GET = do_POST = _do

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except ConnectionError:
                self.close_connection = True

    return Handler
