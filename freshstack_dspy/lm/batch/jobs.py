"""Batch jobs: one record on disk for each batch that was, or was about to be, made at a provider.

A record is written before each step at the provider, and holds a submission id that is sent along.
So if a process is killed at any point, its successor can find the batch and does not pay twice.
"""

import contextlib
import logging
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field

from freshstack_dspy.config import BuildConfig, ModelConfig
from freshstack_dspy.errors import (
    BudgetError,
    ConfigError,
    FatalModelError,
    StoreError,
    TransientModelError,
)
from freshstack_dspy.files import locked, write_file
from freshstack_dspy.lm.batch.deferred import (
    ImportReport,
    keys_in,
    record_answers,
    requests_file,
)
from freshstack_dspy.lm.batch.providers import Batch, BatchAPI, batch_api
from freshstack_dspy.lm.budget import SET_PRICES, Spent, amount, check_unpriced, upper_bound
from freshstack_dspy.lm.engine import presentable
from freshstack_dspy.lm.prices import price_of
from freshstack_dspy.lm.request import ChatRequest, endpoint_identity
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.records import Record

JobState = Literal["intended", "creating", "underway", "ended", "dropped"]
"""`intended`: at most an upload has happened. `creating`: the batch may exist.
`underway`: it exists, under `batch_id`. `ended`: its replies are imported. `dropped`: it was
never made."""

SETTLING_SECONDS = 30.0
"""How long a provider may take to list a batch that it has made."""
_CLOCKS_DIFFER = timedelta(minutes=10)
_log = logging.getLogger(__name__)


class Job(Record):
    """One batch: what was sent, its progress, and its result."""

    schema_version: Literal[2] = 2
    submission: str = Field(pattern=r"^[0-9a-f]{16}$")
    """Our own name for the batch, known before the provider assigns one."""
    model: str
    endpoint: str
    keys: tuple[str, ...] = Field(min_length=1)
    """The keys of the requests, in the order in which they were sent."""
    upper_bound: Spent
    """The upper bound of its cost; reserved until it has ended."""
    begun_at: datetime
    asked_at: datetime | None = None
    """When the provider was last asked to create the batch."""
    step: JobState = "intended"
    file_id: str | None = None
    """The id of the file of uploaded requests, where the provider takes them as a file."""
    batch_id: str | None = None
    status: str = ""
    """The status of the batch, in the provider's word."""
    completed: int = 0
    failed: int = 0
    faults: tuple[str, ...] = ()
    """Why the provider refused the batch as a whole."""
    report: ImportReport | None = None
    unanswered: int = 0
    """Requests for which the ended batch has neither a reply nor an error."""

    @property
    def pending(self) -> bool:
        """Whether its requests may still be answered, and paid for."""
        return self.step in ("intended", "creating", "underway")


class Submission(NamedTuple):
    """A submission before it is sent."""

    requests: int
    parts: list[list[str]]
    """The keys of the requests of each batch."""
    left_out: Counter[str]
    """How many requests of the file are not sent, by reason."""
    batch: Spent
    """At most, through the batch API."""
    live: Spent
    """At most, asked one by one."""
    priced: bool
    """Whether the price of the model is known."""


