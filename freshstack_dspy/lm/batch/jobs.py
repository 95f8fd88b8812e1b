"""Batch jobs on disk: one record for each batch that was, or was about to be, made at a provider.

A record is written before each step that a provider hears of, and names its own submission, which
goes to the provider too. So a process that is killed anywhere leaves behind what its successor
needs to find the batch in place of paying for a second one.
"""

import contextlib
import hashlib
import itertools
import json
import logging
import os
import secrets
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, Field, ValidationError

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.errors import BudgetError, FatalModelError, StoreError, TransientModelError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.lm.batch.deferred import BadLine, ImportReport, import_replies, read_line
from freshstack_dspy.lm.batch.providers import Batch, BatchAPI, batch_api
from freshstack_dspy.lm.budget import Budget, Spent, worst_case
from freshstack_dspy.lm.engine import presentable
from freshstack_dspy.lm.prices import price_of
from freshstack_dspy.lm.reply import encodable
from freshstack_dspy.lm.request import ChatRequest, endpoint_identity
from freshstack_dspy.lm.store import ReplyStore
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


class Plan(NamedTuple):
    """A submission before it is sent."""

    parts: tuple[tuple[ChatRequest, ...], ...] = ()
    """The requests of each batch."""
    underway: int = 0
    """Requests of the file that a pending job has already."""
    answered: int = 0
    """Requests of the file that have a reply."""
    unknown: int = 0
    """Requests of the file that nobody waits for."""
    foreign: int = 0
    """Requests of the file to another model, or to another endpoint."""
    batch: Spent = Spent()
    """At most, through the batch API."""
    live: Spent = Spent()
    """At most, asked one by one."""
    priced: bool = False
    """Whether the price of the model is known."""

    @property
    def requests(self) -> int:
        """How many would be sent."""
        return sum(map(len, self.parts))


def plan(
    config: BuildConfig, store: ReplyStore, api: BatchAPI, file: Path, underway: frozenset[str]
) -> Plan:
    """Find out which requests of a file can be sent, and what they could cost.

    Args:
        config: Whose model answers them.
        store: Where they wait.
        api: The batch API, for its limits.
        file: As a deferred build wrote it.
        underway: The keys that a pending job has.

    Raises:
        StoreError: The file cannot be read, or was changed since it was written.
    """
    waiting = {ask.key: ask for ask in store.deferred()}
    endpoint = endpoint_identity(config.model.name, config.model.api_base)
    chosen: dict[str, ChatRequest] = {}
    counts = dict.fromkeys(("underway", "answered", "unknown", "foreign"), 0)
    for key in dict.fromkeys(_keys_in(file, waiting)):
        ask = waiting.get(key)
        if ask is None:
            counts["unknown" if store.get(key) is None else "answered"] += 1
        elif key in underway:
            counts["underway"] += 1
        elif (ask.model, ask.endpoint) != (config.model.name, endpoint):
            counts["foreign"] += 1
        else:
            chosen[key] = ask
    price = price_of(config.model.name, config.prices)
    asks = list(chosen.values())
    return Plan(
        parts=tuple(cut(asks, api)),
        batch=_sum(worst_case(ask, price, batch=True) for ask in asks),
        live=_sum(worst_case(ask, price) for ask in asks),
        priced=price is not None,
        **counts,
    )


def cut(asks: Sequence[ChatRequest], api: BatchAPI) -> Iterator[tuple[ChatRequest, ...]]:
    """Cut requests into batches that the provider takes, in order."""
    part: list[ChatRequest] = []
    size = 0
    for ask in asks:
        length = len(api.line(ask)) + 1
        if part and (len(part) == api.most_requests or size + length > api.most_bytes):
            yield tuple(part)
            part, size = [], 0
        part.append(ask)
        size += length
    if part:
        yield tuple(part)


def check_over_budget(config: BuildConfig, planned: Plan, spent: Spent, reserved: Spent) -> None:
    """Stop where the caps of `[budget]` could be passed.

    Args:
        config: With the caps.
        planned: What would be sent.
        spent: By this collection so far.
        reserved: The most that its pending jobs can cost.

    Raises:
        BudgetError: The worst case does not fit into what is left.
        ConfigError: There is a cap on dollars, and the model has no price.
    """
    price = price_of(config.model.name, config.prices)
    Budget(config.budget, model=config.model.name, price=price, spent=lambda: spent)
    taken = spent + reserved + planned.batch
    for name, cap in config.budget:
        if cap is not None and getattr(taken, name) > cap:
            raise BudgetError(
                f"[budget] {name} = {cap:g} does not allow these {planned.requests} requests: "
                f"{amount(name, spent)} spent so far, {amount(name, reserved)} reserved for "
                f"batches underway, and these could take {amount(name, planned.batch)}; nothing "
                "was sent: raise the cap, or submit fewer requests"
            )


def amount(name: str, spent: Spent) -> str:
    """An amount of calls, tokens or dollars, as it is shown."""
    value = getattr(spent, name)
    return f"${value:.4f}" if name == "dollars" else f"{value:,}"


