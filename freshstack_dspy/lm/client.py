"""Recorded calls: a `dspy.LM` whose replies are recorded, and what embedders share with it.

Modes: `live` serves what is recorded and asks for the rest; `replay` only serves, and opens no
socket; `defer` writes the missing requests down for later; `rerecord` asks for everything again.
"""

import asyncio
import functools
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import dspy
from dspy.lm15 import Message, Request, Response, Usage
from dspy.utils.exceptions import LMError

from freshstack_dspy.config import BudgetConfig, Mode, ModelConfig
from freshstack_dspy.errors import (
    DamagedReplyError,
    DeferredError,
    FatalModelError,
    FreshstackError,
    ModelError,
    ReplayMissError,
    ReplyError,
)
from freshstack_dspy.lm.budget import Account, Caps, Reservation, Spent, check_unpriced, worst_case
from freshstack_dspy.lm.engine import Model, Provider, provider_for
from freshstack_dspy.lm.events import Callback, call_event
from freshstack_dspy.lm.misses import Misses
from freshstack_dspy.lm.prices import Price, price_of
from freshstack_dspy.lm.reply import NO_REPLY, Numbers, Reply, receive, status_of
from freshstack_dspy.lm.request import (
    ChatRequest,
    NumbersRequest,
    chat_request,
    endpoint_identity,
)
from freshstack_dspy.lm.retry import Retries
from freshstack_dspy.lm.store import (
    Recorded,
    ReplyStore,
    UsedEntries,
    holds_store,
    recorded_entries,
    recorded_entry,
)
from freshstack_dspy.lm.usage import Ledger, StepLedger, current_step
from freshstack_dspy.records import Status

_SET_PRICES = "set [prices] input and output, in dollars per million tokens"
_log = logging.getLogger(__name__)


def open_store(path: Path, mode: Mode) -> ReplyStore | None:
    """Open the replies store; a replay only reads it, and makes none where there is none."""
    if mode != "replay":
        return ReplyStore(path)
    return ReplyStore(path, read_only=True) if holds_store(path) else None


@dataclass(frozen=True)
class Access:
    """What calls of a model go through.

    Attributes:
        mode: See the module.
        store: Where replies are recorded; every mode but `replay` needs one that can be written.
        recorded: Replies of bundles, read next to the store.
        account: Who pays, and how much at most.
        ledger: Where what is asked and reused is entered.
        callback: Notified of every call, by many threads.
    """

    mode: Mode = "live"
    store: ReplyStore | None = None
    recorded: Recorded | None = None
    account: Account = field(default_factory=Account)
    ledger: Ledger = field(default_factory=Ledger)
    callback: Callback | None = None


class Item(Protocol):
    """Something that is asked for."""

    @property
    def request(self) -> ChatRequest | NumbersRequest:
        """As it is recorded."""
        ...


ItemT = TypeVar("ItemT", bound=Item)
EntryT = TypeVar("EntryT", Reply, Numbers)


class Sent(NamedTuple, Generic[EntryT]):
    """What came of one request to a provider."""

    entries: list[EntryT]
    spent: Spent
    attempts: int


