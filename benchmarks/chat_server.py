"""A loopback chat-completions server in a process of its own, cheap enough not to be the limit.

`python benchmarks/chat_server.py LATENCY [CLOSED]` prints its port and answers until it is killed.
Its answers are nuggets, in the shape that the request asks for: one JSON object, or the marked
sections of DSPy's ChatAdapter; or a verdict that every judge of `peers.py` can read, where the
request holds the words `TO_JUDGE`. For CLOSED seconds from the first request on it refuses every
one with 429 and a Retry-After of as many. `GET /counts` says how many it took and refused.
"""

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

QUOTE = "the option takes the value"
"""Words that every answer must hold; the nuggets quote them."""
TO_JUDGE = "the claim to be judged"
"""Words that ask for a verdict."""
_NUGGETS = [
    {
        "quote": QUOTE,
        "text": f"Fact {number} of the answer, which names the option and the value that it takes.",
        "importance": "vital",
        "doubtful": False,
    }
    for number in range(5)
]
_AS_JSON = json.dumps({"reasoning": "The answer holds five facts.", "nuggets": _NUGGETS})
_AS_TYPED_JSON = json.dumps({"nuggets": _NUGGETS})
_AS_SECTIONS = (
    "[[ ## reasoning ## ]]\nThe answer holds five facts.\n\n"
    f"[[ ## nuggets ## ]]\n{json.dumps(_NUGGETS)}\n\n[[ ## completed ## ]]"
)
_REASON = "The passage states it."
_VERDICT = dict.fromkeys(("reason", "reasoning", "rationale"), _REASON)
_VERDICT |= {"verdict": 1, "score": 1, "grade": 1, "result": True, "supported": True}
_SCORE = {"reasoning": _REASON, "score": 1}
_OUR_VERDICT = {"verdicts": [{"chunk": 1, "reason": "It states it.", "supported": [1]}]}
_VERDICT_SECTIONS = (
    f"[[ ## reasoning ## ]]\n{_REASON}\n\n[[ ## supported ## ]]\nTrue\n\n[[ ## completed ## ]]"
)


def _response(status: str, body: dict[str, Any], *more: str) -> bytes:
    sent = json.dumps(body).encode()
    head = [status, "Content-Type: application/json", f"Content-Length: {len(sent)}", *more]
    return "\r\n".join([*head, "", ""]).encode() + sent


def _completion(content: str) -> bytes:
    message = {"role": "assistant", "content": content}
    return _response(
        "HTTP/1.1 200 OK",
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": "scripted",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1000, "completion_tokens": 120, "total_tokens": 1120},
        },
    )


_NUGGETS_REPLIES = (
    (b"[[ ## ", _completion(_AS_SECTIONS)),
    (b"reasoning", _completion(_AS_JSON)),
    (b"", _completion(_AS_TYPED_JSON)),
)
_VERDICTS = (
    (b"[[ ## ", _completion(_VERDICT_SECTIONS)),
    (b"verdicts", _completion(json.dumps(_OUR_VERDICT))),
    (b"AssertionLLMResponse", _completion(json.dumps(_SCORE))),  # whose schema allows nothing else
    (b"", _completion(json.dumps(_VERDICT))),
)


class _Server:
    """What the server does with a request, and how many it took and refused so far."""

    def __init__(self, latency: float, closed: float) -> None:
        self.latency, self._closed = latency, closed
        self._opens: float | None = None
        self.counts = {"taken": 0, "refused": 0}
        self.refusal = _response(
            "HTTP/1.1 429 Too Many Requests",
            {"error": {"message": "slow down", "type": "rate_limit", "code": "rate_limit"}},
            f"Retry-After: {closed:.0f}",
        )

    def refuses(self) -> bool:
        """Count a request."""
        if self._opens is None:
            self._opens = time.monotonic() + self._closed
        refused = time.monotonic() < self._opens
        self.counts["refused" if refused else "taken"] += 1
        return refused


class _Connection(asyncio.Protocol):
    def __init__(self, server: _Server) -> None:
        self._server = server
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, mark, body = self._received.partition(b"\r\n\r\n")
        if not mark:
            return
        if head.startswith(b"GET"):
            self._received = b""
            self._write(_response("HTTP/1.1 200 OK", self._server.counts))
            return
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        if len(body) < length:
            return
        self._received = body[length:]
        if self._server.refuses():
            self._write(self._server.refusal)
        else:
            loop = asyncio.get_running_loop()
            loop.call_later(self._server.latency, self._answer, body[:length])

    def _answer(self, body: bytes) -> None:
        replies = _VERDICTS if TO_JUDGE.encode() in body else _NUGGETS_REPLIES
        self._write(next(reply for mark, reply in replies if mark in body))

    def _write(self, response: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(response)


async def _serve(latency: float, closed: float) -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(listener.getsockname()[1], flush=True)
    state = _Server(latency, closed)
    server = await asyncio.get_running_loop().create_server(
        lambda: _Connection(state), sock=listener
    )
    await server.serve_forever()


@contextlib.contextmanager
def serving(latency: float = 0.0, closed: float = 0.0) -> Iterator[str]:
    """Run the server; give its base URL."""
    command = [sys.executable, str(Path(__file__)), str(latency), str(closed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        try:
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()


def counts(api_base: str) -> dict[str, int]:
    """How many requests a server took and refused."""
    with urlopen(f"{api_base}/counts") as reply:
        taken_and_refused: dict[str, int] = json.load(reply)
    return taken_and_refused


if __name__ == "__main__":
    asyncio.run(_serve(*map(float, sys.argv[1:])))
