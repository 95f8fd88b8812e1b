"""Recorded calls of a model: modes, single flight, budget, ledger and callbacks.

Chat (`client.py`) and vectors and scores (`vectors.py`) share this. Modes: `live` reuses
what is recorded and asks for the rest; `replay` only reuses, and opens no socket; `defer` writes
the missing chat requests down for later; `rerecord` asks for everything again, or for what failed.
"""

import functools
import itertools
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from pydantic_core import from_json

from freshstack_dspy.config import BudgetConfig, Mode
from freshstack_dspy.errors import (
    DamagedReplyError,
    FatalModelError,
    ModelError,
    ReplayMissError,
    StoreError,
    argument,
)
from freshstack_dspy.lm.budget import Account, Reservation, Spent
from freshstack_dspy.lm.engine import Model
from freshstack_dspy.lm.events import Callback, call_event
from freshstack_dspy.lm.reply import Numbers, Reply, content_hash
from freshstack_dspy.lm.request import (
    ChatRequest,
    NumbersRequest,
    SearchRequest,
    canonical_json,
    endpoint_identity,
)
from freshstack_dspy.lm.retry import Retries
from freshstack_dspy.lm.store import FirstOf, Recorded, ReplyStore
from freshstack_dspy.lm.telemetry import call_span
from freshstack_dspy.lm.usage import Ledger, current_step

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Access:
    """The access to a model; for the fields see `client.connect`."""

    mode: Mode = "live"
    store: ReplyStore | None = None
    recorded: Recorded | None = None
    account: Account = field(default_factory=Account)
    ledger: Ledger = field(default_factory=Ledger)
    callback: Callback | None = None
    failed: bool = False
    """Whether mode `rerecord` asks anew only for what failed, and mode `defer` for that too."""


class Recordable(Protocol):
    """Something that is asked for."""

    @property
    def request(self) -> ChatRequest | NumbersRequest:
        """As it is recorded."""
        ...


ItemT = TypeVar("ItemT", bound=Recordable)
EntryT = TypeVar("EntryT", Reply, Numbers)


class Sent(NamedTuple, Generic[EntryT]):
    """The result of one request to a provider."""

    entries: list[EntryT]
    spent: Spent
    attempts: int