class Recorder(ABC, Generic[ItemT, EntryT]):
    """Recorded replies of one model, and the way to ask it for more; shared by threads.

    Attributes:
        ledger: What was asked and reused, by step.
        endpoint: Where requests go, without credentials.
    """

    def __init__(
        self, model: Model, access: Access, retries: Retries[Any, Any], *, asks: bool
    ) -> None:
        """Prepare; `asks` says whether this mode sends anything, which the budget must allow."""
        section = getattr(model, "section", "[model]")
        account = access.account
        self.mode: Mode = access.mode
        self.ledger = access.ledger
        self.endpoint = endpoint_identity(model.name, model.api_base, section)
        self._name = model.name
        self._account = account.name
        self._callback = access.callback
        self._retries = retries
        sources = (access.store, access.recorded)
        self._sources = [source for source in sources if source is not None]
        self._misses = Misses()
        self._store = access.store if access.mode != "replay" else None
        self._caps = Caps(
            account.caps if asks else BudgetConfig(),
            spent=lambda: self._writable().spent(account.name) + account.reserved,
            in_flight=account.in_flight,
        )
        self._flights: dict[str, Future[EntryT]] = {}
        self._rerecorded: set[str] = set()
        self._used = UsedEntries()
        self._guard = threading.Lock()

    def answer(self, items: Sequence[ItemT]) -> list[EntryT]:
        """Serve what is recorded, and ask for the rest in one request.

        What another thread is asking for is waited for, and what comes of it is shared.

        Args:
            items: Each with a key of its own; their replies come in the same order.

        Raises:
            ModelError: See the tree in `errors.py`.
        """
        begun = time.monotonic()
        requests = [item.request for item in items]
        notify = functools.partial(call_event, requests, step=current_step())
        attempts = 0
        try:
            found, attempts = self._shared(items)
        except ModelError as error:
            if self._callback is not None:
                self._callback(notify(seconds=time.monotonic() - begun, error=error))
            raise
        entries = [found[request.key] for request in requests]
        if self._callback is not None:
            seconds = time.monotonic() - begun
            self._callback(notify(seconds=seconds, attempts=attempts, entries=entries))
        return entries

    def reusable(self, key: str) -> EntryT | None:
        """The recorded reply of a key, unless this mode asks again in its place.

        Raises:
            DamagedReplyError: In a replay, the entry cannot be trusted.
        """
        if self.mode == "rerecord" and key not in self._rerecorded:
            return None
        try:
            entry = self.recorded(key)
        except DamagedReplyError as error:
            if self.mode == "replay":
                raise
            _log.warning("%s: asked again", error)
            return None
        return None if entry is not None and self._asks_again(entry) else entry

    def recorded(self, key: str) -> EntryT | None:
        """The recorded reply of a key, whatever it is worth.

        Raises:
            StoreError: It cannot be read or trusted.
        """
        found: Any = recorded_entry(key, self._sources)
        return found

    def reuse(self, entries: Sequence[EntryT]) -> None:
        """Enter recorded replies that are given out."""
        for entry in entries:
            self._used.enter(entry)
        if entries:
            self.ledger.enter(
                StepLedger(
                    cached=len(entries),
                    cached_tokens=sum(one.tokens for one in entries),
                    cached_cost=sum(one.cost or 0.0 for one in entries),
                )
            )

    def used(self) -> Iterator[EntryT]:
        """Every reply that was given out, as it is recorded now, by key."""
        found: Any = recorded_entries(self._used.by_key(), self._sources)
        return found

    def used_replies(self) -> dict[str, str]:
        """The content hash of each reply that was given out, by key."""
        return self._used.by_key()

    def close(self) -> None:
        """Close the provider's connections."""
        self._retries.close()

    def _shared(self, items: Sequence[ItemT]) -> tuple[dict[str, EntryT], int]:
        mine: dict[str, Future[EntryT]] = {}
        theirs: dict[str, Future[EntryT]] = {}
        with self._guard:
            for key in (item.request.key for item in items):
                flight = self._flights.get(key)
                if flight is None:
                    mine[key] = self._flights[key] = Future()
                else:
                    theirs[key] = flight
        try:
            found, attempts = self._own([item for item in items if item.request.key in mine])
        except BaseException as error:
            for flight in mine.values():
                flight.set_exception(error)
            raise
        finally:
            with self._guard:
                for key in mine:
                    del self._flights[key]
        for key, flight in mine.items():
            flight.set_result(found[key])
        # Not before: two that wait for each other would never end.
        shared = {key: flight.result() for key, flight in theirs.items()}
        self.reuse(list(shared.values()))
        return found | shared, attempts

    def _own(self, items: Sequence[ItemT]) -> tuple[dict[str, EntryT], int]:
        found: dict[str, EntryT] = {}
        for item in items:
            entry = self.reusable(item.request.key)
            if entry is not None:
                found[item.request.key] = entry
        self.reuse(list(found.values()))
        missing = [item for item in items if item.request.key not in found]
        if not missing:
            return found, 0
        sent = self._ask(missing)
        return found | {entry.key: entry for entry in sent.entries}, sent.attempts

    def _ask(self, items: Sequence[ItemT]) -> Sent[EntryT]:
        if self.mode == "replay":
            raise ReplayMissError(self._miss(items))
        store = self._writable()
        self._defer(items)
        charge = functools.partial(store.charge, self._account)
        bound = functools.partial(self._upper_bound, items)
        with self._retries.asking(), self._caps.reserved(bound, charge) as reservation:
            sent = self._send(items, reservation)
            store.put(*sent.entries, account=self._account, spent=sent.spent)
        for entry in sent.entries:
            self._used.enter(entry)
            self._rerecorded.add(entry.key)
        tokens = sum(entry.tokens for entry in sent.entries)
        cost = sum(entry.cost or 0.0 for entry in sent.entries)
        self.ledger.enter(StepLedger(calls=1, tokens=tokens, cost=cost))
        return sent

    def _writable(self) -> ReplyStore:
        if self._store is None:
            raise FatalModelError(f"mode {self.mode!r} needs a replies store")
        return self._store

    def _asks_again(self, entry: EntryT) -> bool:
        """Whether a recorded reply is no answer, and this mode may ask once more."""
        return False

    def _miss(self, items: Sequence[ItemT]) -> str:
        """Say in words that replies are not recorded, and how the recorded ones differ."""
        return self._misses.explain(items[0].request, self._sources)

    def _defer(self, items: Sequence[ItemT]) -> None:
        """In mode `defer`: write requests down for later, and raise; or do nothing, to ask now."""

    @abstractmethod
    def _upper_bound(self, items: Sequence[ItemT]) -> Spent:
        """The most that one request for these can cost."""

    @abstractmethod
    def _send(self, items: Sequence[ItemT], reservation: Reservation) -> Sent[EntryT]:
        """Ask the provider for these."""


