"""A loopback chat-completions server in a process of its own, cheap enough not to be the limit.

`python benchmarks/chat_server.py LATENCY` prints its port and answers until it is killed. Its
answers are nuggets, in the shape that the request asks for: one JSON object, or the marked
sections of DSPy's ChatAdapter.
"""

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

QUOTE = "the option takes the value"
"""Words that every answer must hold; the nuggets quote them."""
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


def _completion(content: str) -> bytes:
    body = json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": "scripted",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": content},
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 1000, "completion_tokens": 120, "total_tokens": 1120},
        }
    ).encode()
    head = (
        f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


_REPLIES = {
    "sections": _completion(_AS_SECTIONS),
    "reasoning": _completion(_AS_JSON),
    "typed": _completion(_AS_TYPED_JSON),
}


class _Connection(asyncio.Protocol):
    def __init__(self, latency: float) -> None:
        self._latency = latency
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, mark, body = self._received.partition(b"\r\n\r\n")
        if not mark:
            return
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        if len(body) < length:
            return
        self._received = body[length:]
        asyncio.get_running_loop().call_later(self._latency, self._answer, body[:length])

    def _answer(self, body: bytes) -> None:
        kind = "typed"
        if b"[[ ## " in body:
            kind = "sections"
        elif b"reasoning" in body:
            kind = "reasoning"
        if not self._transport.is_closing():
            self._transport.write(_REPLIES[kind])


async def _serve(latency: float) -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(listener.getsockname()[1], flush=True)
    server = await asyncio.get_running_loop().create_server(
        lambda: _Connection(latency), sock=listener
    )
    await server.serve_forever()


@contextlib.contextmanager
def serving(latency: float = 0.0) -> Iterator[str]:
    """Run the server; give its base URL."""
    command = [sys.executable, str(Path(__file__)), str(latency)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        try:
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()


if __name__ == "__main__":
    asyncio.run(_serve(float(sys.argv[1])))
