"""What was found in each file of a folder, kept, so that files that did not change are not read again."""

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from freshstack_dspy.config import CorpusConfig
from freshstack_dspy.corpus.files import Entry, list_files
from freshstack_dspy.corpus.tree import TreeEntry
from freshstack_dspy.files import write_file
from freshstack_dspy.records import LicenceFile, SkippedFile

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


class ReadFile(NamedTuple):
    """A file that has text to cut, by its content."""

    source: str
    path: str
    sha256: str
    encoding: str
    revision: str | None

    @property
    def content(self) -> tuple[str, str, str, str]:
        """All but the revision."""
        return self[:4]


Seen = ReadFile | SkippedFile | LicenceFile


def look_at_files(
    corpus: CorpusConfig, max_file_bytes: int, seen: SeenFiles
) -> Iterator[tuple[Seen, Callable[[], Entry]]]:
    """Give what is in each file of a corpus, and what reads it; those that did not change are not read."""
    for entry, read in list_files(corpus, max_file_bytes):
        if (kept := seen.get(entry)) is not None:
            kind, values = kept
            yield _KINDS[kind](**values), read
            continue
        found = _seen_in(read())
        if not isinstance(found, SkippedFile) or found.kind != "unreadable":
            values = found._asdict() if isinstance(found, ReadFile) else found.model_dump()
            seen.keep(entry, [type(found).__name__, values])
        yield found, read
    seen.save()


def _seen_in(file: Entry) -> Seen:
    if isinstance(file, SkippedFile | LicenceFile):
        return file
    digest = hashlib.sha256(file.data).hexdigest()
    return ReadFile(file.source, file.path, digest, file.encoding, file.revision)


_KINDS: dict[str, Callable[..., Seen]] = {
    kind.__name__: kind for kind in (ReadFile, SkippedFile, LicenceFile)
}