class Prompt(NamedTuple):
    """One request of DSPy's, and what it is recorded as."""

    request: ChatRequest
    sent: Request


class Client(Recorder[Prompt, Reply]):
    """A DSPy engine over recorded replies and one provider.

    Attributes:
        model: Which model is asked, and how.
        deferred: The keys of the requests that were written down for later.
    """

    supports_response_schema = True

    def __init__(
        self, model: ModelConfig, access: Access, *, provider: Provider | None = None
    ) -> None:
        """Open the client; for the arguments and errors see `connect`."""
        self.model = model
        self.deferred: set[str] = set()
        self._own_prices = access.account.prices
        opened: Any = functools.partial(provider_for, model)
        if provider is not None:  # whoever made it closes it
            opened = functools.partial(SimpleNamespace, complete=provider.complete)
        retries: Retries[Request, Response] = Retries(model, opened)
        asks = access.mode in ("live", "rerecord")
        super().__init__(model, access, retries, asks=asks)
        caps = access.account.caps
        if asks and caps.dollars is not None:
            check_unpriced(caps, model.name, _SET_PRICES, known=self.price is not None)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Be the same client in a copied program: DSPy's optimizers copy programs with their models."""
        return self

    @functools.cached_property
    def price(self) -> Price | None:
        """What the model costs, or None where nobody says."""
        return price_of(self.model.name, self._own_prices)

    def complete(self, request: Request) -> Response:
        """Answer one request; the response's id is the key of the reply.

        Raises:
            ModelError: See the tree in `errors.py`.
        """
        (reply,) = self.answer([Prompt(self._recorded_as(request, sample_number.get()), request)])
        return _response(reply)

    def key_of(self, request: Request, sample: int | None) -> str:
        """The key under which this request's reply is, or will be, recorded."""
        return self._recorded_as(request, sample).key

    def note(self, key: str, status: Status, reasked_as: str | None = None) -> None:
        """Write down what a reply turned out to be worth."""
        if self._store is not None:
            self._store.note(key, status, reasked_as)

    def _recorded_as(self, request: Request, sample: int | None) -> ChatRequest:
        return chat_request(request, endpoint=self.endpoint, sample=sample)

    def _asks_again(self, entry: Reply) -> bool:
        # What came back from a batch is final to the next round, or the rounds would never end.
        retries = self.mode == "live" or (self.mode == "defer" and entry.origin == "live")
        return retries and entry.is_dead_end

    def _defer(self, items: Sequence[Prompt]) -> None:
        if self.mode == "defer":
            request = items[0].request
            self._writable().defer(request)
            self.deferred.add(request.key)
            raise DeferredError(f"request {request.key} was written down")

    def _upper_bound(self, items: Sequence[Prompt]) -> Spent:
        return worst_case(items[0].request, self.price)

    def _send(self, items: Sequence[Prompt], reservation: Reservation) -> Sent[Reply]:
        """Ask. That there was no reply is recorded too: a replay must come to the same failure."""
        ((request, sent),) = items
        received: Any = functools.partial(receive, request, origin="live", price=self.price)
        try:
            response, attempts = self._retries.complete(sent, reservation.lost)
        except ReplyError as error:
            attempts = error.attempts
            reply = received(
                text=str(error),
                finish_reason="refusal" if error.status == "refused" else NO_REPLY,
                input_tokens=None,
                output_tokens=None,
            )
        else:
            refusals = [part.text for part in response.message.parts if part.type == "refusal"]
            reply = received(
                text=response.text or "".join(refusals),
                finish_reason="refusal" if refusals else str(response.finish_reason),
                input_tokens=response.usage.input_tokens,
                output_tokens=_output_tokens(response.usage),
            )
        return Sent([reply], reservation.spent_on(reply), attempts)


