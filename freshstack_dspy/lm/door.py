"""The one door to language models: a DSPy engine that records every reply and asks only once.

    program → typed adapter → DoorLM (a dspy.LM) → Door → recorded replies
                                                     └ miss → provider

Modes: `live` serves a recorded reply or asks; `replay` serves or raises, and opens no socket;
`defer` serves or writes the request down; `refresh` asks again (once for each request and run).
"""

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from freshstack_dspy.config import Mode, ModelConfig
from freshstack_dspy.errors import (
    DamagedReplyError,
    DeferredError,
    FatalModelError,
    ModelError,
    ReplayMissError,
    ReplyError,
)
from freshstack_dspy.lm.events import Listener, event_of, event_without_reply
from freshstack_dspy.lm.live import Answer, LiveCalls
from freshstack_dspy.lm.provider.choice import Provider
from freshstack_dspy.lm.replies.bundle import Bundles
from freshstack_dspy.lm.replies.nearest import Misses
from freshstack_dspy.lm.replies.read_only import ReadOnlyStore, holds_store
from freshstack_dspy.lm.replies.recorded import Recorded, recorded_reply
from freshstack_dspy.lm.replies.said import UsedReplies, replies_of
from freshstack_dspy.lm.replies.store import ReplyStore
from freshstack_dspy.lm.reply import NO_REPLY, Reply, status_of
from freshstack_dspy.lm.request import Ask, ask_from, endpoint_identity
from freshstack_dspy.lm.spending.budget import Account
from freshstack_dspy.lm.spending.ledger import Ledger, current_step
from freshstack_dspy.records import Status

if TYPE_CHECKING:
    from dspy.lm15 import Request, Response

sample_number: ContextVar[int | None] = ContextVar("freshstack_sample", default=None)
"""DSPy's rollout_id, which engines do not see by themselves."""

_ASKING = ("live", "refresh")
_log = logging.getLogger(__name__)


