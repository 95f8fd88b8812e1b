"""A measuring session: ring boundaries marked one by one, and a journal on disk.

Every event is appended to ``<state_dir>/<session id>.jsonl`` and flushed before the
client hears of it, so a power cut loses at most the ring being measured. The file is
the session: reading it again gives the same state.
"""

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Order = Literal["pith_to_bark", "bark_to_pith"]
SESSION_ID = re.compile(r"[\w-]{1,64}")
"""Ids become file names: letters, digits, ``_`` and ``-`` only."""


class SessionError(Exception):
    """A request that the session cannot carry out; ``code`` goes to the client."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class Session:
    """One radius being measured."""

    id: str
    path: Path
    order: Order = "bark_to_pith"
    last_year: int | None = None
    min_ring_um: int = 30
    """Narrower rings are refused unless forced: most are a bouncing switch."""
    widths: list[int] = field(default_factory=list)
    """In the order of measuring, µm."""
    position: int = 0

    def mark(self, um: int, *, force: bool = False) -> int:
        """Close a ring at position ``um`` and return its width.

        Raises:
            SessionError: ``negative_width`` if the stage stands before the last
                boundary, ``ring_too_narrow`` below ``min_ring_um``.
        """
        width = um - self.position
        if width < 0:
            raise SessionError(
                "negative_width",
                f"the stage is {-width} µm before the last boundary; "
                "move on, or set direction = -1 if every ring says so",
            )
        if width < self.min_ring_um and not force:
            raise SessionError(
                "ring_too_narrow",
                f"{width} µm is narrower than min_ring_um = {self.min_ring_um}; "
                "send force=true if it is a ring",
            )
        self._log({"event": "ring", "um": um, "width": width})
        self.widths.append(width)
        self.position = um
        return width

    def absent(self) -> None:
        """Record a ring that was not formed here: width 0, the stage stays."""
        self._log({"event": "absent"})
        self.widths.append(0)

    def rezero(self, um: int) -> None:
        """Go on from ``um`` without a ring: after a crack or a change of the radius."""
        self._log({"event": "rezero", "um": um})
        self.position = um

    def undo(self) -> None:
        """Take the last event back, whatever it was; as often as wanted.

        Raises:
            SessionError: ``nothing_to_undo``.
        """
        if len(_in_force(self.path)) == 1:
            raise SessionError("nothing_to_undo", "the session is empty")
        self._log({"event": "undo"})
        state = replay(self.id, self.path)
        self.widths, self.position = state.widths, state.position

    def export_widths(self) -> tuple[list[int], int | None]:
        """Widths from pith to bark with the first year, as files want them.

        A session measured from bark to pith is turned round here and only here: the
        journal and ``GET /rings`` keep the order of measuring.
        """
        widths = self.widths[::-1] if self.order == "bark_to_pith" else list(self.widths)
        first = None if self.last_year is None else self.last_year - len(widths) + 1
        return widths, first

    def _log(self, event: dict[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as journal:
            journal.write(json.dumps(event) + "\n")
            journal.flush()
            os.fsync(journal.fileno())


def create(directory: Path, session_id: str, *, order: Order, last_year: int | None) -> Session:
    """Start a session and its journal.

    Raises:
        SessionError: ``session_exists`` or ``bad_id``.
    """
    path = _journal(directory, session_id)
    if path.exists():
        raise SessionError("session_exists", f"{session_id!r} exists; recover it or choose another")
    session = Session(session_id, path, order, last_year)
    session._log({"event": "start", "order": order, "last_year": last_year})
    return session


def recover(directory: Path, session_id: str) -> Session:
    """Open the journal of a session again, after a crash or a restart.

    Raises:
        SessionError: ``no_journal`` or ``bad_id``.
    """
    path = _journal(directory, session_id)
    if not path.is_file():
        raise SessionError("no_journal", f"there is no journal of {session_id!r}")
    return replay(session_id, path)


def read_journal(path: Path) -> list[dict[str, Any]]:
    """The events of a journal. A last line cut off by a crash is left out."""
    events = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            events.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return events


def replay(session_id: str, path: Path) -> Session:
    """Rebuild a session from its journal."""
    start, *events = _in_force(path)
    session = Session(session_id, path, start["order"], start["last_year"])
    for event in events:
        if event["event"] == "ring":
            session.widths.append(event["width"])
        elif event["event"] == "absent":
            session.widths.append(0)
        session.position = event.get("um", session.position)
    return session


def _journal(directory: Path, session_id: str) -> Path:
    if not SESSION_ID.fullmatch(session_id):
        raise SessionError("bad_id", f"id {session_id!r} has other signs than letters, digits, - _")
    return directory / f"{session_id}.jsonl"


def _in_force(path: Path) -> list[dict[str, Any]]:
    """The events that no later undo took back; the first is always ``start``."""
    kept: list[dict[str, Any]] = []
    for event in read_journal(path):
        kept = kept[:-1] if event["event"] == "undo" else [*kept, event]
    return kept
