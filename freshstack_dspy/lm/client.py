"""A `dspy.LM` whose replies are recorded; for the modes see `recorder.py`."""

import asyncio
import functools
import operator
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, Self

import dspy
from dspy.lm15 import Message, Request, Response, Usage, response_to_events
from pydantic import ValidationError

from freshstack_dspy.config import MODES, BudgetConfig, CacheConfig, Mode, ModelConfig, PricesConfig
from freshstack_dspy.errors import (
    ConfigError,
    DeferredError,
    FatalModelError,
    FreshstackError,
    ReplyError,
    TooLongError,
    TransientModelError,
)
from freshstack_dspy.faults import first_fault
from freshstack_dspy.lm.budget import (
    SET_PRICES,
    Account,
    Reservation,
    Spent,
    check_unpriced,
    spent_on,
    upper_bound,
)
from freshstack_dspy.lm.capabilities import capabilities_of, is_too_long, window_in
from freshstack_dspy.lm.dspy_parts import LMError, engine_of
from freshstack_dspy.lm.engine import Provider, provider_for, sendable
from freshstack_dspy.lm.events import Callback, waiting_event
from freshstack_dspy.lm.prices import Price, price_of
from freshstack_dspy.lm.recorder import Access, Recorder, Sent
from freshstack_dspy.lm.reply import (
    NO_REPLY,
    UNANSWERED,
    Reply,
    receive,
    status_of,
)
from freshstack_dspy.lm.request import COMMAND, ChatRequest, canonical_json, chat_request
from freshstack_dspy.lm.retry import Retries
from freshstack_dspy.lm.store import Recorded, ReplyStore, open_store
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.lm.usage import Ledger, current_step
from freshstack_dspy.records import Status


class Prompt(NamedTuple):
    """One request of DSPy's, and what it is recorded as."""

    request: ChatRequest
    sent: Request | None = None
    """As DSPy takes it; None: made from what is recorded."""


