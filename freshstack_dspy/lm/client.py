"""The language model as programs see it: a `dspy.LM` whose engine is the client."""

import asyncio
import functools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import dspy
from dspy.lm15 import Request
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
from freshstack_dspy.lm.budget import Account, Budget
from freshstack_dspy.lm.bundle import Bundles
from freshstack_dspy.lm.engine import Provider, provider_for
from freshstack_dspy.lm.events import Callback, event_of, event_without_reply
from freshstack_dspy.lm.misses import Misses
from freshstack_dspy.lm.prices import Price, price_of
from freshstack_dspy.lm.reply import NO_REPLY, Entry, Reply, receive, status_of
from freshstack_dspy.lm.request import ChatRequest, chat_request, endpoint_identity
from freshstack_dspy.lm.retry import Attempts
from freshstack_dspy.lm.store import (
    Recorded,
    ReplyStore,
    UsedEntries,
    holds_store,
    recorded_entries,
    recorded_reply,
)
from freshstack_dspy.lm.usage import Ledger, current_step
from freshstack_dspy.records import Status

if TYPE_CHECKING:
    from dspy.lm15 import Response, Usage


class Answer(NamedTuple):
    """A reply, and how many requests were sent for it now; 0: it was recorded, or another's."""

    reply: Reply
    attempts: int = 0


class LiveCalls:
    """Asks a provider and records what it says; shared by threads."""

    def __init__(
        self,
        model: ModelConfig,
        store: ReplyStore,
        account: Account,
        provider: Provider | None,
        *,
        capped: bool,
    ) -> None:
        """Prepare.

        Args:
            model: Which model is asked, and how.
            store: Where replies are kept, and what was spent.
            account: Who pays.
            provider: What answers, in place of the one that the model's name chooses.
            capped: Whether anything will be sent at all, which needs the caps and the price.

        Raises:
            ConfigError: There is a cap on dollars, and the model has no price.
        """
        self._model = model
        self._store = store
        self._account = account
        self._attempts: Attempts[Request, Response] = Attempts(
            model, provider, opened=functools.partial(provider_for, model)
        )
        caps = account.caps if capped else BudgetConfig()
        self._budget = Budget(
            caps,
            model=model.name,
            price=self.price if capped else None,
            spent=lambda: store.spent(account.name) + account.reserved,
            in_flight=account.in_flight,
        )

    @functools.cached_property
    def price(self) -> Price | None:
        """What the model costs, or None where nobody says."""
        return price_of(self._model.name, self._account.prices)

    def ask(self, ask: ChatRequest, request: "Request") -> Answer:
        """Ask and record.

        Raises:
            BudgetError: It could go over a cap.
            ModelError: No reply came, and none will come to other requests either.
        """
        charge = functools.partial(self._store.charge, self._account.name)
        with self._attempts.asking(), self._budget.reservation(ask, charge) as reservation:
            answer = self._answer(ask, request, reservation.lost)
            spent = reservation.spent_on(answer.reply)
            self._store.put(answer.reply, account=self._account.name, spent=spent)
        return answer

    def close(self) -> None:
        """Close the provider's connections."""
        self._attempts.close()

    def _answer(self, ask: ChatRequest, request: "Request", lost: Callable[[], None]) -> Answer:
        """Ask. That there was no reply is recorded too: a replay must come to the same failure."""
        received: Any = functools.partial(receive, ask, origin="live", price=self.price)
        try:
            response, attempts = self._attempts.complete(request, lost)
        except ReplyError as error:
            reply = received(
                text=str(error),
                finish_reason="refusal" if error.status == "refused" else NO_REPLY,
                input_tokens=None,
                output_tokens=None,
            )
            return Answer(reply, error.attempts)
        refusals = [part.text for part in response.message.parts if part.type == "refusal"]
        reply = received(
            text=response.text or "".join(refusals),
            finish_reason="refusal" if refusals else str(response.finish_reason),
            input_tokens=response.usage.input_tokens,
            output_tokens=_output_tokens(response.usage),
        )
        return Answer(reply, attempts)


def _output_tokens(usage: "Usage") -> int | None:
    """What is billed as output; Gemini and xAI count what a model thinks in the total alone."""
    if usage.input_tokens is None or usage.output_tokens is None or usage.total_tokens is None:
        return usage.output_tokens
    return max(usage.output_tokens, usage.total_tokens - usage.input_tokens)


sample_number: ContextVar[int | None] = ContextVar("freshstack_sample", default=None)
"""DSPy's rollout_id, which engines do not see by themselves."""

_ASKING = ("live", "rerecord")
_log = logging.getLogger(__name__)


