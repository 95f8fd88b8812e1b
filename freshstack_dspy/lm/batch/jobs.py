"""Batch jobs: one record on disk for each batch that was, or was about to be, made at a provider.

A record is written before each step that a provider hears of, and names its own submission, which
goes to the provider too. So a process that is killed anywhere leaves behind what its successor
needs to find the batch in place of paying for a second one.
"""

import contextlib
import itertools
import json
import logging
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, Field, ValidationError

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.errors import BudgetError, FatalModelError, StoreError, TransientModelError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.lm.batch.deferred import (
    BadLine,
    ImportReport,
    custom_id_of,
    import_replies,
    numbered_lines,
    read_line,
)
from freshstack_dspy.lm.batch.providers import Batch, BatchAPI, batch_api
from freshstack_dspy.lm.budget import SET_PRICES, Spent, amount, check_unpriced, upper_bound
from freshstack_dspy.lm.engine import presentable
from freshstack_dspy.lm.prices import price_of
from freshstack_dspy.lm.request import ChatRequest, endpoint_identity
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.records import Record

Step = Literal["intended", "creating", "underway", "ended", "dropped"]
"""`intended`: nothing but an upload can have happened. `creating`: the batch may exist.
`underway`: it exists, under `batch_id`. `ended`: what came of it is imported. `dropped`: it was
never made, or the user gave it up."""

SETTLING_SECONDS = 30.0
"""How long a provider may take to list a batch that it has made."""
_CLOCKS_DIFFER = timedelta(minutes=10)
_MOST_LISTED = 100_000
"""Batches that are looked through; a list may have no end."""
_log = logging.getLogger(__name__)


class Job(Record):
    """One batch: what was sent, how far it got, what came of it."""

    schema_version: Literal[2] = 2
    submission: str = Field(pattern=r"^[0-9a-f]{16}$")
    """A name of our own, known before the provider has one."""
    model: str
    endpoint: str
    keys: tuple[str, ...] = Field(min_length=1)
    """Of the requests, in the order in which they were sent."""
    upper_bound: Spent
    """The most that it can cost; reserved until it has ended."""
    begun_at: datetime
    asked_at: datetime | None = None
    """When the provider was last asked to create the batch."""
    step: Step = "intended"
    file_id: str | None = None
    """Of the uploaded requests, where the provider takes them as a file."""
    batch_id: str | None = None
    status: str = ""
    """Of the batch, in the provider's word."""
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