class Client(Recorder[Prompt, Reply]):
    """A DSPy engine over recorded replies and one provider."""

    supports_response_schema = True

    def __init__(
        self, model: ModelConfig, access: Access, *, provider: Provider | None = None
    ) -> None:
        """Open the client; for the arguments and errors see `connect`."""
        self.model = model
        self.capabilities = capabilities_of(model)
        self.provider = provider
        """The provider that was given in place of the one that the model's name chooses."""
        self.deferred: dict[str, str] = {}
        """The keys of deferred requests, with the step that asked."""
        self._prices = model.prices or access.account.prices
        self._answered_at: str | None = None
        """The time of the last answer recorded before this run."""
        self._too_long: list[tuple[int, int, int]] = []
        """Token counts that do not fit: of prompts, of their longest replies, and of both."""
        opened: Any = functools.partial(provider_for, model)
        if provider is not None:  # its maker closes it
            opened = functools.partial(SimpleNamespace, complete=provider.complete)
        asks = access.mode in ("live", "rerecord")
        super().__init__(model, access, Retries(model, opened, self._has_answered), asks=asks)
        caps = access.account.caps
        if asks and caps.dollars is not None:
            hint = SET_PRICES
            if model.section != "[model]":
                hint = f"set prices = {{input = …, output = …}} in {model.section}"
            check_unpriced(caps, model.name, hint, is_priced=self.price is not None)

    @functools.cached_property
    def price(self) -> Price | None:
        """What the model costs, or None where it is unknown."""
        return price_of(self.model.name, self._prices)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Be the same client in a copied program: DSPy's optimizers copy programs with their models."""
        return self

    def answer_waiting(self, request: ChatRequest) -> Reply:
        """Answer a request that was deferred."""
        (reply,) = self.answer([Prompt(request)])
        return reply

    def complete(self, request: Request) -> Response:
        """Answer one request, or raise a ModelError; the response's id is the key of the reply."""
        fitted = self.capabilities.fitted(request)
        # The dry run of a plan is told by the schema what is asked, also where it is not sent.
        sent = request if getattr(self.provider, "reads_schema", False) else fitted
        asked = chat_request(fitted, endpoint=self.endpoint, sample=sample_number.get())
        (reply,) = self.answer([Prompt(asked, sent)])
        response = _response(reply)
        if (replies := dspy.settings.get(_GIVEN_OUT)) is not None:
            replies.append(response)
        return response

    def stream(self, request: Request) -> Iterator[Any]:
        """Answer one request in one piece, for callers that expect a stream, as `dspy.streamify`."""
        return response_to_events(self.complete(request))

    async def acomplete(self, request: Request) -> Response:
        """Answer one request in a thread, so that the event loop goes on."""
        return await asyncio.to_thread(self.complete, request)

    async def astream(self, request: Request) -> AsyncIterator[Any]:
        """Answer one request in one piece without blocking the event loop."""
        for event in response_to_events(await self.acomplete(request)):
            yield event

    def recorded_as(self, request: Request, sample: int | None) -> ChatRequest:
        """The request with the key under which its reply is, or will be, recorded."""
        fitted = self.capabilities.fitted(request)
        return chat_request(fitted, endpoint=self.endpoint, sample=sample)

    def waits(self, seconds: float) -> str | None:
        """Notify that the model has been silent; return it in words, or None if none is awaited."""
        load, why = self.retries.load(), self.retries.trouble
        if not any(load.values()):
            return None
        if self.access.callback is not None:
            self.access.callback(waiting_event(self.model.name, seconds, why, load))
        asked_again = f"; asked again: {why}" if why else ""
        return (
            f"{seconds:,.0f} s without a reply of {self.model.name} ({self.endpoint}){asked_again}"
        )

    def note(self, key: str, status: Status, reasked_as: str | None = None) -> None:
        """Record the status that a reply turned out to have."""
        if self.access.store is not None and self.mode != "replay":
            self.access.store.note(key, status, reasked_as)

    def enter_used(self, entries: Sequence[Reply]) -> None:
        """Enter that the output depends on these, and which model answered in the step."""
        super().enter_used(entries)
        if current_step() != "other" and any(
            entry.finish_reason not in (NO_REPLY, UNANSWERED) for entry in entries
        ):
            self.ledger.enter_model(self.model.name)

    def _asks_again(self, entry: Reply) -> bool:
        """Whether a request that got no answer may be sent again: if an outage was the cause.

        If the model has answered others since, the request itself was the cause.
        """
        if not entry.is_dead_end or entry.key in self._asked_for:
            return False
        if self.mode == "rerecord" or self.access.failed:
            return True
        is_open = self.mode in ("live", "defer") and entry.finish_reason == UNANSWERED
        return is_open and not self._has_answered(since=entry.received_at)

    def _has_answered(self, since: str = "") -> bool:
        """Whether a reply of this model was recorded after a moment and before this run."""
        with self._guard:
            if self._answered_at is None:  # read once: it takes the whole store
                self._answered_at = max(self._answers_at(), default="")
        return self._answered_at > since

    def _answers_at(self) -> Iterator[str]:
        model = canonical_json({"model": self.model.name})[1:-1].encode()
        endpoint = canonical_json({"endpoint": self.endpoint})[1:-1].encode()
        for key, line in self._recorded.lines(model):
            if endpoint in line and b'"status":"ok"' in line and key not in self._asked_for:
                reply = self._recorded.get(key)
                if reply is not None:
                    yield reply.received_at

    def _defer(self, items: Sequence[Prompt]) -> None:
        if self.mode == "defer":
            request = items[0].request
            self.writable().defer(request)
            self.deferred[request.key] = current_step()
            raise DeferredError(f"request {request.key} was written down")

    def _upper_bound(self, items: Sequence[Prompt]) -> Spent:
        return upper_bound(items[0].request, self.price)

    def _send(self, items: Sequence[Prompt], reservation: Reservation) -> Sent[Reply]:
        """Ask. A missing reply is recorded too: a replay must come to the same failure."""
        ((request, sent),) = items
        counts: dict[str, int | None] = {}
        try:
            self._check_length(request)
            response, attempts = self.retries.complete(
                sent or sendable(request, self.model), reservation.lost
            )
        except ReplyError as error:
            attempts, text = error.attempts, str(error)
            if isinstance(error, TooLongError) and attempts:
                self._learn_length(request, window_in(text))
            reason = "refusal" if error.status == "refused" else NO_REPLY
            if isinstance(error.__cause__, TransientModelError):
                reason = UNANSWERED
        else:
            refusals = [part.text for part in response.message.parts if part.type == "refusal"]
            text = response.text or "".join(refusals)
            reason = "refusal" if refusals else str(response.finish_reason)
            names = ("input_tokens", "output_tokens", "total_tokens")
            counts = {name: getattr(response.usage, name) for name in names}
        price = self.price
        reply = receive(
            request, text=text, finish_reason=reason, origin="live", price=price, **counts
        )
        return Sent([reply], spent_on(reply, price), attempts)

    def _learn_length(self, request: ChatRequest, window: int | None) -> None:
        prompt, most, _ = _length_of(request)
        if window is None:
            least = prompt, most, 0
        elif prompt > window:
            least = window + 1, 0, 0
        else:  # here the reply counts too
            least = 0, 0, min(window + 1, prompt + most)
        self._too_long.append(least)

    def _check_length(self, request: ChatRequest) -> None:
        """Refuse in the model's place a prompt as long as one that it refused in this run.

        This is recorded like a refusal by the model, so that a replay takes the same path.
        """
        if not self._too_long:
            return
        length = _length_of(request)
        if any(all(map(operator.ge, length, least)) for least in self._too_long):
            error = TooLongError(
                f"{self.model.name} was not asked: it exceeds the context, as a shorter request did "
                "(context_length_exceeded)",
                status="failed",
                call_id=None,
            )
            error.attempts = 0
            raise error