class Batches:
    """The batches of one collection to one of its models, by default to `[model]`."""

    def __init__(
        self, config: BuildConfig, store: ReplyStore, model: ModelConfig | None = None
    ) -> None:
        """Prepare; nothing is asked."""
        self._model = model or config.model
        self.folder = JobFolder.of(config)
        self._config = config
        self._store = store
        self._endpoint = endpoint_identity(self._model.name, self._model.api_base)
        self._price = price_of(self._model.name, self._model.prices or config.prices)
        self._batch_price = self._price and self._price.batched

    @cached_property
    def _api(self) -> BatchAPI:
        return batch_api(self._model)

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Lock out other processes, and settle what an interrupted one left open."""
        with self.folder.exclusive():
            for job in self.folder.pending():
                self._settle(job)
            yield

    def plan(self) -> Submission:
        """Find which requests of the last deferred build can be sent, and what they could cost."""
        left_out: Counter[str] = Counter()
        batch, live, api = Spent(), Spent(), self._api
        parts: list[list[str]] = []
        size = 0
        for request in self.to_send(left_out):
            batch += upper_bound(request, self._batch_price)
            live += upper_bound(request, self._price)
            length = len(api.line(request)) + 1
            is_full = size + length > api.most_bytes
            if not parts or len(parts[-1]) == api.most_requests or is_full:
                parts.append([])
                size = 0
            parts[-1].append(request.key)
            size += length
        return Submission(
            requests=sum(map(len, parts)),
            parts=parts,
            left_out=left_out,
            batch=batch,
            live=live,
            priced=self._price is not None,
        )

    def to_send(self, left_out: Counter[str]) -> Iterator[ChatRequest]:
        """The requests of the last deferred build without those that are counted as left out."""
        underway = {key for job in self.folder.everyones() if job.pending for key in job.keys}
        for key in dict.fromkeys(keys_in(requests_file(self._config))):
            request = self._store.waiting(key)
            if request is None:
                is_answered = self._store.get(key) is not None
                left_out["answered already" if is_answered else "not waiting here"] += 1
            elif key in underway:
                left_out["underway already"] += 1
            elif self.is_of_no_model(request):
                names = " or ".join(model.name for model in self._config.models)
                left_out[f"not to {names} where [model] asks it"] += 1
            elif not self.is_of_other_model(request):
                yield request

    def check_budget(self, planned: Submission) -> None:
        """Stop with a BudgetError where the caps of `[budget]` could be passed."""
        caps, model = self._config.budget, self._model.name
        check_unpriced(caps, model, SET_PRICES, is_priced=self._price is not None)
        spent, reserved = self._store.spent(self._config.name), self.folder.reserved()
        taken = spent + reserved + planned.batch
        for name, cap in caps:
            if cap is not None and getattr(taken, name) > cap:
                raise BudgetError(
                    f"[budget] {name} = {cap:g} does not allow these {planned.requests} requests: "
                    f"{amount(name, spent)} spent so far, {amount(name, reserved)} reserved for "
                    f"batches underway, and these could take {amount(name, planned.batch)}; "
                    "nothing was sent: raise the cap"
                )

    def send(self, planned: Submission) -> Iterator[Job]:
        """Make the batches, one after the other; `check_budget` says what is raised first."""
        self.check_budget(planned)
        yield from map(self._send, planned.parts)

    def look(self) -> Iterator[Job]:
        """Ask for the status of every pending job, import what has ended, and give all jobs."""
        for job in self.folder.jobs():
            asked = job.step == "underway" and not self.is_of_other_model(job)
            yield self._look_after(job) if asked else job

    def is_of_no_model(self, item: Job | ChatRequest) -> bool:
        """Whether it is of no model and endpoint that the configuration names."""
        return (item.model, item.endpoint) not in {
            (model.name, endpoint_identity(model.name, model.api_base))
            for model in self._config.models
        }

    def is_of_other_model(self, item: Job | ChatRequest) -> bool:
        """Whether it is of another model or endpoint than these batches."""
        return (item.model, item.endpoint) != (self._model.name, self._endpoint)

    def _send(self, keys: Sequence[str]) -> Job:
        lines, bound = [], Spent()
        for request in filter(None, map(self._store.waiting, keys)):
            lines.append(self._api.line(request))
            bound += upper_bound(request, self._batch_price)
        job = self.folder.save(
            Job(
                submission=secrets.token_hex(8),
                model=self._model.name,
                endpoint=self._endpoint,
                keys=tuple(keys),
                upper_bound=bound,
                begun_at=datetime.now(UTC),
            )
        )
        try:
            file_id = self._api.upload(lines, job.submission)
            job = self.folder.save(
                job, step="creating", file_id=file_id, asked_at=datetime.now(UTC)
            )
            batch = self._api.create(lines, file_id, job.submission)
        except (TransientModelError, FatalModelError) as error:
            if job.step == "creating" and getattr(error, "maybe_billed", False):
                raise TransientModelError(
                    f"{error}; whether the batch was made is not known: run this again, and it "
                    "is looked for before another is made"
                ) from None
            self.folder.save(job, step="dropped")
            raise
        return self._save_status(job, batch)

    def _save_status(self, job: Job, batch: Batch) -> Job:
        return self.folder.save(
            job,
            step="underway",
            batch_id=batch.batch_id,
            status=batch.status,
            completed=batch.completed,
            failed=batch.failed,
            faults=tuple(presentable(fault, self._model) for fault in batch.faults),
        )

    def _settle(self, job: Job) -> None:
        """Bring an interrupted job to a step at which it is clear what exists."""
        if job.step == "intended":
            self.folder.save(job, step="dropped")
        if job.step != "creating" or self.is_of_other_model(job):
            return
        batch = self._find_lost(job)
        age = (datetime.now(UTC) - (job.asked_at or job.begun_at)).total_seconds()
        if batch is None and age < SETTLING_SECONDS:
            _log.warning("no batch of submission %s is listed yet; waiting", job.submission)
            time.sleep(SETTLING_SECONDS - age)
            batch = self._find_lost(job)
        if batch is None:
            self.folder.save(job, step="dropped")
        else:
            self._save_status(job, batch)

    def _find_lost(self, job: Job) -> Batch | None:
        """Find the batch of a job in the provider's list, or None where it was never made.

        Raises:
            StoreError: The provider keeps no name of ours with a batch.
        """
        if job.file_id is None:
            raise StoreError(
                f"a batch of {len(job.keys)} requests was cut off while it was made, and "
                f"{self._model.name} does not say whether it exists: look for it in the provider's "
                f'console. If it is there, write its id as "batch_id" and "underway" as "step" into '
                f"{self.folder.record(job)}; else delete that file to send its requests anew"
            )
        since = (job.asked_at or job.begun_at) - _CLOCKS_DIFFER
        listed = self._api.created_since(since)
        return next((each for each in listed if each.is_of(job.submission, job.file_id)), None)

    def _look_after(self, job: Job) -> Job:
        """Ask for the status of a batch, and import its replies if it has ended."""
        try:
            batch = self._api.retrieve(job.batch_id or "")
        except FatalModelError as error:
            raise FatalModelError(
                f"{error}; if batch {job.batch_id} is gone for good, delete "
                f"{self.folder.record(job)} to send its requests anew"
            ) from None
        job = self._save_status(job, batch)
        if not batch.ended:
            return job
        answers = list(self._api.results(batch))
        report = record_answers(
            self._store,
            answers,
            self._model.prices or self._config.prices,
            self._config.name,
            self._model,
            frozenset(job.keys),
            only=True,
        )
        unanswered = len(set(job.keys) - {answer.custom_id for answer in answers})
        return self.folder.save(job, step="ended", report=report, unanswered=unanswered)


class JobFolder:
    """The records of one collection's batches: `batches/NAME/` next to the replies store."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, config: BuildConfig) -> "JobFolder":
        """The folder of a configuration."""
        return cls(config.cache.path.parent / "batches" / config.name)

    def jobs(self) -> list[Job]:
        """All jobs, the oldest first."""
        jobs = [Job.model_validate_json(path.read_bytes()) for path in self.path.glob("*.json")]
        return sorted(jobs, key=lambda job: (job.begun_at, job.submission))

    def pending(self) -> list[Job]:
        """The jobs that may still bring replies."""
        return [job for job in self.jobs() if job.pending]

    def everyones(self) -> list[Job]:
        """The jobs of all collections that share the store."""
        folders = sorted(self.path.parent.glob("*"))
        return [job for folder in folders for job in JobFolder(folder).jobs()]

    def reserved(self) -> Spent:
        """The upper bound of what the pending jobs cost."""
        return sum((job.upper_bound for job in self.pending()), Spent())

    def save(self, job: Job, **changes: Any) -> Job:
        """Write a changed record atomically."""
        job = job.model_copy(update=changes)
        write_file(self.record(job), job.model_dump_json())
        return job

    def record(self, job: Job) -> Path:
        """The file of a job; without it the job is forgotten."""
        return self.path / f"{job.submission}.json"

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Lock the jobs against other processes; the lock ends with its process."""
        with contextlib.ExitStack() as stack:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked(self.path / "lock", "freshstack requests"))
            except (ConfigError, OSError) as error:
                raise StoreError(
                    f"{self.path} {error}: another freshstack requests is at work on these jobs; "
                    "run this again when it has ended"
                ) from None
            yield
