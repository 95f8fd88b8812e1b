"""Deferred requests, sent from here or by an engine; each reply is recorded as it comes.

What is recorded is not asked again: killed at any moment, only what was under way is paid twice.
"""

import functools
import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import pyarrow as pa

from freshstack_dspy.batches import REQUESTS, answer_batch
from freshstack_dspy.config import BudgetConfig
from freshstack_dspy.errors import BudgetError, FatalModelError, ModelError, TransientModelError
from freshstack_dspy.lm.batch.deferred import AnswerLine, answer_in, reply_of
from freshstack_dspy.lm.budget import Spent, passed_cap, upper_bound
from freshstack_dspy.lm.client import Client
from freshstack_dspy.lm.reply import NO_REPLY, UNANSWERED, Reply
from freshstack_dspy.lm.request import ChatRequest, canonical_json
from freshstack_dspy.lm.usage import current_step
from freshstack_dspy.lm.workers import map_as_done
from freshstack_dspy.progress import Progress

STEP = "requests"
_AT_ONCE = 64
"""Requests that a batch of an engine has in flight; it holds twice as many."""
_OUTAGE = 10
"""So many attempts in a row without a reply stop the work, where they are not repeated at once."""


_ERRORS: dict[str, type[ModelError]] = {"outage": TransientModelError, "fatal": FatalModelError}