def _length_of(request: ChatRequest) -> tuple[int, int, int]:
    """Tokens of a prompt as we count them, of the longest reply to it, and of both."""
    prompt = sum(count_tokens(message.content) for message in request.messages)
    most = request.parameters.get("max_tokens") or 0
    return prompt, most, prompt + most


def _response(reply: Reply) -> Response:
    if reply.status == "failed" and is_too_long(reply.text):
        raise TooLongError(
            f"{reply.text}: name what fits in [model] context, or lower [model] max_tokens",
            status="failed",
            call_id=reply.key,
        )
    if reply.finish_reason in (NO_REPLY, UNANSWERED):
        raise ReplyError(reply.text, status="failed", call_id=reply.key)
    finish: Any = {"truncated": "length", "refused": "content_filter"}
    return Response(
        id=reply.key,
        model=reply.request.model,
        message=Message.assistant(reply.text),
        finish_reason=finish.get(status_of(reply.finish_reason), "stop"),
        usage=Usage(input_tokens=reply.input_tokens, output_tokens=reply.output_tokens),
    )


sample_number: ContextVar[int | None] = ContextVar("freshstack_sample", default=None)
"""DSPy's rollout_id, which engines do not see by themselves."""
_GIVEN_OUT = "freshstack_given_out"


@contextmanager
def given_out() -> Iterator[list[Response]]:
    """Collect the recorded responses that are given out inside, also in threads begun there."""
    replies: list[Response] = []
    # DSPy's threads see its settings, and no context variable of ours.
    with dspy.context(**{_GIVEN_OUT: replies}):
        yield replies


