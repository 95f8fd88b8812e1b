"""A hub on the loopback: of the Hugging Face hub's protocol, what creating and uploading use.

Large files go by LFS: a batch request names where each is to be put, and the commit then names it
by its hash. A commit that names what was never put is refused, as the hub does.
"""

import base64
import hashlib
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
    """What the server holds, and every request that it got.

    Attributes:
        repositories: By `owner/name`.
        requests: Method, path and the value of the Authorization header.
        forbidden: Whether the token is known, but may not write.
        broken: Whether the commit fails after the files are there.
    """

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.blobs: dict[str, bytes] = {}
        self.requests: list[tuple[str, str, str]] = []
        self.forbidden = False
        self.broken = False
        self.url = ""

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        if self.forbidden:
            return 403, {"error": "no"}
        if path == "/api/repos/create":
            return self._create(json.loads(body))
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if method == "PUT":
            data = hashlib.sha256(body).hexdigest()
            self.blobs[data] = body
            return (200, {}) if path.endswith(data) else (400, {"error": "another hash"})
        if found := re.fullmatch(r"/datasets/(.+)\.git/info/lfs/objects/batch", path):
            return self._batch(json.loads(body))
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
        files = [
            {
                "path": file["path"],
                "uploadMode": "lfs" if file["path"].endswith(".parquet") else "regular",
                "shouldIgnore": False,
            }
            for file in wanted["files"]
        ]
        return 200, {"files": files}

    def _batch(self, wanted: dict[str, Any]) -> tuple[int, Any]:
        objects = []
        for each in wanted["objects"]:
            put = {"upload": {"href": f"{self.url}/blobs/{each['oid']}"}}
            objects.append({**each, **({} if each["oid"] in self.blobs else {"actions": put})})
        return 200, {"transfer": "basic", "objects": objects}

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
            elif line["key"] == "lfsFile":
                if value["oid"] not in self.blobs:
                    return 400, {"error": f"{value['path']} was never uploaded"}
                files[value["path"]] = self.blobs[value["oid"]]
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
        if self.command != "PUT" and given != f"Bearer {TOKEN}":
            status, answer = 401, {"error": "Invalid username or password."}
        else:
            status, answer = self.hub.answer(self.command, path, body)
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_HEAD = _serve

    def log_message(self, *_: Any) -> None:
        """Be silent."""


@contextmanager
def serving_hub() -> Iterator[Hub]:
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
