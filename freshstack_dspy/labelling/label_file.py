"""The labels file of one annotator: held by one process, every label on the disk at once."""

import fcntl
import json
import os
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from freshstack_dspy.calibration.labels import AnyLabel, TaskId, all_labels, check_labels, task_id
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.files import encode_records, write_file


@contextmanager
def open_labels(
    path: Path, annotator: str, tasks: Container[TaskId], collection: Collection
) -> Iterator["LabelFile"]:
    """Open the labels file of an annotator, or begin one.

    Raises:
        ConfigError: Another process has opened it.
        CollectionError: As `all_labels` and `check_labels`.
    """
    # The labels file itself is replaced at times, and a lock would go with the old one.
    with path.with_name(f".{path.name}.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"{path}: another freshstack label writes it; use that one, or give another --out"
            ) from None
        yield LabelFile(path, annotator, tasks, collection)


class LabelFile:
    """The labels of one annotator; those of other tasks and people in the file stay as they are.

    Attributes:
        labels: What the annotator gave for each task, the latest last.
    """

    def __init__(
        self, path: Path, annotator: str, tasks: Container[TaskId], collection: Collection
    ) -> None:
        self.path = path
        self.labels: dict[TaskId, tuple[AnyLabel, ...]] = {}
        self._others: list[AnyLabel] = []
        self._mend()
        placed = list(all_labels([path]) if path.exists() else ())
        check_labels(placed, collection)
        for _, label in placed:
            if label.annotator == annotator and (task := task_id(label)) in tasks:
                self.labels[task] = (*self.labels.get(task, ()), label)
            else:
                self._others.append(label)
        self._before: list[tuple[TaskId, tuple[AnyLabel, ...]]] = [(one, ()) for one in self.labels]

    def put(self, labels: Sequence[AnyLabel]) -> None:
        """Write the labels of a task in place of those that it has, if any.

        Raises:
            OSError: They cannot be written; the file is as before.
        """
        task = task_id(labels[0])
        before = self.labels.get(task, ())
        self._write(task, tuple(labels))
        self._before.append((task, before))

    def undo(self) -> TaskId | None:
        """Take back what was written last, and give its task; None where there is nothing."""
        if not self._before:
            return None
        self._write(*self._before[-1])
        return self._before.pop()[0]

    def _write(self, task: TaskId, labels: tuple[AnyLabel, ...]) -> None:
        after = {one: given for one, given in self.labels.items() if one != task}
        if labels:
            after[task] = labels
        if task in self.labels:
            given = (label for each in after.values() for label in each)
            write_file(self.path, encode_records([*self._others, *given]))
        else:
            with self.path.open("ab") as file:
                size = file.tell()
                try:
                    file.write(encode_records(labels))
                    file.flush()
                    os.fsync(file.fileno())
                except OSError:
                    os.truncate(self.path, size)
                    raise
        self.labels = after

    def _mend(self) -> None:
        """Leave out a last line that a killed process has not written to its end."""
        data = self.path.read_bytes() if self.path.is_file() else b""
        whole, line_end, rest = data.rpartition(b"\n")
        if rest:
            try:
                json.loads(rest)
                write_file(self.path, data + b"\n")
            except ValueError:
                write_file(self.path, whole + line_end)