class Client:
    """A DSPy engine (`dspy.LM(…, engine=client)`) over recorded replies and one provider."""

    supports_response_schema = True

    def __init__(
        self,
        model: ModelConfig,
        *,
        mode: Mode = "live",
        store: ReplyStore | None = None,
        recorded: Recorded | None = None,
        provider: Provider | None = None,
        account: Account | None = None,
        callback: Callback | None = None,
    ) -> None:
        """Open the client.

        Args:
            model: Which model is asked, and how.
            mode: See the module.
            store: Where replies are kept; every mode but `replay` needs one that can be written.
            recorded: Replies of bundles, read beside the store.
            provider: What answers, in place of the one that the model's name chooses.
            account: Who pays, what it costs, and how much at most.
            callback: Told of every request, by many threads.

        Raises:
            FatalModelError: The model's endpoint cannot be used.
            ConfigError: The budget has a cap on dollars, and the model has no price.
        """
        self.model = model
        self.mode: Mode = mode
        self.ledger = Ledger()
        self.endpoint = endpoint_identity(model.name, model.api_base)
        self._store = store
        self._written = store if mode != "replay" else None
        self._recorded: Recorded = Bundles() if recorded is None else recorded
        self._misses = Misses()
        self._on_call = callback
        self._live = (
            LiveCalls(model, self._written, account or Account(), provider, capped=mode in _ASKING)
            if self._written is not None
            else None
        )
        self._flights: dict[str, Future[Reply]] = {}
        self._rerecorded: set[str] = set()
        self._deferred: set[str] = set()
        self._used = UsedEntries()
        self._guard = threading.Lock()

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Be the same client in a copied program: DSPy's optimizers copy programs with their models."""
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
        """The keys of the requests that this client wrote down for later."""
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

    def used(self) -> Iterator[Entry]:
        """Every reply that this client gave out, as it is recorded now, by key."""
        return recorded_entries(self._used.by_key(), (self._store, self._recorded))

    def used_replies(self) -> dict[str, str]:
        """A hash of what each reply that was given out said, by key."""
        return self._used.by_key()

    def close(self) -> None:
        """Close the provider's connections."""
        if self._live is not None:
            self._live.close()

    def _ask_of(self, request: "Request", sample: int | None) -> ChatRequest:
        return chat_request(request, endpoint=self.endpoint, sample=sample)

    def _together(self, ask: ChatRequest, request: "Request") -> Answer:
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

    def _answer(self, ask: ChatRequest, request: "Request") -> Answer:
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
        if self.mode == "rerecord" and key not in self._rerecorded:
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

    def _ask(self, ask: ChatRequest, request: "Request") -> Answer:
        if self.mode == "replay":
            raise ReplayMissError(self._misses.explain(ask, self._sources()))
        if self._written is None or self._live is None:
            raise FatalModelError(f"mode {self.mode!r} needs a replies store")
        if self.mode == "defer":
            self._written.defer(ask)
            self._deferred.add(ask.key)
            raise DeferredError(f"request {ask.key} was written down")
        answer = self._live.ask(ask, request)
        if self.mode == "rerecord":
            self._rerecorded.add(ask.key)
        return answer

    def _tell(self, ask: ChatRequest, begun: float, outcome: Answer | ModelError) -> None:
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


class AsyncClient:
    """The same client for asynchronous programs."""

    supports_response_schema = True

    def __init__(self, client: Client) -> None:
        self._client = client

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Be the same client, as `Client` is."""
        return self

    async def complete(self, request: "Request") -> "Response":
        """Answer one request in a thread, so that the event loop goes on."""
        return await asyncio.to_thread(self._client.complete, request)


def open_store(path: Path, mode: Mode) -> ReplyStore | None:
    """Open the replies store; a replay only reads it, and makes none where there is none."""
    if mode != "replay":
        return ReplyStore(path)
    return ReplyStore(path, read_only=True) if holds_store(path) else None


def _response(reply: Reply) -> "Response":
    from dspy.lm15 import Message, Response, Usage

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


class RecordedLM(dspy.LM):
    """A `dspy.LM` that hands DSPy's sample number on, which engines do not see by themselves."""

    def __init__(self, client: Client) -> None:
        """Put a model behind a client; DSPy's own cache and retries are off."""
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

    def _sample(self, kwargs: dict[str, Any]) -> int | None:
        """Take the sample number out of a call's arguments; this copy's own is the default."""
        sample = kwargs.pop("rollout_id", None)
        chosen: int | None = self.kwargs.get("rollout_id") if sample is None else sample
        return chosen

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Ask; `rollout_id`, of the call or of this copy of the model, becomes the sample.

        Raises:
            ModelError: As the client raised it, out of the error that DSPy wraps around it.
        """
        token = sample_number.set(self._sample(kwargs))
        try:
            return super().__call__(*args, **kwargs)
        except LMError as error:
            if isinstance(error.__cause__, FreshstackError):
                raise error.__cause__ from None
            raise
        finally:
            sample_number.reset(token)

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """Ask without blocking the event loop."""
        token = sample_number.set(self._sample(kwargs))
        try:
            return await super().acall(*args, **kwargs)
        except LMError as error:
            if isinstance(error.__cause__, FreshstackError):
                raise error.__cause__ from None
            raise
        finally:
            sample_number.reset(token)


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
    """Open the client to a model and put a `dspy.LM` before it; for the arguments see `Client`."""
    return RecordedLM(
        Client(
            model,
            mode=mode,
            store=store,
            recorded=recorded,
            provider=provider,
            account=account,
            callback=callback,
        )
    )


@contextmanager
def in_bulk(lm: RecordedLM) -> Iterator[None]:
    """Let programs inside ask this model, without DSPy's own records of each call.

    DSPy would keep the last 10,000 prompts as history, and as many inputs and answers as traces.
    """
    with dspy.context(lm=lm, disable_history=True, trace=None):
        yield