class Sender:
    """Requests of a store on their way to a model."""

    def __init__(
        self,
        client: Client,
        progress: Progress,
        in_flight: int,
    ) -> None:
        """Prepare.

        Args:
            client: Of the model and the store; its account pays, and its engine sends. Without one
                they are sent from here.
            progress: Notified of every request.
            in_flight: The most that an engine has in flight.
        """
        self._client, self._progress, self._in_flight = client, progress, in_flight
        self._store, self._account = client.writable(), client.access.account
        self._capped = self._account.caps != BudgetConfig()
        self._left: deque[str] = deque()
        self._under_way: dict[str, tuple[ChatRequest, Spent]] = {}
        self._taken: list[tuple[ChatRequest, dict[str, Any]]] = []
        self._tries: Counter[str] = Counter()
        self._lost_in_a_row = 0
        self._stopped: ModelError | None = None
        self.answered = 0
        self.failed: Counter[str] = Counter()
        """Why requests have no reply for good, with how often."""

    def answer(self, keys: Iterable[str]) -> None:
        """Have the requests of these keys answered.

        Raises:
            BudgetError: The next request could pass a cap; every reply that came is recorded.
            FatalModelError: The model answers nobody.
            TransientModelError: It did not answer several requests in a row.
        """
        self._left.extend(keys)
        self._progress.start(STEP, len(self._left))
        while self._left and self._stopped is None:
            rows = 0
            for answers in self._sent():
                rows += answers.num_rows
                self._take(answers.to_pylist())
            silent = len(self._under_way) or (len(self._left) if rows == 0 else 0)
            if silent and self._stopped is None:
                self._stopped = TransientModelError(
                    f"the engine gave no answer to {silent} requests; running this again asks for "
                    "them"
                )
        if self._stopped is None or isinstance(self._stopped, BudgetError):
            self._record(len(self._taken), Spent())
        if self._stopped is not None:
            raise self._stopped
        failed = f", {self.failed.total():,} failed" if self.failed else ""
        self._progress.finish(STEP, f"{self.answered:,} answered{failed}")

    def _sent(self) -> Iterator[pa.RecordBatch | pa.Table]:
        """Send what the budget allows now."""
        model = self._client.model
        ask = functools.partial(answer_batch, retry_lost=not self._capped)
        engine = self._client.access.engine
        if engine is None:
            here = functools.partial(ask, model=model, retries=self._client.retries)
            came = map_as_done(here, self._batches(1), workers=model.concurrency)
            return map(pa.Table.from_batches, came)
        at_once = min(self._in_flight, _AT_ONCE)
        there = functools.partial(ask, model=model.model_copy(update={"concurrency": at_once}))
        batches = math.ceil(self._in_flight / at_once)
        return engine(there, self._batches(2 * at_once), at_once=batches)

    def _batches(self, size: int) -> Iterator[pa.RecordBatch]:
        rows: list[dict[str, str]] = []
        page: dict[str, ChatRequest] = {}
        while self._left and self._stopped is None:
            if self._left[0] not in page:
                page = self._store.all_waiting(list(islice(self._left, _AT_ONCE)))
            request = page.get(self._left[0])
            if request is not None:
                bound = upper_bound(request, self._client.price) if self._capped else Spent()
                if (full := self._full(bound)) is not None:
                    if not self._under_way:
                        self._stopped = BudgetError(full)
                    break
                if self._capped:
                    self._account.in_flight += bound
                self._under_way[request.key] = request, bound
                rows.append({"custom_id": request.key, "body": canonical_json(request.body())})
            self._left.popleft()
            if len(rows) == size:
                yield pa.RecordBatch.from_pylist(rows, REQUESTS)
                rows = []
        if rows:
            yield pa.RecordBatch.from_pylist(rows, REQUESTS)

    def _full(self, bound: Spent) -> str | None:
        if not self._capped:
            return None
        spent = self._store.spent(self._account.name) + self._account.reserved
        return passed_cap(self._account, spent, bound)

    def _take(self, rows: list[dict[str, Any]]) -> None:
        """Take in what became of requests; what failed since the last answer may be an outage's."""
        spent = Spent()
        for row in rows:
            if row["custom_id"] not in self._under_way:
                continue
            request, bound = self._under_way.pop(row["custom_id"])
            if self._capped:
                self._account.in_flight -= bound
            for _ in range(row["lost"]):
                spent += upper_bound(request, self._client.price)
            if self._is_asked_again(row):
                self._left.append(request.key)
            elif row["status"] in _ERRORS:
                self._stopped = self._stopped or _ERRORS[row["status"]](row["error"])
            else:
                self._taken.append((request, row))
        answered = (at for at, (_, row) in enumerate(self._taken, 1) if row["status"] == "ok")
        self._record(max(answered, default=0), spent)

    def _record(self, number: int, spent: Spent) -> None:
        """Record the first of what was taken in, and enter what it cost, all at once."""
        client, replies = self._client, list[Reply]()
        recorded, self._taken = self._taken[:number], self._taken[number:]
        for request, row in recorded:
            reply, cost = reply_of(request, self._answer_of(row), client.price, batch=False)
            replies.append(reply)
            spent += cost
        self._store.put(*replies, account=self._account.name, spent=spent)
        for reply, (_, row) in zip(replies, recorded, strict=True):
            client.enter_answered(reply, attempts=row["attempts"], seconds=row["seconds"])
            self._progress.advance(STEP, client.ledger.of(current_step()).spent)

    def _is_asked_again(self, row: dict[str, Any]) -> bool:
        """Whether a request may have another attempt after one that may have been billed."""
        if row["status"] != "lost":
            self._lost_in_a_row = 0
            return False
        self._lost_in_a_row += 1
        if self._lost_in_a_row == _OUTAGE:
            self._stopped = TransientModelError(
                f"{row['error']}; {_OUTAGE} requests in a row: running this again asks only for "
                "what is missing"
            )
        self._tries[row["custom_id"]] += 1
        return self._tries[row["custom_id"]] <= self._client.model.retries

    def _answer_of(self, row: dict[str, Any]) -> AnswerLine:
        if row["status"] == "ok":
            self.answered += 1
            return answer_in(row["custom_id"], row["body"])
        self.failed[row["error"]] += 1
        reasons = {"refused": "refusal", UNANSWERED: UNANSWERED}
        reason = reasons.get(row["status"], NO_REPLY)
        return AnswerLine(row["custom_id"], row["error"], reason)