class JobFolder:
    """The records of one collection's batches: `batches/NAME/` next to the replies store."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, config: BuildConfig) -> "JobFolder":
        """The folder of a configuration."""
        return cls(config.cache.path.parent / "batches" / config.name)

    def jobs(self) -> list[Job]:
        """All jobs, the oldest first.

        Raises:
            StoreError: A record cannot be read.
        """
        found = [_read_job(path) for path in sorted(self.path.glob("*.json"))]
        return sorted(found, key=lambda job: (job.begun_at, job.submission))

    def pending(self) -> list[Job]:
        """The jobs that may still bring replies."""
        return [job for job in self.jobs() if job.pending]

    def everyones(self) -> list[Job]:
        """The jobs of all collections that share the store."""
        folders = [path for path in sorted(self.path.parent.glob("*")) if path.is_dir()]
        return [job for folder in folders for job in JobFolder(folder).jobs()]

    def reserved(self) -> Spent:
        """The most that the pending jobs can cost."""
        return sum((job.upper_bound for job in self.pending()), Spent())

    def save(self, job: Job, **changes: Any) -> Job:
        """Write a record with some changes, so that it is there, whole, whatever happens next."""
        job = job.model_copy(update=changes)
        self.write(f"{job.submission}.json", job.model_dump_json().encode())
        return job

    def write(self, name: str, content: bytes) -> Path:
        """Write a file of this folder as a whole, down to the disk."""
        path = self.path / name
        partial = path.with_name(f".{name}.partial")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with partial.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except OSError as error:
            raise StoreError(f"{path}: cannot be written: {error.strerror or error}") from error
        return path

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep other processes from the jobs; a process that dies lets go.

        Raises:
            StoreError: Another process is at them.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        lock = sqlite3.connect(self.path / "lock.db", timeout=0, isolation_level=None)
        with contextlib.closing(lock):
            try:
                lock.execute("BEGIN EXCLUSIVE")
            except sqlite3.Error as error:
                raise StoreError(
                    f"{self.path}: another freshstack requests is at work on these jobs ({error}); "
                    "run this again when it has ended"
                ) from None
            yield


def _read_job(path: Path) -> Job:
    try:
        return Job.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise StoreError(
            f"{path}: not a batch job: {first_fault(error)}; if the batch it was is over, move the "
            "file away"
        ) from None


class Plan(NamedTuple):
    """A submission before it is sent."""

    parts: tuple[tuple[ChatRequest, ...], ...]
    """The requests of each batch."""
    underway: int
    """Requests of the file that a pending job has already."""
    answered: int
    """Requests of the file that have a reply."""
    unknown: int
    """Requests of the file that nobody waits for."""
    other_model: int
    """Requests of the file to another model, or to another endpoint."""
    batch: Spent
    """At most, through the batch API."""
    live: Spent
    """At most, asked one by one."""
    priced: bool
    """Whether the price of the model is known."""

    @property
    def requests(self) -> int:
        """How many would be sent."""
        return sum(map(len, self.parts))


class Batches:
    """The batches of one collection."""

    def __init__(self, config: BuildConfig, store: ReplyStore) -> None:
        """Prepare; nothing is asked."""
        self.folder = JobFolder.of(config)
        self._config = config
        self._store = store
        self._endpoint = endpoint_identity(config.model.name, config.model.api_base)
        self._price = price_of(config.model.name, config.prices)

    @cached_property
    def _api(self) -> BatchAPI:
        return batch_api(self._config.model)

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Keep other processes away, and settle what an earlier one left unsettled.

        Raises:
            StoreError: Another process is at work, or a lost batch cannot be told from others.
            ModelError: The provider could not be asked.
        """
        with self.folder.exclusive():
            for job in self.folder.pending():
                self._settle(job)
            yield

    def plan(self, file: Path) -> Plan:
        """Find out which requests of a file can be sent, and what they could cost.

        Args:
            file: As a deferred build wrote it.

        Raises:
            FatalModelError: The model's provider has no batch API.
            StoreError: The file cannot be read, or was changed since it was written.
        """
        waiting = {request.key: request for request in self._store.deferred()}
        underway = {key for job in self.folder.everyones() if job.pending for key in job.keys}
        chosen: dict[str, ChatRequest] = {}
        counts = dict.fromkeys(("underway", "answered", "unknown", "other_model"), 0)
        for key in dict.fromkeys(_keys_in(file, waiting)):
            request = waiting.get(key)
            if request is None:
                counts["unknown" if self._store.get(key) is None else "answered"] += 1
            elif key in underway:
                counts["underway"] += 1
            elif self._is_of_other_model(request):
                counts["other_model"] += 1
            else:
                chosen[key] = request
        requests = list(chosen.values())
        return Plan(
            parts=tuple(_cut(requests, self._api)),
            batch=self._bound(requests, batch=True),
            live=self._bound(requests, batch=False),
            priced=self._price is not None,
            **counts,
        )

    def check_over_budget(self, planned: Plan) -> None:
        """Stop where the caps of `[budget]` could be passed.

        Raises:
            BudgetError: The upper bound does not fit into what is left.
            ConfigError: There is a cap on dollars, and the model has no price.
        """
        caps, model = self._config.budget, self._config.model.name
        check_unpriced(caps, model, SET_PRICES, known=self._price is not None)
        spent, reserved = self._store.spent(self._config.name), self.folder.reserved()
        taken = spent + reserved + planned.batch
        for name, cap in caps:
            if cap is not None and getattr(taken, name) > cap:
                raise BudgetError(
                    f"[budget] {name} = {cap:g} does not allow these {planned.requests} requests: "
                    f"{amount(name, spent)} spent so far, {amount(name, reserved)} reserved for "
                    f"batches underway, and these could take {amount(name, planned.batch)}; "
                    "nothing was sent: raise the cap, or submit fewer requests"
                )

    def send(self, planned: Plan) -> Iterator[Job]:
        """Make the batches, one after the other.

        Raises:
            BudgetError: The upper bound does not fit into what is left.
            ModelError: The provider refused, or did not answer.
        """
        self.check_over_budget(planned)
        for requests in planned.parts:
            yield self._send(requests)

    def look(self) -> Iterator[Job]:
        """Ask for the status of every pending job, import what has ended, and give all jobs.

        Raises:
            ModelError: The provider could not be asked.
        """
        for job in self.folder.jobs():
            waits = job.step == "underway" and not self.is_of_other_model(job)
            yield self._look_after(job) if waits else job

    def is_of_other_model(self, job: Job) -> bool:
        """Whether a job is of another model or endpoint than the configuration names."""
        return self._is_of_other_model(job)

    def forget(self, submission: str) -> Job:
        """Give a job up, so that its requests can be submitted anew.

        Raises:
            StoreError: There is no such pending job.
        """
        with self.folder.exclusive():
            pending = self.folder.pending()
            for job in pending:
                if job.submission == submission:
                    return self.folder.save(job, step="dropped")
        known = ", ".join(job.submission for job in pending) or "none"
        raise StoreError(f"no pending submission is {submission!r}; there are: {known}")

    def _is_of_other_model(self, one: Job | ChatRequest) -> bool:
        return (one.model, one.endpoint) != (self._config.model.name, self._endpoint)

    def _bound(self, requests: Sequence[ChatRequest], *, batch: bool) -> Spent:
        return sum((upper_bound(one, self._price, batch=batch) for one in requests), Spent())

    def _send(self, requests: Sequence[ChatRequest]) -> Job:
        lines = [self._api.line(request) for request in requests]
        job = self.folder.save(
            Job(
                submission=secrets.token_hex(8),
                model=self._config.model.name,
                endpoint=self._endpoint,
                keys=tuple(request.key for request in requests),
                upper_bound=self._bound(requests, batch=True),
                begun_at=_now(),
            )
        )
        try:
            file_id = self._api.upload(lines, job.submission)
            job = self.folder.save(job, step="creating", file_id=file_id, asked_at=_now())
            batch = self._api.create(lines, file_id, job.submission)
        except TransientModelError as error:
            if job.step == "creating" and error.maybe_billed:
                raise TransientModelError(
                    f"{error}; whether the batch was made is not known: run this again, and it "
                    "is looked for before another is made"
                ) from None
            self.folder.save(job, step="dropped")
            raise
        except FatalModelError:
            self.folder.save(job, step="dropped")
            raise
        return self._save_status(job, batch, step="underway")

    def _save_status(self, job: Job, batch: Batch, **changes: Any) -> Job:
        return self.folder.save(
            job,
            batch_id=batch.batch_id,
            status=batch.status,
            completed=batch.completed,
            failed=batch.failed,
            faults=tuple(presentable(fault, self._config.model) for fault in batch.faults),
            **changes,
        )

    def _settle(self, job: Job) -> None:
        """Bring a job that was cut off to a step at which it is clear what exists."""
        if job.step == "intended":
            self.folder.save(job, step="dropped")
        if job.step != "creating" or self.is_of_other_model(job):
            return
        batch = self._find_lost(job)
        young = SETTLING_SECONDS - (_now() - (job.asked_at or job.begun_at)).total_seconds()
        if batch is None and young > 0:
            _log.warning(
                "submission %s was cut off, and no batch of it is listed yet; looking again in "
                "%.0f s",
                job.submission,
                young,
            )
            time.sleep(young)
            batch = self._find_lost(job)
        if batch is None:
            self.folder.save(job, step="dropped")
        else:
            self._save_status(job, batch, step="underway")

    def _find_lost(self, job: Job) -> Batch | None:
        """Find the batch of a job in the provider's list, or None where it was never made.

        Where the provider keeps no name of ours with the batch, one of the right age and size is
        taken: its custom ids are our keys and tell, as soon as it has ended, whether it is the one.
        """
        claimed = {other.batch_id for other in self.folder.everyones()}
        since = (job.asked_at or job.begun_at) - _CLOCKS_DIFFER
        similar = []
        for batch in itertools.islice(self._api.created_since(since), _MOST_LISTED):
            if batch.submission == job.submission:
                return batch
            if job.file_id is not None:
                if batch.file_id == job.file_id:
                    return batch
            elif batch.batch_id not in claimed and batch.total == len(job.keys):
                similar.append(batch)
        for batch in similar:
            if batch.ended and set(map(custom_id_of, self._api.results(batch))) == set(job.keys):
                return batch
        open_ones = [batch for batch in similar if not batch.ended]
        if len(open_ones) > 1:
            listed = ", ".join(batch.batch_id for batch in open_ones)
            raise StoreError(
                f"submission {job.submission} was cut off, and any of the batches {listed} could "
                "be its own; wait until they have ended and run freshstack requests status CONFIG, "
                "or submit its requests anew with: freshstack requests submit CONFIG --forget "
                f"{job.submission}"
            )
        return open_ones[0] if open_ones else None

    def _look_after(self, job: Job) -> Job:
        try:
            batch = self._api.retrieve(job.batch_id or "")
        except FatalModelError as error:
            raise FatalModelError(
                f"{error}; if batch {job.batch_id} is gone for good, send its requests anew with: "
                f"freshstack requests submit CONFIG --forget {job.submission}"
            ) from None
        job = self._save_status(job, batch)
        return self._collect(job, batch) if batch.ended else job

    def _collect(self, job: Job, batch: Batch) -> Job:
        """Fetch what came of an ended batch, and import it."""
        lines = [self._storable(line) for line in self._api.results(batch)]
        content = "".join(line + "\n" for line in lines).encode()
        path = self.folder.write(f"{job.submission}.output.jsonl", content)
        found = set(map(custom_id_of, lines))
        if found and found.isdisjoint(job.keys):
            faults = ("the batch that was taken for it turned out to be another's",)
            return self.folder.save(job, step="dropped", faults=faults)
        report = import_replies(
            self._store,
            path,
            self._config.prices,
            account=self._config.name,
            model=self._config.model,
            lenient=True,
            only=frozenset(job.keys),
        )
        unanswered = len(set(job.keys) - found)
        return self.folder.save(job, step="ended", report=report, unanswered=unanswered)

    def _storable(self, text: str) -> str:
        """A reply as it came; of anything else only what may be shown."""
        line = read_line(text)
        if isinstance(line, BadLine):
            return presentable(text, self._config.model)
        if line.completion() is not None:
            return text.strip()
        why = {"message": presentable(line.reason(), self._config.model)}
        return json.dumps({"custom_id": line.custom_id, "error": why})


