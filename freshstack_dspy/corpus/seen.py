"""What was found in each file of a folder, kept, so that files that did not change are not read again."""

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from freshstack_dspy.corpus.tree import TreeEntry
from freshstack_dspy.files import write_file

_RACY = 2_000_000_000
"""Nanoseconds. What changed so shortly before it was read could change once more and have the same
times, as the clocks of file systems are coarse: it is read again (git's rule for racy files)."""


class SeenFiles:
    """Values that depend on the contents of files, by the files' sizes and times of change."""

    def __init__(self, path: Path, of: str) -> None:
        """Read what `save` wrote for the same `of`: all that the values depend on besides."""
        self._path, self._of = path, of
        self._newest = time.time_ns() - _RACY
        self._before: dict[str, Any] = {}
        self._now: dict[str, Any] = {}
        with suppress(OSError, ValueError, TypeError, KeyError):  # missing or damaged: all is read
            kept = json.loads(path.read_bytes())
            self._before = kept["files"] if kept["of"] == of else {}

    def get(self, entry: TreeEntry) -> Any:
        """The value that was kept of a file that did not change since, or None."""
        stamp, value = self._before.get(entry.path, (None, None))
        if entry.stamp is None or stamp != list(entry.stamp):
            return None
        self._now[entry.path] = [stamp, value]
        return value

    def keep(self, entry: TreeEntry, value: Any) -> None:
        """Keep a value of JSON of what was read of a file."""
        if entry.stamp is not None and max(entry.stamp[1:3]) < self._newest:
            self._now[entry.path] = [list(entry.stamp), value]

    def save(self) -> None:
        """Keep the values; where nothing can be written, all is read again next time."""
        if self._now != self._before:
            with suppress(OSError):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                write_file(self._path, json.dumps({"of": self._of, "files": self._now}))
