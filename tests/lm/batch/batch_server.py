"""A real HTTP server that speaks three batch APIs and answers every request by a script.

OpenAI's `/v1/files` and `/v1/batches`, Azure's shape of the same under `/openai/`, Anthropic's
`/v1/messages/batches`; and one live endpoint of each kind, to compare with.
"""

import email.parser
import email.policy
import functools
import json
import re
import time
from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.lm.chat_server import LocalServer, Script, Scripted

from .batch_shapes import (
    FILE,
    Course,
    Json,
    Made,
    Shape,
    as_json,
    as_lines,
    message,
    message_batch,
    message_result,
    openai_batch,
    output_line,
)

Interruption = Callable[[], Scripted | None]
"""What happens in the middle of a call: None goes on, anything else is answered in its place."""


class BatchServer(LocalServer):
    """Makes batches, and remembers everything that it was asked."""

    protocol = "HTTP/1.0"  # LiteLLM would leave connections open behind it

    def __init__(self, script: Script) -> None:
        super().__init__()
        self.script = script
        self.course = Course()
        self.page = 2
        """Most batches in one page of a list."""
        self.files: dict[str, bytes] = {}
        self.made: list[Made] = []
        self.calls: Counter[str] = Counter()
        self.keys: set[str] = set()
        """Every key that came in a header."""
        self.live: list[Json] = []
        """The bodies of live requests."""
        self.before: dict[str, Interruption] = {}
        """By call: `upload`, `create`, `retrieve`, `content`, `list`."""
        self.after: dict[str, Interruption] = {}
        """The same, once the work is done and before it is told."""

    def add(self, custom_ids: list[str], **fields: Any) -> Made:
        """A batch that somebody else made."""
        asked = {"messages": [{"role": "user", "content": "theirs"}]}
        lines = [{"custom_id": each, "body": asked, "params": asked} for each in custom_ids]
        return self._make(lines, **fields)

    def answer(self, method: str, target: str, headers: Any, content: bytes) -> Scripted:
        url = urlsplit(target)
        path = re.sub(r"^/(v1|openai/v1|openai)", "", url.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        for name in ("Authorization", "api-key", "x-api-key"):
            if headers.get(name):
                self.keys.add(headers[name].removeprefix("Bearer "))
        if url.path.startswith("/openai/") and "api-version" not in query:
            return Scripted("api-version is missing", status=404)
        call, act = self._route(method, path, query, headers, content)
        with self._lock:
            self.calls[call] += 1
        for hooks, work in ((self.before, act), (self.after, None)):
            instead = hooks.get(call, lambda: None)()
            if instead is not None:
                return instead
            if work is not None:
                with self._lock:
                    done = work()
        return done

    def _route(
        self, method: str, path: str, query: dict[str, str], headers: Any, content: bytes
    ) -> tuple[str, Callable[[], Scripted]]:
        def body() -> Json:
            value: Json = json.loads(content)
            return value

        routes: dict[str, tuple[str, Callable[..., Scripted]]] = {
            "POST /files": ("upload", lambda: self._upload(headers["Content-Type"], content)),
            "POST /batches": ("create", lambda: self._create(body())),
            "GET /batches": ("list", lambda: self._list(query, openai_batch)),
            "GET /batches/([^/]+)": ("retrieve", lambda name: self._retrieve(name, openai_batch)),
            "GET /files/([^/]+)/content": ("content", self._content),
            "POST /messages/batches": ("create", lambda: self._create_messages(body())),
            "GET /messages/batches": ("list", lambda: self._list(query, message_batch)),
            "GET /messages/batches/([^/]+)": (
                "retrieve",
                lambda name: self._retrieve(name, message_batch),
            ),
            "GET /messages/batches/([^/]+)/results": ("content", self._message_results),
            "POST /messages": ("live", lambda: self._live(body(), message)),
            "POST (?:/deployments/[^/]+)?/chat/completions": (
                "live",
                lambda: self._live(body(), Scripted.encoded),
            ),
        }
        for pattern, (call, act) in routes.items():
            if found := re.fullmatch(pattern, f"{method} {path}"):
                return call, functools.partial(act, *found.groups())
        return "nothing", lambda: Scripted(f"there is no {method} {path}", status=404)

    def _make(self, requests: list[Json], **fields: Any) -> Made:
        fields = {"created_at": time.time(), **fields}
        made = Made(f"batch_{len(self.made) + 1}", requests, **fields)
        self.made.append(made)
        return made

    def _upload(self, content_type: str, content: bytes) -> Scripted:
        head = f"Content-Type: {content_type}\r\n\r\n".encode()
        form = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + content)
        parts: Json = {
            str(part.get_param("name", header="content-disposition")): part.get_payload(decode=True)
            for part in form.iter_parts()
        }
        assert parts["purpose"] == b"batch"
        file_id = f"file-{len(self.files) + 1}"
        self.files[file_id] = parts["file"]
        return as_json({"id": file_id, **FILE, "bytes": len(parts["file"]), "filename": "f.jsonl"})

    def _create(self, body: Json) -> Scripted:
        content = self.files[body["input_file_id"]]
        lines = [json.loads(line) for line in content.decode().splitlines()]
        assert {line["url"] for line in lines} == {body["endpoint"]}
        made = self._make(
            lines,
            file_id=body["input_file_id"],
            endpoint=body["endpoint"],
            metadata=body.get("metadata"),
        )
        return as_json(openai_batch(made, self.course))

    def _create_messages(self, body: Json) -> Scripted:
        for request in body["requests"]:
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", request["custom_id"])
            assert {"model", "max_tokens", "messages"} <= request["params"].keys()
        return as_json(message_batch(self._make(body["requests"]), self.course))

    def _list(self, query: dict[str, str], shape: "Shape") -> Scripted:
        newest = sorted(self.made, key=lambda made: -made.created_at)
        ids = [made.batch_id for made in newest]
        after = query.get("after") or query.get("after_id")
        start = ids.index(after) + 1 if after else 0
        page = newest[start : start + self.page]
        return as_json(
            {
                "object": "list",
                "data": [shape(made, self.course) for made in page],
                "first_id": page[0].batch_id if page else None,
                "last_id": page[-1].batch_id if page else None,
                "has_more": start + self.page < len(newest),
            }
        )

    def _retrieve(self, batch_id: str, shape: "Shape") -> Scripted:
        for made in self.made:
            if made.batch_id == batch_id:
                made.looks += 1
                return as_json(shape(made, self.course))
        return Scripted(f"no batch {batch_id}", status=404)

    def _content(self, file_id: str) -> Scripted:
        kind, _, batch_id = file_id.partition("-of-")
        made = next(made for made in self.made if made.batch_id == batch_id)
        lines = []
        for request in made.requests:
            reply = self.script(request["body"])
            if not reply.drop and (kind == "output") == (reply.status == 200):
                lines.append(json.dumps(output_line(request["custom_id"], reply)))
        return as_lines(lines + (self.course.extra_lines if kind == "output" else []))

    def _message_results(self, batch_id: str) -> Scripted:
        made = next(made for made in self.made if made.batch_id == batch_id)
        lines = []
        for request in made.requests:
            reply = self.script(request["params"])
            result = {"type": "expired"} if reply.drop else message_result(reply)
            lines.append(json.dumps({"custom_id": request["custom_id"], "result": result}))
        return as_lines(lines + self.course.extra_lines)

    def _live(self, body: Json, encode: Callable[[Scripted], bytes]) -> Scripted:
        self.live.append(body)
        reply = self.script(body)
        return Scripted(status=reply.status, body=encode(reply))