def _sum(amounts: Iterable[Spent]) -> Spent:
    return sum(amounts, Spent())


class _RequestLine(BaseModel):
    custom_id: str
    body: dict[str, Any]


def _keys_in(file: Path, waiting: dict[str, ChatRequest]) -> Iterator[str]:
    """The keys in a requests file; what waits under one must be what stands there."""
    try:
        lines = file.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(
            f"{file}: the requests cannot be read: {error}; write them with: "
            "freshstack build CONFIG --mode defer"
        ) from None
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            line = _RequestLine.model_validate_json(text)
        except ValidationError as error:
            raise StoreError(
                f"{file}:{number}: not a deferred request (custom_id, body): {first_fault(error)}"
            ) from None
        ask = waiting.get(line.custom_id)
        if ask is not None and line.body != ask.body():
            raise StoreError(
                f"{file}:{number}: not the request that waits as {line.custom_id}: it was changed, "
                "and its reply would be recorded as that to another; write the file again with: "
                "freshstack build CONFIG --mode defer"
            )
        yield line.custom_id


_CLOCKS_DIFFER = timedelta(minutes=10)
_MOST_LISTED = 100_000
"""Batches that are looked through; a list may have no end."""


def find_lost(api: BatchAPI, job: Job, claimed: frozenset[str]) -> Batch | None:
    """Find the batch of a job in the provider's list, or None where it was never made.

    Where the provider keeps no name of ours with the batch, one of the right age and size is
    taken: its custom ids are our keys and tell, as soon as it has ended, whether it is the one.

    Args:
        api: The provider's.
        job: At step `creating`.
        claimed: Ids of the batches that other jobs have.

    Raises:
        StoreError: Several could be the one.
    """
    asked_at = job.asked_at or job.begun_at
    similar = []
    for batch in itertools.islice(api.created_since(asked_at - _CLOCKS_DIFFER), _MOST_LISTED):
        if batch.submission == job.submission:
            return batch
        if job.file_id is not None:
            if batch.file_id == job.file_id:
                return batch
        elif batch.batch_id not in claimed and batch.total == len(job.keys):
            similar.append(batch)
    return _the_one(api, job, similar)


def _the_one(api: BatchAPI, job: Job, similar: list[Batch]) -> Batch | None:
    open_ones = []
    for batch in similar:
        if not batch.ended:
            open_ones.append(batch)
        elif set(custom_ids(api.results(batch))) == set(job.keys):
            return batch
    if len(open_ones) > 1:
        listed = ", ".join(batch.batch_id for batch in open_ones)
        raise StoreError(
            f"submission {job.submission} was cut off, and any of the batches {listed} could be "
            "its own; wait until they have ended and run freshstack requests status CONFIG, or "
            "submit its requests anew with: freshstack requests submit CONFIG --forget "
            f"{job.submission}"
        )
    return open_ones[0] if open_ones else None


def custom_ids(lines: Iterator[str]) -> Iterator[str]:
    """The custom ids in lines of results."""
    for line in lines:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and isinstance(value.get("custom_id"), str):
            yield value["custom_id"]


SETTLING_SECONDS = 30.0
"""How long a provider may take to list a batch that it has made."""
_log = logging.getLogger(__name__)
_ANOTHERS = ("the batch that was taken for it turned out to be another's",)