class RecordedLM(dspy.LM):
    """A `dspy.LM` whose replies are recorded; its `rollout_id` is the number of the sample.

    Saved with a program are its model, mode and store, and no key; loading connects it again.
    (DSPy's `load` asks for `allow_unsafe_lm_state=True`, as for any LM of others.)

    Attributes:
        client: The engine, which copies of this LM share.
        reasks: How often an invalid reply is sent back.
    """

    def __init__(self, client: Client, callbacks: Sequence[Any] = ()) -> None:
        """Make the LM of a client; DSPy's own cache and retries are off.

        `callbacks` are DSPy's, called next to those of `dspy.settings`.
        """
        model = client.model
        try:
            super().__init__(
                model.name,
                engine=client,
                async_engine=SimpleNamespace(
                    complete=client.acomplete,
                    stream=client.astream,
                    supports_response_schema=True,
                ),
                cache=False,
                num_retries=0,
                callbacks=list(callbacks),
                temperature=model.temperature,
                max_tokens=model.max_tokens,
                top_p=model.top_p,
            )
        except (ValueError, LMError) as error:
            raise FatalModelError(f"{model.name} cannot be asked: {error}") from None
        self.client = client
        self.reasks = model.reasks

    def _get_initial_kwargs(self, **kwargs: Any) -> dict[str, Any]:
        """Skip DSPy's rules for OpenAI's reasoning models: `capabilities` has them."""
        return {name: value for name, value in kwargs.items() if value is not None}

    @property
    def ledger(self) -> Ledger:
        """The usage so far, by step."""
        return self.client.ledger

    def dump_state(self) -> dict[str, Any]:
        """Give the state that `load_state` takes, as JSON.

        Raises:
            FatalModelError: It has bundles or a provider of its own, which cannot be saved.
        """
        client, access = self.client, self.client.access
        if access.recorded is not None or client.provider is not None:
            raise FatalModelError(
                f"{self.model}: connected with recorded or provider, which cannot be saved; "
                "connect it again with them, and save the program without it"
            )
        config = client.model.model_dump(mode="json", exclude={"api_key"})
        if client.model.api_base is not None:
            config["api_base"] = client.endpoint  # the same address, without credentials
        store = None if access.store is None else str(access.store.path)
        named = dspy.BaseLM.dump_state(self)  # DSPy's own name for the class among them
        return {
            **named,
            "kwargs": self.kwargs,
            "config": config,
            "mode": client.mode,
            "store": store,
            "account": access.account.name,
            "caps": access.account.caps.model_dump(mode="json"),
            "prices": access.account.prices.model_dump(mode="json"),
        }

    @classmethod
    def load_state(cls, state: dict[str, Any], *, allow_custom_lm_class: bool = False) -> Self:
        """Connect again as a saved state says; a program to run is not taken from a file."""
        _check_no_command(state["config"]["name"])
        model = ModelConfig.model_validate(state["config"])
        account = Account(
            state["account"],
            BudgetConfig.model_validate(state["caps"]),
            PricesConfig.model_validate(state["prices"]),
        )
        lm: Any = connect(model, mode=state["mode"], store=state["store"], account=account)
        copied: Self = lm.copy(**state["kwargs"])
        return copied

    def key_of(self, request: Request, rollout_id: int | None = None) -> str:
        """The key under which this request's reply is, or will be, recorded."""
        return self.client.recorded_as(request, self._sample({"rollout_id": rollout_id})).key

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Ask; DSPy wraps the client's ModelError, which is raised in its place."""
        with self._calling(kwargs):
            request = args[0] if len(args) == 1 and not kwargs else None
            if isinstance(request, Request) and request.model == self.model and self.is_unobserved:
                return self.client.complete(request)
            return super().__call__(*args, **kwargs)

    @property
    def is_unobserved(self) -> bool:
        """Whether DSPy would keep nothing of a call and tell nobody: it then only hands it on."""
        noticed = "callbacks", "usage_tracker", "send_stream"
        return (
            bool(dspy.settings.get("disable_history"))
            and not self.callbacks
            and not any(map(dspy.settings.get, noticed))
        )

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """Ask without blocking the event loop."""
        with self._calling(kwargs):
            return await super().acall(*args, **kwargs)

    def _check_truncation(self, results: Any) -> None:
        """Without DSPy's warning: a truncated reply is an error here."""

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
    model: ModelConfig | dspy.BaseLM | str,
    *,
    mode: Mode = "live",
    store: ReplyStore | Path | str | None = None,
    recorded: Recorded | None = None,
    provider: Provider | None = None,
    account: Account | None = None,
    callback: Callback | None = None,
    failed: bool = False,
) -> RecordedLM:
    """Make a `dspy.LM` whose replies are recorded.

    Args:
        model: Which model is asked, and how; its name alone, such as `openai/gpt-5-mini`; or an LM of
            DSPy, also one with an engine of its own and a `DummyLM` of tests, with its settings,
            `num_retries` and `callbacks`. Replies are found by its name: another engine needs
            another name, or another store.
        mode: `live`, `replay`, `defer` or `rerecord`, as in `SessionOptions`.
        store: Where replies are recorded, or its folder; every mode but `replay` needs one that can
            be written. For a name or an LM, the default is that of a build, `.freshstack/cache`.
        recorded: Replies of bundles, read next to the store.
        provider: What answers, in place of the engine of the LM or the one that the name chooses.
        account: Who pays, what it costs, and how much at most.
        callback: Notified of every call, by many threads.
        failed: Whether mode `rerecord` asks anew only for what failed, and mode `defer` for that too.

    Raises:
        FatalModelError: The model cannot be asked, or not at this endpoint.
        ConfigError: The budget has a cap on dollars, and the model has no price; or an LM of DSPy
            has what a configuration lacks.
    """
    callbacks = getattr(model, "callbacks", ())
    if not isinstance(model, ModelConfig):
        store = CacheConfig().path if store is None and recorded is None else store
        model = as_model(model)
        provider = provider or model.provider
    if isinstance(store, str | Path):
        store = open_store(Path(store), mode)
    if mode not in MODES:
        raise ConfigError(f"mode is {mode!r}; allowed: {', '.join(MODES)}")
    access = Access(mode, store, recorded, account or Account(), callback=callback, failed=failed)
    return RecordedLM(Client(model, access, provider=provider), callbacks)


