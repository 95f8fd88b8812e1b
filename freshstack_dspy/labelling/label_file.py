"""The labels file of one annotator: one process writes it, and syncs each label to disk."""

import codecs
import os
from collections.abc import Container, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

from freshstack_dspy.calibration.following import follow_all
from freshstack_dspy.calibration.labels import (
    AnyLabel,
    TaskId,
    latest,
    read_label,
    task_id,
)
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.files import encode_records, only_writer, write_file

_BEGINNING = b'{"query_id"'
"""The beginning of every line that is written here."""


class LabelFile:
    """The labels of one annotator; labels of other tasks and people in the file are left alone.

    Changes are appended too: if a task has several labels, the last one counts.

    Attributes:
        labels: The annotator's labels that count, by task, also if a passage has a new id.
        others: The labels of other tasks and people.

    Raises:
        ConfigError: Another process writes the file, or it cannot be opened.
        CollectionError: As `all_labels` and `follow_all`.
    """

    def __init__(
        self, path: Path, annotator: str, tasks: Container[TaskId], collection: Collection
    ) -> None:
        self.path, self.annotator = path, annotator
        self.labels: dict[TaskId, tuple[AnyLabel, ...]] = {}
        self.others: list[AnyLabel] = []
        self._before: list[tuple[TaskId, tuple[AnyLabel, ...], int]] = []
        """For each label written here: its task, what counted before, and the length of the file."""
        try:
            with ExitStack() as opened:
                opened.enter_context(only_writer(path, "freshstack label"))
                content = _content(path)
                self._content = _whole_lines(content)
                labels, lost = follow_all(latest(_numbered(self._content), path), collection)
                if self._content != content:
                    write_file(path, self._content)
                self._lock = opened.pop_all()
        except OSError as error:
            raise ConfigError(f"{path}: cannot be opened: {error.strerror}") from None
        for label in labels:
            if label.annotator == annotator and (task := task_id(label)) in tasks:
                self.labels[task] = (*self.labels.get(task, ()), label)
            else:
                self.others.append(label)
        self.others += chain.from_iterable(lost.values())

    def put(self, labels: Sequence[AnyLabel]) -> None:
        """Append the labels of a task, which replace its earlier ones.

        Raises:
            CollectionError: As `check`.
            OSError: They cannot be written; the file is unchanged.
        """
        self.check()
        task, lines = task_id(labels[0]), encode_records(labels)
        self._append(lines)
        self._before.append((task, self.labels.get(task, ()), len(self._content)))
        self._content += lines
        self.labels[task] = tuple(labels)

    def undo(self) -> TaskId | None:
        """Undo the last write and give its task; None if nothing was written yet.

        Raises the same errors as `put`.
        """
        if not self._before:
            return None
        self.check()
        task, labels, length = self._before[-1]
        os.truncate(self.path, length)
        self._before.pop()
        self._content = self._content[:length]
        if labels:
            self.labels[task] = labels
        else:
            del self.labels[task]
        return task

    def check(self) -> None:
        """Check that nothing else changed the file.

        Raises:
            CollectionError: It was changed, replaced or removed; a copy is next to it.
            OSError: It cannot be read.
        """
        if _content(self.path) != self._content:
            copy = self.path.with_name(f"{self.path.name}.before")
            write_file(copy, self._content)
            raise CollectionError(
                f"{self.path} was changed, replaced or removed by another program, and nothing "
                f"more is written to it; what it held is in {copy}. Either put that in its place "
                "and go on here, or start freshstack label again to go on with the file as it is"
            )

    def close(self) -> None:
        """Let others open the file."""
        self._lock.close()

    def _append(self, lines: bytes) -> None:
        try:
            with self.path.open("ab") as file:
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            # Not earlier: closing a file retries what could not be written before.
            if self.path.exists():
                os.truncate(self.path, len(self._content))
            raise


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _whole_lines(data: bytes) -> bytes:
    """End the last line; leave it out if a killed process wrote only a part of it."""
    whole, line_end, rest = data.rpartition(b"\n")
    if not rest:
        return data
    try:
        read_label(rest, "")
    except CollectionError:
        begun = rest[: len(_BEGINNING)] == _BEGINNING[: len(rest)]
        return whole + line_end if begun else data
    return data + b"\n"


def _numbered(data: bytes) -> Iterator[tuple[int, bytes]]:
    return enumerate(data.removeprefix(codecs.BOM_UTF8).split(b"\n"), start=1)