class AsyncClient:
    """The same client for asynchronous programs."""

    supports_response_schema = True

    def __init__(self, client: Client) -> None:
        self._client = client

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Be the same client, as `Client` is."""
        return self

    async def complete(self, request: Request) -> Response:
        """Answer one request in a thread, so that the event loop goes on."""
        return await asyncio.to_thread(self._client.complete, request)


def _output_tokens(usage: Usage) -> int | None:
    """What is billed as output; Gemini and xAI count what a model thinks in the total alone."""
    if usage.input_tokens is None or usage.output_tokens is None or usage.total_tokens is None:
        return usage.output_tokens
    return max(usage.output_tokens, usage.total_tokens - usage.input_tokens)


def _response(reply: Reply) -> Response:
    if reply.finish_reason == NO_REPLY:
        raise ReplyError(reply.text, status="failed", call_id=reply.key)
    finish: Any = {"truncated": "length", "refused": "content_filter"}.get(
        status_of(reply.finish_reason), "stop"
    )
    return Response(
        id=reply.key,
        model=reply.request.model,
        message=Message.assistant(reply.text),
        finish_reason=finish,
        usage=Usage(input_tokens=reply.input_tokens, output_tokens=reply.output_tokens),
    )


sample_number: ContextVar[int | None] = ContextVar("freshstack_sample", default=None)
"""DSPy's rollout_id, which engines do not see by themselves."""


class RecordedLM(dspy.LM):
    """A `dspy.LM` whose replies are recorded; its `rollout_id` is the number of the sample.

    Attributes:
        client: The engine, which copies of this LM share.
        reasks: How often an invalid reply is sent back.
        structured: How a reply's schema is asked for.
    """

    def __init__(self, client: Client) -> None:
        """Put a model before a client; DSPy's own cache and retries are off."""
        model = client.model
        try:
            super().__init__(
                model.name,
                engine=client,
                async_engine=AsyncClient(client),
                cache=False,
                num_retries=0,
                temperature=model.temperature,
                max_tokens=model.max_tokens,
            )
        except (ValueError, LMError) as error:
            raise FatalModelError(f"{model.name} cannot be asked: {error}") from None
        self.client = client
        self.reasks = model.reasks
        self.structured = model.structured

    @property
    def ledger(self) -> Ledger:
        """What was asked, by step."""
        return self.client.ledger

    def note(self, key: str, status: Status, reasked_as: str | None = None) -> None:
        """Write down what a reply turned out to be worth."""
        self.client.note(key, status, reasked_as)

    def key_of(self, request: Request, rollout_id: int | None = None) -> str:
        """The key under which this request's reply is, or will be, recorded."""
        return self.client.key_of(request, self._sample({"rollout_id": rollout_id}))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Ask.

        Raises:
            ModelError: As the client raised it, out of the error that DSPy wraps around it.
        """
        with self._calling(kwargs):
            return super().__call__(*args, **kwargs)

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """Ask without blocking the event loop."""
        with self._calling(kwargs):
            return await super().acall(*args, **kwargs)

    @contextmanager
    def _calling(self, kwargs: dict[str, Any]) -> Iterator[None]:
        token = sample_number.set(self._sample(kwargs))
        try:
            yield
        except LMError as error:
            if isinstance(error.__cause__, FreshstackError):
                raise error.__cause__ from None
            raise
        finally:
            sample_number.reset(token)

    def _sample(self, kwargs: dict[str, Any]) -> int | None:
        """Take the sample number out of a call's arguments; this copy's own is the default."""
        sample: int | None = kwargs.pop("rollout_id", None)
        return self.kwargs.get("rollout_id") if sample is None else sample


def connect(
    model: ModelConfig,
    *,
    mode: Mode = "live",
    store: ReplyStore | None = None,
    recorded: Recorded | None = None,
    provider: Provider | None = None,
    account: Account | None = None,
    callback: Callback | None = None,
) -> RecordedLM:
    """Make a `dspy.LM` whose replies are recorded.

    Args:
        model: Which model is asked, and how.
        mode: `live`, `replay`, `defer` or `rerecord`; see the module.
        store: Where replies are recorded; every mode but `replay` needs one that can be written.
        recorded: Replies of bundles, read next to the store.
        provider: What answers, in place of the one that the model's name chooses.
        account: Who pays, what it costs, and how much at most.
        callback: Notified of every call, by many threads.

    Raises:
        FatalModelError: The model cannot be asked, or not at this endpoint.
        ConfigError: The budget has a cap on dollars, and the model has no price.
    """
    access = Access(mode, store, recorded, account or Account(), callback=callback)
    return RecordedLM(Client(model, access, provider=provider))


@contextmanager
def in_bulk(lm: RecordedLM) -> Iterator[None]:
    """Let programs inside ask this model, without DSPy's own records of each call.

    DSPy would keep the last 10,000 prompts as history, and as many inputs and answers as traces.
    """
    with dspy.context(lm=lm, disable_history=True, trace=None):
        yield
