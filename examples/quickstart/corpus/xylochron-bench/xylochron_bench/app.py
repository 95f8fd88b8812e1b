"""The routes of the HTTP API, version 2, free of any web framework.

``handle`` takes a request and gives a status and a JSON body; the socket code around it
comes with the extra ``xylochron-bench[http]``.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from xylochron_bench import auth, session
from xylochron_bench.lock import LeaseRequiredError, LockedError, Locks
from xylochron_bench.settings import Settings

Body = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """What a route needs to know of an HTTP request; header names are lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Body = field(default_factory=dict)


class App:
    """The server's state and its routes."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self.clock = clock
        self.locks = Locks()
        self.sessions: dict[str, session.Session] = {}

    def handle(self, request: Request) -> tuple[int, Body]:
        """Answer a request; every refusal is ``{"error": {"code", "message"}}``."""
        try:
            auth.check_origin(request.headers.get("origin"), self.settings.server.allowed_origins)
            token = auth.authenticate(request.headers, self.settings.tokens)
            return self._route(request, token)
        except auth.AuthError as error:
            return error.status, _error(error.code, error)
        except LockedError as error:
            return 409, _error("session_locked", error)
        except session.SessionError as error:
            return 422, _error(error.code, error)
        except LeaseRequiredError as error:
            return 428, _error("lease_required", error)
        except KeyError as error:
            return 400, _error("bad_request", error)

    def _route(self, request: Request, token: auth.Token) -> tuple[int, Body]:
        path = request.path.removeprefix(self.settings.server.base_path)
        parts = path.removeprefix("/api/v2/").split("/")
        if parts == ["sessions"] and request.method == "POST":
            return self._create(request, token)
        if parts[0] != "sessions" or len(parts) < 2 or parts[1] not in self.sessions:
            return 404, _error("not_found", Exception(request.path))
        one, action = self.sessions[parts[1]], parts[2] if len(parts) > 2 else ""
        if request.method == "GET" and action == "rings":
            return 200, {"widths_um": one.widths, "order": one.order}
        if request.method == "GET" and action == "export":
            widths, first = one.export_widths()
            return 200, {"id": one.id, "first_year": first, "widths_um": widths}
        auth.require(token, "measure")
        if action == "lease":
            return self._lease(request, token, one.id)
        self.locks.check(one.id, request.headers.get("x-lease", ""), self.clock())
        return self._write(request, one, action)

    def _create(self, request: Request, token: auth.Token) -> tuple[int, Body]:
        auth.require(token, "measure")
        directory, name = self.settings.server.state_dir, request.body["id"]
        if request.body.get("recover"):
            one = session.recover(directory, name)
        else:
            one = session.create(
                directory,
                name,
                order=request.body.get("order", "bark_to_pith"),
                last_year=request.body.get("last_year"),
            )
        self.sessions[one.id] = one
        return 201, {"id": one.id, "count": len(one.widths)}

    def _lease(self, request: Request, token: auth.Token, name: str) -> tuple[int, Body]:
        now = self.clock()
        if request.method == "DELETE":
            self.locks.release(name, request.headers.get("x-lease", ""))
            return 204, {}
        if request.method == "PUT":
            lease = self.locks.renew(name, request.headers.get("x-lease", ""), now)
        else:
            steal = bool(request.body.get("steal"))
            if steal:
                auth.require(token, "admin")
            lease = self.locks.acquire(name, token.name, now, steal=steal)
        return 200, {"key": lease.key, "seconds": round(lease.expires - now)}

    def _write(self, request: Request, one: session.Session, action: str) -> tuple[int, Body]:
        if action == "rings":
            width = one.mark(request.body["um"], force=bool(request.body.get("force")))
            return 201, {"width_um": width, "count": len(one.widths)}
        if action == "absent":
            one.absent()
        elif action == "rezero":
            one.rezero(request.body["um"])
        elif action == "undo":
            one.undo()
        else:
            return 404, _error("not_found", Exception(request.path))
        return 200, {"count": len(one.widths)}


def _error(code: str, error: Exception) -> Body:
    return {"error": {"code": code, "message": str(error)}}