class Recorder(ABC, Generic[ItemT, EntryT]):
    """Recorded replies of one model, and the way to ask it for more; shared by threads."""

    def __init__(self, model: Model, access: Access, retries: Retries, *, asks: bool) -> None:
        """Prepare; `asks` says whether this mode sends anything, which the budget must allow."""
        account = access.account
        self.access = access
        self.mode: Mode = access.mode
        self.ledger = access.ledger
        self.endpoint = endpoint_identity(model.name, model.api_base, model.section)
        self.retries = retries
        self._name = model.name
        self._recorded = FirstOf(access.store, access.recorded)
        self._account = account if asks else replace(account, caps=BudgetConfig())
        self._under_way: dict[str, Future[EntryT]] = {}
        self._asked_for: set[str] = set()
        self._damaged: set[str] = set()
        self._used: dict[str, str] = {}
        self._guard = threading.Lock()
        self._explaining = threading.Lock()
        self._misses: list[str] = []

    def answer(self, items: Sequence[ItemT]) -> list[EntryT]:
        """Serve what is recorded, and ask for the rest in one request; replies come in order.

        Each item has its own key. If another thread is asking for the same, its reply is awaited
        and shared. The call is one event.
        """
        begun = time.monotonic()
        requests = [item.request for item in items]
        with call_span(requests[0]) as observe:
            callbacks = [each for each in (self.access.callback, observe) if each is not None]

            def notify(**outcome: Any) -> None:
                if not callbacks:
                    return
                seconds, load = time.monotonic() - begun, self.retries.load()
                event = call_event(requests, current_step(), seconds, load, **outcome)
                for callback in callbacks:
                    callback(event)

            try:
                answers, attempts = self._shared(items)
            except ModelError as error:
                notify(error=error)
                raise
            entries = [answers[request.key] for request in requests]
            notify(entries=entries, attempts=attempts)
        return entries

    def reusable(self, key: str) -> EntryT | None:
        """The recorded reply of a key, unless this mode asks again in its place."""
        anew = self.mode == "rerecord" and not self.access.failed
        if anew and key not in self._asked_for:
            return None
        try:
            entry: Any = self._recorded.entry(key)
        except DamagedReplyError as error:
            if self.mode == "replay":
                raise ReplayMissError(
                    f"{error}; record it again in mode live, or import a bundle that has it"
                ) from None
            if key not in self._damaged:
                self._damaged.add(key)
                self.ledger.enter(damaged=1)
                _log.warning("%s: asked again", error)
            return None
        return None if entry is not None and self._asks_again(entry) else entry

    def reuse(self, entries: Sequence[EntryT]) -> None:
        """Enter recorded replies that are given out."""
        self.enter_used(entries)
        if entries:
            self.ledger.enter(
                cached=len(entries),
                cached_tokens=sum(entry.tokens for entry in entries),
                cached_cost=sum(entry.cost or 0.0 for entry in entries),
            )

    def enter_used(self, entries: Sequence[EntryT]) -> None:
        """Enter that the output depends on these."""
        for entry in entries:
            now = content_hash(entry)
            if self._used.setdefault(entry.key, now) != now:
                # Asked again in one run: no single reply represents all that was made from this key.
                self._used[entry.key] = "two replies in one run"

    def used_replies(self) -> dict[str, str]:
        """The content hash of each reply that was given out, by key."""
        return dict(sorted(self._used.copy().items()))

    def writable(self) -> ReplyStore:
        """The store in which this mode records."""
        if self.access.store is None or self.mode == "replay":
            raise FatalModelError(
                f'mode {self.mode!r} needs a replies store: connect(…, store="replies")'
            )
        return self.access.store

    def close(self) -> None:
        """Close the provider's connections."""
        self.retries.close()

    def _shared(self, items: Sequence[ItemT]) -> tuple[dict[str, EntryT], int]:
        """The entries by key, and the attempts it took; equal concurrent requests are sent once."""
        answers = self._reused(items)
        if not (missing := [item for item in items if item.request.key not in answers]):
            return answers, 0
        mine: dict[str, Future[EntryT]] = {}
        theirs: dict[str, Future[EntryT]] = {}
        with self._guard:
            for key in (item.request.key for item in missing):
                if key in self._under_way:
                    theirs[key] = self._under_way[key]
                else:
                    mine[key] = self._under_way[key] = Future()
        try:
            own, attempts = self._own([item for item in missing if item.request.key in mine])
        except BaseException as error:
            for future in mine.values():
                future.set_exception(error)
            raise
        finally:
            with self._guard:
                for key in mine:
                    del self._under_way[key]
        for key, future in mine.items():
            future.set_result(own[key])
        # Not before: two that wait for each other would never end.
        shared = {key: future.result() for key, future in theirs.items()}
        self.reuse(list(shared.values()))
        return answers | own | shared, attempts

    def _reused(self, items: Sequence[ItemT]) -> dict[str, EntryT]:
        entries = {item.request.key: self.reusable(item.request.key) for item in items}
        answers = {key: entry for key, entry in entries.items() if entry is not None}
        self.reuse(list(answers.values()))
        return answers

    def _own(self, items: Sequence[ItemT]) -> tuple[dict[str, EntryT], int]:
        # Another thread may have brought them since.
        answers = self._reused([item for item in items if item.request.key in self._asked_for])
        missing = [item for item in items if item.request.key not in answers]
        if not missing:
            return answers, 0
        if self.mode == "replay":
            raise ReplayMissError(self._explained(missing))
        store = self.writable()
        self._defer(missing)
        account = self._account
        reserved = Reservation(
            account,
            spent=lambda: store.spent(account.name) + account.reserved,
            bound=functools.partial(self._upper_bound, missing),
            charge=functools.partial(store.charge, account.name),
        )
        with self.retries.asking(), reserved as reservation:
            sent = self._send(missing, reservation)
            store.put(*sent.entries, account=account.name, spent=sent.spent)
        self.enter_used(sent.entries)
        self._asked_for.update(entry.key for entry in sent.entries)
        self.ledger.enter(
            calls=min(1, sent.attempts),
            tokens=sum(entry.tokens for entry in sent.entries),
            cost=sum(entry.cost or 0.0 for entry in sent.entries),
        )
        return answers | {entry.key: entry for entry in sent.entries}, sent.attempts

    def _explained(self, items: Sequence[ItemT]) -> str:
        """Why there is no reply; concurrent misses share one reading of the whole store."""
        before = len(self._misses)
        with self._explaining:
            if len(self._misses) > before:
                return f"{self._misses[-1]} (the first of several)"
            self._misses.append(self._miss(items))
            return self._misses[-1]

    def _asks_again(self, entry: EntryT) -> bool:
        """Whether a recorded reply is not an answer, and this mode may ask once more."""
        return False

    def _miss(self, items: Sequence[ItemT]) -> str:
        """Say in words that replies are not recorded, and how the recorded ones differ."""
        return explain_miss(items[0].request, self._recorded)

    def _defer(self, items: Sequence[ItemT]) -> None:
        """In mode `defer`: write requests down for later, and raise; or do nothing, to ask now."""

    @abstractmethod
    def _upper_bound(self, items: Sequence[ItemT]) -> Spent:
        """The upper bound of the cost of one request for these."""

    @abstractmethod
    def _send(self, items: Sequence[ItemT], reservation: Reservation) -> Sent[EntryT]:
        """Ask the provider for these."""