class Batches:
    """The batches of one collection."""

    def __init__(self, config: BuildConfig, store: ReplyStore) -> None:
        """Prepare; nothing is asked."""
        self.folder = JobFolder.of(config)
        self._config = config
        self._store = store
        self._endpoint = endpoint_identity(config.model.name, config.model.api_base)

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
                self._settled(job)
            yield

    def plan(self, file: Path) -> Plan:
        """Find out what can be sent of a requests file; see `plan.plan`.

        Raises:
            FatalModelError: The model's provider has no batch API.
            StoreError: The file cannot be used.
        """
        return plan(self._config, self._store, self._api, file, self.folder.underway())

    def check_over_budget(self, planned: Plan) -> None:
        """Stop where the caps of `[budget]` could be passed.

        Raises:
            BudgetError: The worst case does not fit into what is left.
            ConfigError: There is a cap on dollars, and the model has no price.
        """
        spent = self._store.spent(self._config.name)
        check_over_budget(self._config, planned, spent, self.folder.reserved())

    def send(self, planned: Plan) -> Iterator[Job]:
        """Make the batches, one after the other.

        Raises:
            BudgetError: The worst case does not fit into what is left.
            ModelError: The provider refused, or did not answer.
        """
        self.check_over_budget(planned)
        for asks in planned.parts:
            yield self._sent(asks)

    def look(self) -> Iterator[Job]:
        """Ask how every pending job stands, and import what has ended; give all jobs.

        Raises:
            ModelError: The provider could not be asked.
        """
        for job in self.folder.jobs():
            yield self._looked_after(job) if job.step == "underway" else job

    def is_foreign(self, job: Job) -> bool:
        """Whether a job is of another model or endpoint than the configuration names."""
        return (job.model, job.endpoint) != (self._config.model.name, self._endpoint)

    def forget(self, submission: str) -> Job:
        """Give a job up, so that its requests can be submitted anew.

        Raises:
            StoreError: There is no such pending job.
        """
        with self.folder.exclusive():
            pending = self.folder.pending()
            for job in pending:
                if job.submission == submission:
                    return self.folder.save(job.model_copy(update={"step": "dropped"}))
        known = ", ".join(job.submission for job in pending) or "none"
        raise StoreError(f"no pending submission is {submission!r}; there are: {known}")

    def _sent(self, asks: Sequence[ChatRequest]) -> Job:
        lines = [self._api.line(ask) for ask in asks]
        job = self.folder.save(self._intended(asks, lines))
        try:
            file_id = self._api.upload(lines, job.submission)
            update = {"step": "creating", "file_id": file_id, "asked_at": now()}
            job = self.folder.save(job.model_copy(update=update))
            batch = self._api.create(lines, file_id, job.submission)
        except TransientModelError as error:
            if job.step == "creating" and error.maybe_billed:
                raise TransientModelError(
                    f"{error}; whether the batch was made is not known: run this again, and it "
                    "is looked for before another is made"
                ) from None
            self.folder.save(job.model_copy(update={"step": "dropped"}))
            raise
        except FatalModelError:
            self.folder.save(job.model_copy(update={"step": "dropped"}))
            raise
        return self._underway(job, batch)

    def _intended(self, asks: Sequence[ChatRequest], lines: Sequence[bytes]) -> Job:
        price = price_of(self._config.model.name, self._config.prices)
        return Job(
            submission=new_submission(),
            model=self._config.model.name,
            endpoint=self._endpoint,
            keys=tuple(ask.key for ask in asks),
            content_sha256=hashlib.sha256(b"".join(line + b"\n" for line in lines)).hexdigest(),
            worst=sum((worst_case(ask, price, batch=True) for ask in asks), Spent()),
            begun_at=now(),
        )

    def _underway(self, job: Job, batch: Batch) -> Job:
        return self._noted(job.model_copy(update={"step": "underway"}), batch)

    def _noted(self, job: Job, batch: Batch) -> Job:
        """Write down what the provider says of a batch."""
        faults = tuple(presentable(fault, self._config.model) for fault in batch.faults)
        update = {
            "batch_id": batch.batch_id,
            "status": batch.status,
            "completed": batch.completed,
            "failed": batch.failed,
            "faults": faults,
        }
        return self.folder.save(job.model_copy(update=update))

    def _settled(self, job: Job) -> Job:
        """Bring a job that was cut off to a step at which it is clear what exists."""
        if job.step == "intended":
            return self.folder.save(job.model_copy(update={"step": "dropped"}))
        if job.step != "creating" or self.is_foreign(job):
            return job
        claimed = self.folder.claimed()
        batch = find_lost(self._api, job, claimed)
        young = SETTLING_SECONDS - (now() - (job.asked_at or job.begun_at)).total_seconds()
        if batch is None and young > 0:
            _log.warning(
                "submission %s was cut off, and no batch of it is listed yet; looking again in %.0f s",
                job.submission,
                young,
            )
            time.sleep(young)
            batch = find_lost(self._api, job, claimed)
        if batch is None:
            return self.folder.save(job.model_copy(update={"step": "dropped"}))
        return self._underway(job, batch)

    def _looked_after(self, job: Job) -> Job:
        if self.is_foreign(job) or job.batch_id is None:
            return job
        try:
            batch = self._api.retrieve(job.batch_id)
        except FatalModelError as error:
            raise FatalModelError(
                f"{error}; if batch {job.batch_id} is gone for good, send its requests anew with: "
                f"freshstack requests submit CONFIG --forget {job.submission}"
            ) from None
        job = self._noted(job, batch)
        return self._collected(job, batch) if batch.ended else job

    def _collected(self, job: Job, batch: Batch) -> Job:
        """Fetch what came of an ended batch, and import it."""
        lines = [self._storable(line) for line in self._api.results(batch)]
        path = self.folder.output(job)
        self.folder.write(path, b"".join(line + b"\n" for line in lines))
        found = set(custom_ids(line.decode() for line in lines))
        if found and found.isdisjoint(job.keys):
            return self.folder.save(job.model_copy(update={"step": "dropped", "faults": _ANOTHERS}))
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
        update = {"step": "ended", "report": report, "unanswered": unanswered}
        return self.folder.save(job.model_copy(update=update))

    def _storable(self, text: str) -> bytes:
        """A reply as it came; of anything else only what may be shown."""
        line = read_line(text)
        if isinstance(line, BadLine):
            return presentable(text, self._config.model).encode()
        if line.completion() is not None:
            return encodable(text.strip()).encode()
        why = {"message": presentable(line.reason(), self._config.model)}
        return json.dumps({"custom_id": line.custom_id, "error": why}).encode()
