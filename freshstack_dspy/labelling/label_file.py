"""The labels file of one annotator: held by one process, every label on the disk at once."""

import codecs
import fcntl
import os
from collections.abc import Container, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import IO

from freshstack_dspy.calibration.following import follow_all
from freshstack_dspy.calibration.labels import (
    AnyLabel,
    TaskId,
    once,
    read_label,
    task_id,
)
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.files import encode_records, write_file

_BEGINNING = b'{"query_id"'
"""Of every line that is written here."""


class LabelFile:
    """The labels of one annotator; those of other tasks and people in the file stay as they are.

    What is new is appended; a change replaces the file in one step.

    Attributes:
        labels: What the annotator gave for each task, the latest last; also where its passage
            has another id now.
        others: Those of other tasks and people.

    Raises:
        ConfigError: Another process has opened it, or it cannot be opened.
        CollectionError: As `all_labels` and `follow_all`.
    """

    def __init__(
        self, path: Path, annotator: str, tasks: Container[TaskId], collection: Collection
    ) -> None:
        self.path, self.annotator = path, annotator
        self.labels: dict[TaskId, tuple[AnyLabel, ...]] = {}
        self.others: list[AnyLabel] = []
        try:
            with ExitStack() as opened:
                self._lock = opened.enter_context(_locked(path))
                found = _content(path)
                self._content = _whole_lines(found)
                placed = list(once(_placed(self._content, path)))
                labels, lost = follow_all(placed, collection)
                if self._content != found:
                    write_file(path, self._content)
                opened.pop_all()
        except OSError as error:
            raise ConfigError(f"{path}: cannot be opened: {error.strerror}") from None
        for label in labels:
            if label.annotator == annotator and (task := task_id(label)) in tasks:
                self.labels[task] = (*self.labels.get(task, ()), label)
            else:
                self.others.append(label)
        self.others += chain.from_iterable(lost.values())
        self._before: list[tuple[TaskId, tuple[AnyLabel, ...]]] = [(one, ()) for one in self.labels]

    def put(self, labels: Sequence[AnyLabel]) -> None:
        """Write the labels of a task in place of those that it has, if any.

        Raises:
            CollectionError: As `check`.
            OSError: They cannot be written; the file is as before.
        """
        task = task_id(labels[0])
        before = self.labels.get(task, ())
        self._write(task, tuple(labels))
        self._before.append((task, before))

    def undo(self) -> TaskId | None:
        """Take back what was written last, and give its task; None where there is nothing.

        Raises as `put`.
        """
        if not self._before:
            return None
        self._write(*self._before[-1])
        return self._before.pop()[0]

    def check(self) -> None:
        """Check that the file is as it was left, and held by this process.

        Raises:
            ConfigError: Its lock was removed, and another process has opened it.
            CollectionError: It was changed, replaced or removed; a copy is next to it.
            OSError: It cannot be read.
        """
        held = os.fstat(self._lock.fileno())
        if not (lock := _lock_of(self.path)).exists() or not os.path.samestat(held, lock.stat()):
            again = _locked(self.path)
            self.close()
            self._lock = again
        if _content(self.path) != self._content:
            copy = self.path.with_name(f"{self.path.name}.before")
            write_file(copy, self._content)
            raise CollectionError(
                f"{self.path} was changed, replaced or removed by another program, and nothing "
                f"more is written to it; what it held is in {copy}. Either put that in its place "
                "and go on here, or start freshstack label again to go on with the file as it is"
            )

    def close(self) -> None:
        """Let others open it."""
        self._lock.close()

    def _write(self, task: TaskId, labels: tuple[AnyLabel, ...]) -> None:
        self.check()
        after = {one: given for one, given in self.labels.items() if one != task}
        if labels:
            after[task] = labels
        if task in self.labels:
            given = (label for each in after.values() for label in each)
            content = encode_records([*self.others, *given])
            write_file(self.path, content)
        else:
            content = self._content + encode_records(labels)
            self._append(content[len(self._content) :])
        self._content, self.labels = content, after

    def _append(self, lines: bytes) -> None:
        try:
            with self.path.open("ab") as file:
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            # Only now: closing a file writes again what could not be written before.
            if self.path.exists():
                os.truncate(self.path, len(self._content))
            raise


def _lock_of(path: Path) -> Path:
    # The labels file itself is replaced at times, and a lock would go with the old one.
    return path.with_name(f".{path.name}.lock")


def _locked(path: Path) -> IO[str]:
    lock = _lock_of(path).open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise ConfigError(
            f"{path}: another freshstack label writes it; use that one, or another file"
        ) from None
    return lock


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _whole_lines(data: bytes) -> bytes:
    """End the last line; leave it out where a killed process has not written it to its end."""
    whole, line_end, rest = data.rpartition(b"\n")
    if not rest:
        return data
    try:
        read_label(rest, "")
    except CollectionError:
        begun = rest[: len(_BEGINNING)] == _BEGINNING[: len(rest)]
        return whole + line_end if begun else data
    return data + b"\n"


def _placed(data: bytes, path: Path) -> Iterator[tuple[str, AnyLabel]]:
    for number, line in enumerate(data.removeprefix(codecs.BOM_UTF8).split(b"\n"), start=1):
        if line.strip():
            yield f"{path}:{number}", read_label(line, f"{path}:{number}")