# Why a replay found no reply

_SHOWN = 60
_MOST = 50_000
"""Entries that are compared with a request that missed: about a second."""
_TEXTS = ("messages", "text", "query", "passages", "texts", "parameters")


def explain_miss(request: ChatRequest | NumbersRequest | SearchRequest, recorded: Recorded) -> str:
    """Say how the nearest recorded request differs from the one that was asked."""
    if isinstance(request, ChatRequest):
        miss = f"no recorded reply for request {request.key} ({request.task or request.model})"
        marks = [f'"name":{canonical_json(request.task)}', '"messages":']  # the same question first
    else:
        whose = "of the index" if isinstance(request, SearchRequest) else f"by {request.model}"
        miss = f"no recorded {request.kind} {whose} (request {request.key})"
        marks = [f'"kind":"{request.kind}"']
    asked = _Fields(request.model_dump(mode="json"))
    try:
        nearest = next(filter(None, (_nearest(asked, mark, recorded) for mark in marks)), None)
    except StoreError as error:
        return f"{miss}; {error}"
    live = argument("mode", "live")
    if nearest is None:
        return (
            f"{miss}: nothing is recorded at all; build once with {live}, or name a bundle in "
            "[cache] bundles"
        )
    key, other = nearest
    remedy = f"Record it with {live}, or name a bundle that has it in [cache] bundles"
    if asked.task not in (None, other.task):
        return f"{miss}: nothing is recorded for {asked.task}. {remedy}"
    differences = "; ".join(_differences(asked, other))
    return f"{miss}: the nearest recorded request, {key[:12]}, differs in {differences}. {remedy}"


class _Fields:
    """A request as it is compared: its settings, its question's name, and its text."""

    def __init__(self, request: dict[str, Any]) -> None:
        own = {name: value for name, value in request.items() if name not in _TEXTS}
        self.settings: dict[str, Any] = {**request.get("parameters", {}), **own}
        self.task = (self.settings.get("response_format") or {}).get("name")
        self.text = "\n".join([message["content"] for message in request.get("messages", ())])


def _nearest(asked: _Fields, mark: str, recorded: Recorded) -> tuple[str, _Fields] | None:
    """The recorded request that holds a mark and is most like another.

    The same question comes first, then the longest common beginning, then the most equal settings.
    """
    best, nearest = (False, -1, -1), None
    for key, data in itertools.islice(recorded.lines(mark.encode()), _MOST):
        entry = from_json(data)
        other = _Fields(entry.get("ask") or entry["request"])
        equal = sum(asked.settings.get(name) == value for name, value in other.settings.items())
        alike = asked.task == other.task, _common(asked.text, other.text), equal
        if alike > best:
            best, nearest = alike, (key, other)
    return nearest


def _differences(asked: _Fields, recorded: _Fields) -> list[str]:
    mine, theirs = asked.settings, recorded.settings
    differ = [name for name in sorted(mine.keys() | theirs) if mine.get(name) != theirs.get(name)]
    parts = [f"{name} ({_either(theirs.get(name), mine.get(name))})" for name in differ]
    if recorded.text != asked.text:
        start = _common(recorded.text, asked.text)
        both = _either(recorded.text[start:], asked.text[start:])
        parts.append(f"the messages from character {start} on ({both})")
    return parts or ["the texts"]


def _either(recorded: object, asked: object) -> str:
    old, new = (
        text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
        for text in (repr(recorded), repr(asked))
    )
    return f"{old} recorded, {new} asked"


def _common(first: str, second: str) -> int:
    """The length of the common beginning."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first[:middle] == second[:middle] else (low, middle - 1)
    return low