_SETTINGS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "reasoning_effort": "reasoning_effort",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "timeout": "timeout",
    "api_key": "api_key",
    "api_base": "api_base",
    "base_url": "api_base",
}
"""What a `dspy.LM` is given, and where a `ModelConfig` has it."""


def model_of(lm: Any) -> ModelConfig:
    """Give the configuration of a model that DSPy is configured with.

    Raises:
        ConfigError: It is another class with no engine, or has a setting that a configuration lacks.
    """
    if not isinstance(lm, dspy.BaseLM):
        raise ConfigError(
            f"{type(lm).__name__} is no language model that takes a prompt, and cannot be recorded; "
            'give a name, such as "openai/gpt-5-mini", a ModelConfig, or a dspy.LM'
        )
    settings = {name: value for name, value in lm.kwargs.items() if value is not None}
    others = ", ".join(sorted(settings.keys() - _SETTINGS.keys()))
    is_asked = type(lm) is dspy.LM or engine_of(lm) is not None
    if isinstance(lm, RecordedLM):
        base, values = lm.client.model, dict[str, Any]()
    else:
        _check_no_command(lm.model)
        base, values = ModelConfig(name=lm.model), {"retries": lm.num_retries}
    if not is_asked or lm.model_type != "chat" or others:
        raise ConfigError(
            f"the configured {type(lm).__name__} {lm.model} cannot be recorded as it is"
            f"{f', with {others}' if others else ''}; give one of connect(…), a dspy.LM(…, engine=…), "
            f'or a model: ModelConfig(name="{lm.model}")'
        )
    values |= {_SETTINGS[name]: value for name, value in settings.items()}
    try:
        model = ModelConfig.model_validate({**dict(base), **values})
    except ValidationError as error:
        raise ConfigError(f"the configured model {lm.model}: {first_fault(error)}") from None
    return base if model == base else model


def _check_no_command(name: str) -> None:
    """Refuse a command in an LM that may be from somebody else's file."""
    if name.startswith(COMMAND):
        raise ConfigError(
            f"{name!r} is a program to run, and not taken from a saved program or an LM object; "
            "name it in the configuration, or with connect(…)"
        )


def as_model(model: ModelConfig | dspy.BaseLM | str) -> ModelConfig:
    """Give the configuration of a model, from itself, a name, or an LM with its engine.

    Raises:
        ConfigError: See `model_of`.
    """
    if isinstance(model, ModelConfig):
        return model
    if isinstance(model, str):
        return ModelConfig(name=model)
    is_recorded = isinstance(model, RecordedLM)
    return model_of(model).answered_by(model.client.provider if is_recorded else engine_of(model))


def as_recorded(lm: Any = None) -> RecordedLM:
    """This model, or else the one that DSPy is configured with, recorded as `connect` would.

    Raises:
        ConfigError: There is none, or its replies cannot be recorded; see `model_of`.
    """
    lm = dspy.settings.lm if lm is None else lm
    if lm is None:
        raise ConfigError('no model; give connect("openai/…"), or dspy.configure(lm=…)')
    return lm if isinstance(lm, RecordedLM) else connect(lm)
