"""Deferred requests through a provider's batch API: sent once, looked after, imported.

Every step is written down before the provider hears of it (`jobs.py`). So after a crash
the batch that may have been made is found again (`recovery.py`) before another is.
"""

import contextlib
import hashlib
import json
import logging
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.errors import FatalModelError, StoreError, TransientModelError
from freshstack_dspy.lm.batch.api import Batch, BatchAPI, batch_api
from freshstack_dspy.lm.batch.deferred import import_replies
from freshstack_dspy.lm.batch.jobs import Job, JobFolder, new_submission, now
from freshstack_dspy.lm.batch.plan import Plan, plan, refuse_over_budget
from freshstack_dspy.lm.batch.recovery import custom_ids, find_lost
from freshstack_dspy.lm.batch.reply_lines import BadLine, read_line
from freshstack_dspy.lm.provider.redaction import presentable
from freshstack_dspy.lm.replies.store import ReplyStore
from freshstack_dspy.lm.reply import encodable
from freshstack_dspy.lm.request import Ask, endpoint_identity
from freshstack_dspy.lm.spending.budget import worst_case
from freshstack_dspy.lm.spending.prices import price_of
from freshstack_dspy.lm.spending.spent import Spent

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

    def refuse_over_budget(self, planned: Plan) -> None:
        """Stop where the caps of `[budget]` could be passed.

        Raises:
            BudgetError: The worst case does not fit into what is left.
            ConfigError: There is a cap on dollars, and the model has no price.
        """
        spent = self._store.spent(self._config.name)
        refuse_over_budget(self._config, planned, spent, self.folder.reserved())

    def send(self, planned: Plan) -> Iterator[Job]:
        """Make the batches, one after the other.

        Raises:
            BudgetError: The worst case does not fit into what is left.
            ModelError: The provider refused, or did not answer.
        """
        self.refuse_over_budget(planned)
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

    def _sent(self, asks: Sequence[Ask]) -> Job:
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

    def _intended(self, asks: Sequence[Ask], lines: Sequence[bytes]) -> Job:
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
