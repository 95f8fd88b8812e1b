"""A hub on the loopback: of the Hugging Face hub's protocol, what creating and uploading use."""

import base64
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hf_secret_of_a_test"
COMMIT = "c0ffee" * 6 + "c0ff"


@dataclass
class Repository:
    private: bool
    files: dict[str, bytes] = field(default_factory=dict)
    commits: list[str] = field(default_factory=list)


class Hub:
    """What the server holds, and the method, path and Authorization header of every request."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.requests: list[tuple[str, str, str]] = []
        self.forbidden = False  # the token is known, but may not write
        self.broken = False  # the commit fails
        self.url = ""

    def answer(self, path: str, body: bytes) -> tuple[int, Any]:
        if self.forbidden:
            return 403, {"error": "no"}
        if path == "/api/repos/create":
            return self._create(json.loads(body))
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        found = re.fullmatch(r"/api/datasets/([^/]+/[^/]+)(?:/(\w+)/main)?", path)
        if not found or found[1] not in self.repositories:
            return 404, {"error": "not found"}
        repository = self.repositories[found[1]]
        if found[2] == "preupload":
            return self._preupload(json.loads(body))
        if found[2] == "commit":
            return self._commit(repository, f"{self.url}/datasets/{found[1]}", body)
        if found[2] == "tree":
            return 200, [_entry(name, data) for name, data in repository.files.items()]
        return 200, {"id": found[1], "sha": COMMIT, "siblings": [], "private": repository.private}

    def _create(self, wanted: dict[str, Any]) -> tuple[int, Any]:
        name = f"{wanted['organization']}/{wanted['name']}"
        url = f"{self.url}/datasets/{name}"
        if name in self.repositories:
            return 409, {"error": "You already created this dataset repo", "url": url}
        private = bool(wanted.get("private")) or wanted.get("visibility") == "private"
        self.repositories[name] = Repository(private)
        return 200, {"url": url, "name": name}

    def _preupload(self, wanted: dict[str, Any]) -> tuple[int, Any]:
        names = [file["path"] for file in wanted["files"]]
        mode = {"uploadMode": "regular", "shouldIgnore": False}
        return 200, {"files": [{"path": name, **mode} for name in names]}

    def _commit(self, repository: Repository, url: str, body: bytes) -> tuple[int, Any]:
        if self.broken:
            return 400, {"error": "the commit failed"}
        files = dict(repository.files)
        message = ""
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "header":
                message = value["summary"]
            elif line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            else:
                del files[value["path"]]
        repository.files = files
        repository.commits.append(message)
        done = {"commitUrl": f"{url}/commit/{COMMIT}", "commitOid": COMMIT}
        return 200, {**done, "pullRequestUrl": None}


def _entry(name: str, data: bytes) -> dict[str, Any]:
    return {"type": "file", "path": name, "size": len(data), "oid": "0" * 40}


class _Handler(BaseHTTPRequestHandler):
    hub: Hub

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        given = self.headers.get("Authorization") or ""
        path = self.path.partition("?")[0]
        self.hub.requests.append((self.command, path, given))
        if given != f"Bearer {TOKEN}":
            status, answer = 401, {"error": "Invalid username or password."}
        else:
            status, answer = self.hub.answer(path, body)
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_HEAD = _serve

    def log_message(self, *_: Any) -> None:
        """Be silent."""


@contextmanager
def serving_hub() -> Iterator[Hub]:
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
