"""The one door to language models: a DSPy engine that records every reply and asks only once.

    program → typed adapter → DoorLM (a dspy.LM) → Door → recorded replies
                                                     └ miss → provider

Modes: `live` serves a recorded reply or asks; `replay` serves or raises, and opens no socket;
`defer` serves or writes the request down; `refresh` asks again (once for each request and run).
"""

import asyncio
import functools
import logging
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from freshstack_dspy.config import Mode, ModelConfig, PricesConfig
from freshstack_dspy.errors import (
    DamagedReplyError,
    DeferredError,
    FatalModelError,
    ReplayMissError,
    ReplyError,
)
from freshstack_dspy.lm.attempts import Attempts
from freshstack_dspy.lm.ledger import Ledger
from freshstack_dspy.lm.nearest import explain_miss
from freshstack_dspy.lm.prices import Price, price_of
from freshstack_dspy.lm.providers import Provider
from freshstack_dspy.lm.reply import NO_REPLY, Reply, receive, status_of
from freshstack_dspy.lm.request import Ask, ask_from, endpoint_identity
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.records import Status

if TYPE_CHECKING:
    from dspy.lm15 import Request, Response

sample_number: ContextVar[int | None] = ContextVar("freshstack_sample", default=None)
"""DSPy's rollout_id, which engines do not see by themselves."""

_log = logging.getLogger(__name__)


class Door:
    """A DSPy engine (`dspy.LM(…, engine=door)`) over recorded replies and one provider."""

    supports_response_schema = True

    def __init__(
        self,
        model: ModelConfig,
        *,
        mode: Mode = "live",
        store: ReplyStore | None = None,
        recorded: Mapping[str, Reply] | None = None,
        provider: Provider | None = None,
        prices: PricesConfig | None = None,
    ) -> None:
        """Open the door.

        Args:
            model: Which model is asked, and how.
            mode: See the module.
            store: Where replies are kept; needed by every mode but `replay`.
            recorded: Replies of bundles, by key, read beside the store.
            provider: What answers, in place of the one that the model's name chooses.
            prices: What the model costs, over LiteLLM's table.

        Raises:
            FatalModelError: The model's endpoint cannot be used.
        """
        self.model = model
        self.mode: Mode = mode
        self.ledger = Ledger()
        self.endpoint = endpoint_identity(model.name, model.api_base)
        self._prices = prices
        self._store = store
        self._recorded = recorded or {}
        self._attempts = Attempts(model, provider)
        self._flights: dict[str, Future[Reply]] = {}
        self._refreshed: set[str] = set()
        self._deferred: set[str] = set()
        self._used: set[str] = set()
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
        key = ask.key
        mine: Future[Reply] = Future()
        with self._guard:
            flight = self._flights.setdefault(key, mine)
        # Equal requests in flight are one call, and share what comes of it.
        if flight is not mine:
            reply = flight.result()
            self.ledger.served(reply)
            return _response(reply)
        try:
            reply = self._answer(ask, request)
        except BaseException as error:
            mine.set_exception(error)
            raise
        finally:
            with self._guard:
                del self._flights[key]
        mine.set_result(reply)
        return _response(reply)

    @functools.cached_property
    def price(self) -> Price | None:
        """What the model costs, or None where nobody says."""
        return price_of(self.model.name, self._prices)

    @property
    def deferred(self) -> frozenset[str]:
        """The keys of the requests that this door wrote down for later."""
        return frozenset(self._deferred)

    def key_of(self, request: "Request", sample: int | None) -> str:
        """The key under which this request's reply is, or will be, recorded."""
        return self._ask_of(request, sample).key

    def note(self, key: str, status: Status, reasked_as: str | None = None) -> None:
        """Write down what a reply turned out to be worth."""
        if self._store is not None and self.mode != "replay":
            self._store.note(key, status, reasked_as)

    def recorded(self, key: str) -> Reply | None:
        """The reply of a key, whatever it is worth.

        Raises:
            DamagedReplyError: The entry in the store cannot be trusted.
        """
        reply = self._store.get(key) if self._store is not None else None
        return reply or self._recorded.get(key)

    def used(self) -> list[Reply]:
        """Every reply that this door gave out, as it is recorded now, by key."""
        found = [self.recorded(key) for key in sorted(self._used)]
        return [reply for reply in found if reply is not None]

    def close(self) -> None:
        """Close the provider's connections."""
        self._attempts.close()

    def _ask_of(self, request: "Request", sample: int | None) -> Ask:
        return ask_from(request, endpoint=self.endpoint, sample=sample)

    def _answer(self, ask: Ask, request: "Request") -> Reply:
        reply = self._servable(ask.key)
        if reply is None:
            reply = self._ask(ask, request)
            self.ledger.asked(reply)
        else:
            self.ledger.served(reply)
        self._used.add(ask.key)
        return reply

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
        dead_end = reply is not None and reply.status != "ok" and reply.reasked_as is None
        return None if dead_end and self.mode == "live" else reply

    def _ask(self, ask: Ask, request: "Request") -> Reply:
        if self.mode == "replay":
            raise ReplayMissError(explain_miss(ask, self._all_recorded()))
        if self._store is None:
            raise FatalModelError(f"mode {self.mode!r} needs a replies store")
        if self.mode == "defer":
            self._store.defer(ask)
            self._deferred.add(ask.key)
            raise DeferredError(f"request {ask.key} was written down")
        reply = self._received(ask, request)
        self._store.put(reply)
        self._refreshed.add(ask.key)
        return reply

    def _received(self, ask: Ask, request: "Request") -> Reply:
        """Ask. That there was no reply is recorded too: a replay must come to the same failure."""
        try:
            response = self._attempts.complete(request)
        except ReplyError as error:
            finish_reason = "refusal" if error.status == "refused" else NO_REPLY
            return receive(
                ask,
                text=str(error),
                finish_reason=finish_reason,
                input_tokens=None,
                output_tokens=None,
                origin="live",
                price=self.price,
            )
        refusals = [part.text for part in response.message.parts if part.type == "refusal"]
        return receive(
            ask,
            text=response.text or "".join(refusals),
            finish_reason="refusal" if refusals else str(response.finish_reason),
            input_tokens=response.usage.input_tokens,
            output_tokens=response.usage.output_tokens,
            origin="live",
            price=self.price,
        )

    def _all_recorded(self) -> list[Reply]:
        stored = list(self._store.replies()) if self._store is not None else []
        return [*stored, *self._recorded.values()]


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


def open_store(path: Path, mode: Mode) -> ReplyStore | None:
    """Open the replies store; a replay makes none where there is none."""
    return None if mode == "replay" and not path.exists() else ReplyStore(path)


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