class Door:
    """A DSPy engine (`dspy.LM(…, engine=door)`) over recorded replies and one provider."""

    supports_response_schema = True

    def __init__(
        self,
        model: ModelConfig,
        *,
        mode: Mode = "live",
        store: ReadOnlyStore | None = None,
        recorded: Recorded | None = None,
        provider: Provider | None = None,
        account: Account | None = None,
        on_call: Listener | None = None,
    ) -> None:
        """Open the door.

        Args:
            model: Which model is asked, and how.
            mode: See the module.
            store: Where replies are kept; every mode but `replay` needs one that can be written.
            recorded: Replies of bundles, read beside the store.
            provider: What answers, in place of the one that the model's name chooses.
            account: Who pays, what it costs, and how much at most.
            on_call: Told of every request, by many threads.

        Raises:
            FatalModelError: The model's endpoint cannot be used.
            ConfigError: The budget has a cap on dollars, and the model has no price.
        """
        self.model = model
        self.mode: Mode = mode
        self.ledger = Ledger()
        self.endpoint = endpoint_identity(model.name, model.api_base)
        self._store = store
        self._written = store if isinstance(store, ReplyStore) and mode != "replay" else None
        self._recorded: Recorded = Bundles() if recorded is None else recorded
        self._misses = Misses()
        self._on_call = on_call
        self._live = (
            LiveCalls(model, self._written, account or Account(), provider, capped=mode in _ASKING)
            if self._written is not None
            else None
        )
        self._flights: dict[str, Future[Reply]] = {}
        self._refreshed: set[str] = set()
        self._deferred: set[str] = set()
        self._used = UsedReplies()
        self._guard = threading.Lock()

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Be the same door in a copied program: DSPy's optimizers copy programs with their models."""
        return self

    def complete(self, request: "Request") -> "Response":
        """Answer one request; the response's id is the key of the reply.

        Raises:
            ModelError: See the tree in `errors.py`.
        """
        ask = self._ask_of(request, sample_number.get())
        begun = time.monotonic()
        try:
            answer = self._together(ask, request)
        except ModelError as error:
            self._tell(ask, begun, error)
            raise
        self._tell(ask, begun, answer)
        return _response(answer.reply)

    @property
    def deferred(self) -> frozenset[str]:
        """The keys of the requests that this door wrote down for later."""
        return frozenset(self._deferred)

    def key_of(self, request: "Request", sample: int | None) -> str:
        """The key under which this request's reply is, or will be, recorded."""
        return self._ask_of(request, sample).key

    def note(self, key: str, status: Status, reasked_as: str | None = None) -> None:
        """Write down what a reply turned out to be worth."""
        if self._written is not None:
            self._written.note(key, status, reasked_as)

    def recorded(self, key: str) -> Reply | None:
        """The reply of a key, whatever it is worth.

        Raises:
            DamagedReplyError: The entry in the store cannot be trusted.
        """
        return recorded_reply(key, self._store, self._recorded)

    def used(self) -> Iterator[Reply]:
        """Every reply that this door gave out, as it is recorded now, by key."""
        return replies_of(self._used.by_key(), self._store, self._recorded)

    def used_replies(self) -> dict[str, str]:
        """A hash of what each reply that was given out said, by key."""
        return self._used.by_key()

    def close(self) -> None:
        """Close the provider's connections."""
        if self._live is not None:
            self._live.close()

    def _ask_of(self, request: "Request", sample: int | None) -> Ask:
        return ask_from(request, endpoint=self.endpoint, sample=sample)

    def _together(self, ask: Ask, request: "Request") -> Answer:
        """Answer a request; equal ones in flight are one call, and share what comes of it."""
        mine: Future[Reply] = Future()
        with self._guard:
            flight = self._flights.setdefault(ask.key, mine)
        if flight is not mine:
            reply = flight.result()
            self.ledger.served(reply)
            return Answer(reply)
        try:
            answer = self._answer(ask, request)
        except BaseException as error:
            mine.set_exception(error)
            raise
        finally:
            with self._guard:
                del self._flights[ask.key]
        mine.set_result(answer.reply)
        return answer

    def _answer(self, ask: Ask, request: "Request") -> Answer:
        recorded = self._servable(ask.key)
        if recorded is None:
            answer = self._ask(ask, request)
            self.ledger.asked(answer.reply)
        else:
            answer = Answer(recorded)
            self.ledger.served(recorded)
        self._used.enter(answer.reply)
        return answer

    def _servable(self, key: str) -> Reply | None:
        """The recorded reply, unless this mode asks again in its place."""
        if self.mode == "refresh" and key not in self._refreshed:
            return None
        try:
            reply = self.recorded(key)
        except DamagedReplyError as error:
            if self.mode == "replay":
                raise
            _log.warning("%s: asked again", error)
            return None
        if reply is not None and self._worth_another_try(reply):
            return None
        return reply

    def _worth_another_try(self, reply: Reply) -> bool:
        """Whether a recorded reply is a dead end, and this mode may ask once more."""
        # What came back from a batch is final to the next round, or the rounds would never end.
        asks_again = self.mode == "live" or (self.mode == "defer" and reply.origin == "live")
        return asks_again and reply.is_dead_end

    def _ask(self, ask: Ask, request: "Request") -> Answer:
        if self.mode == "replay":
            raise ReplayMissError(self._misses.explain(ask, self._sources()))
        if self._written is None or self._live is None:
            raise FatalModelError(f"mode {self.mode!r} needs a replies store")
        if self.mode == "defer":
            self._written.defer(ask)
            self._deferred.add(ask.key)
            raise DeferredError(f"request {ask.key} was written down")
        answer = self._live.ask(ask, request)
        if self.mode == "refresh":
            self._refreshed.add(ask.key)
        return answer

    def _tell(self, ask: Ask, begun: float, outcome: Answer | ModelError) -> None:
        """Tell whoever listens what became of a request."""
        if self._on_call is None:
            return
        seconds = time.monotonic() - begun
        if isinstance(outcome, ModelError):
            event = event_without_reply(ask, outcome, step=current_step(), seconds=seconds)
        else:
            event = event_of(
                outcome.reply, step=current_step(), seconds=seconds, attempts=outcome.attempts
            )
        self._on_call(event)

    def _sources(self) -> list[Recorded]:
        return [source for source in (self._store, self._recorded) if source is not None]


class AsyncDoor:
    """The same door for asynchronous programs."""

    supports_response_schema = True

    def __init__(self, door: Door) -> None:
        self._door = door

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Be the same door, as `Door` is."""
        return self

    async def complete(self, request: "Request") -> "Response":
        """Answer one request in a thread, so that the event loop goes on."""
        return await asyncio.to_thread(self._door.complete, request)


def open_store(path: Path, mode: Mode) -> ReadOnlyStore | None:
    """Open the replies store; a replay only reads it, and makes none where there is none."""
    if mode != "replay":
        return ReplyStore(path)
    return ReadOnlyStore(path) if holds_store(path) else None


def _response(reply: Reply) -> "Response":
    from dspy.lm15 import Message, Response, Usage

    if reply.finish_reason == NO_REPLY:
        raise ReplyError(reply.text, status="failed", call_id=reply.key)
    finish: Any = {"truncated": "length", "refused": "content_filter"}.get(
        status_of(reply.finish_reason), "stop"
    )
    return Response(
        id=reply.key,
        model=reply.ask.model,
        message=Message.assistant(reply.text),
        finish_reason=finish,
        usage=Usage(input_tokens=reply.input_tokens, output_tokens=reply.output_tokens),
    )
