"""Batch jobs on disk: one record for each batch that was, or was about to be, made at a provider.

A record is written before each step that a provider hears of, and names its own submission, which
goes to the provider too. So a process that is killed anywhere leaves behind what its successor
needs to find the batch in place of paying for a second one.
"""

import contextlib
import os
import secrets
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.errors import StoreError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.lm.batch.deferred import ImportReport
from freshstack_dspy.lm.database_files import unsafe_file
from freshstack_dspy.lm.spending.spent import Spent
from freshstack_dspy.records import Record

Step = Literal["intended", "creating", "underway", "ended", "dropped"]
"""`intended`: nothing but an upload can have happened. `creating`: the batch may exist.
`underway`: it exists, under `batch_id`. `ended`: what came of it is imported. `dropped`: it was
never made, or the user gave it up."""

SCHEMA: Literal[1] = 1
_LOCK = "lock.db"


class Job(Record):
    """One batch: what was sent, how far it got, what came of it."""

    schema_version: Literal[1] = SCHEMA
    submission: str = Field(pattern=r"^[0-9a-f]{16}$")
    """A name of our own, known before the provider has one."""
    model: str
    endpoint: str
    keys: tuple[str, ...] = Field(min_length=1)
    """Of the requests, in the order in which they were sent."""
    content_sha256: str
    worst: Spent
    """The most that it can cost; reserved until it has ended."""
    begun_at: datetime
    asked_at: datetime | None = None
    """When the provider was last asked to create the batch."""
    step: Step = "intended"
    file_id: str | None = None
    """Of the uploaded requests, where the provider takes them as a file."""
    batch_id: str | None = None
    status: str = ""
    """How the batch stands, in the provider's word."""
    completed: int = 0
    failed: int = 0
    faults: tuple[str, ...] = ()
    """Why the provider refused the batch as a whole."""
    report: ImportReport | None = None
    unanswered: int = 0
    """Requests that the ended batch has neither a reply nor an error for."""

    @property
    def pending(self) -> bool:
        """Whether its requests may still be answered, and paid for."""
        return self.step in ("intended", "creating", "underway")


def new_submission() -> str:
    """A name that no other submission has."""
    return secrets.token_hex(8)


def now() -> datetime:
    """The time."""
    return datetime.now(UTC)


class JobFolder:
    """The records of one collection's batches: `batches/NAME/` beside the replies store."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, config: BuildConfig) -> "JobFolder":
        """The folder of a configuration."""
        return cls(config.cache.path.parent / "batches" / config.name)

    def jobs(self) -> list[Job]:
        """All jobs, the oldest first.

        Raises:
            StoreError: A record is damaged, or of another version.
        """
        found = [self._read(path) for path in sorted(self.path.glob("*.json"))]
        return sorted(found, key=lambda job: (job.begun_at, job.submission))

    def pending(self) -> list[Job]:
        """The jobs that may still bring replies."""
        return [job for job in self.jobs() if job.pending]

    def claimed(self) -> frozenset[str]:
        """The ids of all batches that are some job's, of whatever collection."""
        return frozenset(job.batch_id for job in self._everyones() if job.batch_id is not None)

    def underway(self) -> frozenset[str]:
        """The keys of all requests in pending jobs, of whatever collection: they share a store."""
        return frozenset(key for job in self._everyones() if job.pending for key in job.keys)

    def reserved(self) -> Spent:
        """The most that the pending jobs can cost."""
        return sum((job.worst for job in self.pending()), Spent())

    def save(self, job: Job) -> Job:
        """Write a record so that it is there, whole, whatever happens next."""
        self.write(self.path / f"{job.submission}.json", job.model_dump_json().encode())
        return job

    def output(self, job: Job) -> Path:
        """Where the replies of a job are kept, in the OpenAI batch format."""
        return self.path / f"{job.submission}.output.jsonl"

    def write(self, path: Path, content: bytes) -> None:
        """Write a file of this folder as a whole, down to the disk.

        Raises:
            StoreError: It cannot be written.
        """
        partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with partial.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
            _sync_folder(self.path)
        except OSError as error:
            raise StoreError(f"{path}: cannot be written: {error.strerror or error}") from error

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep other processes from the jobs; a process that dies lets go.

        Raises:
            StoreError: Another process is at them, or the files of the lock lead elsewhere.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            unsafe = unsafe_file(self.path / _LOCK, writing=True)
            if unsafe is not None:
                name, fault = unsafe
                raise StoreError(f"{self.path / name} {fault}; delete it")
            lock = sqlite3.connect(self.path / _LOCK, timeout=0, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"{self.path}: the jobs cannot be kept there: {error}") from error
        with contextlib.closing(lock):
            try:
                lock.execute("BEGIN EXCLUSIVE")
            except sqlite3.Error as error:
                raise StoreError(
                    f"{self.path}: another freshstack requests is at work on these jobs ({error}); "
                    "run this again when it has ended"
                ) from None
            yield

    def _everyones(self) -> list[Job]:
        folders = [path for path in sorted(self.path.parent.glob("*")) if path.is_dir()]
        return [job for folder in folders for job in JobFolder(folder).jobs()]

    def _read(self, path: Path) -> Job:
        try:
            return Job.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            why = first_fault(error) if isinstance(error, ValidationError) else error
            raise StoreError(
                f"{path}: not a batch job of schema {SCHEMA}: {why}; if the batch it was is over, "
                "move the file away"
            ) from None


def _sync_folder(path: Path) -> None:
    if os.name != "posix":
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
