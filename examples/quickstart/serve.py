"""Play a language model on this machine: an OpenAI-compatible server for the sample's questions.

    python examples/quickstart/serve.py 8000

It replies with what was written by hand in `answers/`, and with an error to all else.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from answer import read_answers, reply_to

QUESTIONS = read_answers()


class Handler(BaseHTTPRequestHandler):
    """Answers `POST /v1/chat/completions`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        """Reply with what was written for the question."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            self.send(200, completion(body, reply_to(body, QUESTIONS)))
        except KeyError as error:
            self.send(400, {"error": {"message": f"nothing was written for {error}"}})

    def send(self, status: int, content: dict[str, Any]) -> None:
        """Send JSON."""
        payload = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def completion(body: dict[str, Any], content: str) -> dict[str, Any]:
    """A reply as the protocol has it; a token is taken to be four bytes."""
    asked, said = len(json.dumps(body)) // 4, len(content) // 4
    message = {"role": "assistant", "content": content}
    return {
        "id": "written",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": asked,
            "completion_tokens": said,
            "total_tokens": asked + said,
        },
    }


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
    server.serve_forever()