def _now() -> datetime:
    return datetime.now(UTC)


def _cut(requests: Sequence[ChatRequest], api: BatchAPI) -> Iterator[tuple[ChatRequest, ...]]:
    """Cut requests into batches that the provider takes, in order."""
    part: list[ChatRequest] = []
    size = 0
    for request in requests:
        length = len(api.line(request)) + 1
        if part and (len(part) == api.most_requests or size + length > api.most_bytes):
            yield tuple(part)
            part, size = [], 0
        part.append(request)
        size += length
    if part:
        yield tuple(part)


class _RequestLine(BaseModel):
    custom_id: str
    body: dict[str, Any]


def _keys_in(file: Path, waiting: dict[str, ChatRequest]) -> Iterator[str]:
    """The keys in a requests file; each line must be the request that waits under its key."""
    again = "write the file again with: freshstack build CONFIG --mode defer"
    for number, text in numbered_lines(file, "requests", f"; {again}"):
        try:
            line = _RequestLine.model_validate_json(text)
        except ValidationError as error:
            raise StoreError(
                f"{file}:{number}: not a deferred request (custom_id, body): {first_fault(error)}"
            ) from None
        request = waiting.get(line.custom_id)
        if request is not None and line.body != request.body():
            raise StoreError(
                f"{file}:{number}: not the request that waits as {line.custom_id}: it was changed, "
                f"and its reply would be recorded as that to another; {again}"
            )
        yield line.custom_id
