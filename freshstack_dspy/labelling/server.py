"""The server of the page, on the loopback interface, for requests with the token only."""

import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from freshstack_dspy.calibration.labels import AnyLabel, TaskId
from freshstack_dspy.errors import CollectionError, ConfigError, FreshstackError
from freshstack_dspy.labelling.judged import Filters, JudgmentTasks
from freshstack_dspy.labelling.label_file import LabelFile
from freshstack_dspy.labelling.tasks import Tasks, instructions

ADDRESS = "127.0.0.1"
_FILES = {
    "page.html": "text/html",
    "page.css": "text/css",
    "page.js": "text/javascript",
    "judged.js": "text/javascript",
}
_LARGEST_BODY, _DIGITS = 1 << 20, 9
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Labelling:
    """What the page asks of the server."""

    def __init__(
        self, tasks: Tasks, file: LabelFile | None, token: str, *, blind: bool = False
    ) -> None:
        """Serve tasks; without a file, the judgments of a collection are read-only."""
        self._tasks, self._file, self._token, self._blind = tasks, file, token, blind
        self._ids = list(tasks.by_id)
        if isinstance(tasks, JudgmentTasks) and file is not None:
            tasks.add(file.others)

    def app(self) -> Starlette:
        """Give the application."""
        return Starlette(
            routes=[
                Route("/", self._page),
                Route("/{name}", self._page),
                Route("/api/state", self._state),
                Route("/api/undo", self._undo, methods=["POST"]),
                Route("/api/tasks/{number}", self._task, methods=["GET", "POST"]),
                Route("/api/tasks/{number}/verdict", self._verdict),
                Route("/api/queries/{place}", self._search),
                Route("/api/judgments/{place}", self._search),
            ],
            exception_handlers={FreshstackError: _not_done, OSError: _not_written},
            middleware=[
                # DNS rebinding: a foreign page whose name resolves here sends another host.
                Middleware(TrustedHostMiddleware, allowed_hosts=[ADDRESS, "localhost"]),
                Middleware(BaseHTTPMiddleware, dispatch=self._guarded),
            ],
        )

    async def _guarded(
        self, request: Request, answer: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        token = request.headers.get("X-Token") or request.query_params.get("token", "")
        own = f"http://{request.headers.get('Host')}"
        if request.headers.get("Origin", own) != own:
            response = _fault("a page from elsewhere may not ask", 403)
        elif secrets.compare_digest(token.encode(), self._token.encode()):
            response = await answer(request)
        else:
            response = _fault("open the address that freshstack label prints", 403)
        response.headers.update(_HEADERS)
        return response

    async def _page(self, request: Request) -> Response:
        name = request.path_params.get("name", "page.html")
        if name not in _FILES:
            return _fault("there is no such page", 404)
        text = Path(__file__).with_name(name).read_text(encoding="utf-8")
        return Response(text.replace("{token}", self._token), media_type=_FILES[name])

    async def _state(self, _: Request) -> Response:
        if self._file is not None:
            self._file.check()
        collection = self._tasks.collection
        state = {
            "collection": collection.name,
            "annotator": self._file.annotator if self._file else None,
            "file": str(self._file.path) if self._file else None,
            "techniques": self._tasks.techniques
            if isinstance(self._tasks, JudgmentTasks)
            else None,
            "blind": self._blind,
            "grades": {
                kind: [grade._asdict() for grade in grades]
                for kind, grades in self._tasks.grades.items()
            },
            "instructions": instructions(collection.manifest.scale.name),
        }
        return JSONResponse(state | self._progress())

    async def _task(self, request: Request) -> Response:
        """Show a task, or write its labels and reply once they are on disk."""
        number = _number(request.path_params["number"])
        if number >= len(self._ids):
            return _fault("there is no such task", 404)
        task = self._tasks.by_id[self._ids[number]]
        if request.method != "POST":
            whole = "whole" in request.query_params
            shown = await run_in_threadpool(self._tasks.shown, task, whole=whole)
            return JSONResponse(shown | {"given": self._given(number)})
        file = self._writable()
        sent = bytearray()
        async for part in request.stream():
            sent += part
            if len(sent) > _LARGEST_BODY:
                return _fault(f"more than {_LARGEST_BODY >> 20} MiB", 413)
        before = self._given(number)
        time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        labels = self._tasks.labels(task, bytes(sent), annotator=file.annotator, time=time)
        file.put(labels)
        # Another tab may have labelled the task after this one loaded it, at the time in `seen`.
        seen = request.query_params.get("seen")
        changed = before and seen is not None and seen != before[0]["time"]
        replaced = {"replaced": before if changed else []}
        return JSONResponse(self._progress() | {"given": self._given(number)} | replaced)

    async def _verdict(self, request: Request) -> Response:
        number = _number(request.path_params["number"])
        if self._blind or number >= len(self._ids) or not self._given(number):
            return _fault("the judge's label is shown after yours, and never to the blind", 409)
        return JSONResponse(self._tasks.verdict(self._tasks.by_id[self._ids[number]]))

    async def _undo(self, _: Request) -> Response:
        task = self._writable().undo()
        return JSONResponse(self._progress() | {"number": task and self._ids.index(task)})

    async def _search(self, request: Request) -> Response:
        """List queries with matching judgments, or the matching judgments of one query."""
        if not isinstance(self._tasks, JudgmentTasks):
            return _fault("these are tasks, and no collection", 404)
        parameters = request.query_params
        filters = Filters(**{name: parameters.get(name, "") for name in Filters._fields})
        place = _number(request.path_params["place"])
        if request.url.path.startswith("/api/queries"):
            return JSONResponse(self._tasks.queries(filters, self._own, place))
        number = parameters.get("number", "")
        wanted = _number(number) if number else None
        return JSONResponse(self._tasks.around(filters, self._own, place, wanted))

    def _writable(self) -> LabelFile:
        if self._file is None:
            raise ConfigError("nobody is named who labels: start it again with an annotator")
        return self._file

    @property
    def _own(self) -> Mapping[TaskId, Sequence[AnyLabel]]:
        return self._file.labels if self._file else {}

    def _given(self, number: int) -> list[dict[str, Any]]:
        labels = self._own.get(self._ids[number], ())
        return [self._tasks.in_characters(label) for label in labels]

    def _progress(self) -> dict[str, Any]:
        done = [number for number, task in enumerate(self._ids) if task in self._own]
        return {"done": done, "total": len(self._ids)}


def serve(app: Starlette, listener: socket.socket) -> None:
    """Serve until interrupted."""
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, lifespan="off", server_header=False
    )
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])


def _number(text: str) -> int:
    """Read a number; anything else becomes a number larger than all that exist."""
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else 10**_DIGITS


def _fault(message: str, status: int) -> Response:
    return JSONResponse({"error": message}, status)


async def _not_done(_: Request, error: Exception) -> Response:
    return _fault(str(error), 409 if isinstance(error, CollectionError) else 422)


async def _not_written(_: Request, error: Exception) -> Response:
    why = getattr(error, "strerror", None) or error
    return _fault(f"Not saved, the disk says: {why}. Mend that and label again", 507)
