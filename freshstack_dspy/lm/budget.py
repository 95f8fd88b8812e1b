"""The budget: every call is reserved at its upper bound before it is sent, so no cap is overshot.

What was spent is in the replies store, under the name of the collection: it counts over all runs,
whatever became of them. What is reserved is only here, for the calls in flight.
"""

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Self

from pydantic import Field

from freshstack_dspy.config import BudgetConfig, PricesConfig
from freshstack_dspy.errors import BudgetError, ConfigError
from freshstack_dspy.lm.prices import Price
from freshstack_dspy.lm.reply import NO_REPLY, Reply
from freshstack_dspy.lm.request import ChatRequest, canonical_json
from freshstack_dspy.records import Record


class Spent(Record):
    """An amount of calls, tokens and dollars."""

    calls: int = Field(default=0, ge=0)
    tokens: int = Field(default=0, ge=0)
    """Input and output."""
    dollars: float = Field(default=0.0, ge=0, allow_inf_nan=False)

    def __add__(self, other: "Spent") -> Self:
        return self._with(other, 1)

    def __sub__(self, other: "Spent") -> Self:
        return self._with(other, -1)

    def _with(self, other: "Spent", sign: int) -> Self:
        sums = {name: max(0, amount + sign * getattr(other, name)) for name, amount in self}
        return self.model_copy(update=sums)


ADDED_BY_PROVIDERS = 512
"""Tokens that a provider may put around a request, as the instructions for a response schema."""
SET_PRICES = "set [prices] input and output, in dollars per million tokens"
_LONGEST_REPLY = 131_072
"""Tokens, where a request does not say."""

Charge = Callable[[Spent], None]


class InFlight:
    """What the calls under way have reserved; shared by the clients that one account pays for.

    Attributes:
        reserved: The sum of their upper bounds.
        changed: Notified when it shrinks; held while it is read or written.
    """

    def __init__(self) -> None:
        self.reserved = Spent()
        self.changed = threading.Condition()


class Account(NamedTuple):
    """Who pays for calls, what they cost, and how much at most."""

    name: str = "default"
    """Caps count over all runs in this name."""
    caps: BudgetConfig = BudgetConfig()
    prices: PricesConfig = PricesConfig()
    reserved: Spent = Spent()
    """The upper bound of what is under way elsewhere, as in a provider's batches."""
    in_flight: InFlight | None = None
    """Given to several clients, their calls in flight are under the caps together."""


def upper_bound(request: ChatRequest, price: Price | None, *, batch: bool = False) -> Spent:
    """The most that one request can cost, live or through the provider's batch API.

    No tokenizer in use makes more tokens than its input has bytes, so its bytes are the bound: the
    provider's own count is not known before. Without a price the dollars are 0.
    """
    input_tokens = len(canonical_json(request.body()).encode()) + ADDED_BY_PROVIDERS
    output_tokens = int(request.parameters.get("max_tokens") or _LONGEST_REPLY)
    dollars = price.cost(input_tokens, output_tokens, batch=batch) if price else None
    return Spent(calls=1, tokens=input_tokens + output_tokens, dollars=dollars or 0.0)


def check_unpriced(caps: BudgetConfig, model: str, remedy: str, *, known: bool) -> None:
    """Raise a ConfigError for a cap on dollars where the price of the model is not known."""
    if caps.dollars is not None and not known:
        raise ConfigError(
            f"[budget] dollars is {caps.dollars:g}, and the price of {model} is not known: {remedy}, "
            "or cap tokens or calls"
        )


class Caps:
    """Caps on what is spent, for calls of any kind; shared by threads.

    `spent` gives what is spent so far, by whoever spends it; `in_flight` is shared with others.
    """

    def __init__(
        self,
        caps: BudgetConfig,
        *,
        spent: Callable[[], Spent],
        in_flight: InFlight | None = None,
    ) -> None:
        self.caps = {name: cap for name, cap in caps if cap is not None}
        self._spent = spent
        self._in_flight = in_flight or InFlight()

    @contextmanager
    def reserved(self, bound: Callable[[], Spent], charge: Charge) -> Iterator["Reservation"]:
        """Reserve one request's upper bound while the context lasts.

        Raises:
            BudgetError: It could go over a cap even with nothing else in flight.
        """
        reservation = Reservation(self, bound, charge)
        reservation.take()
        try:
            yield reservation
        finally:
            reservation.give_back()

    def admit(self, bound: Spent) -> None:
        """Wait until this much can be spent on top of all that is in flight."""
        in_flight = self._in_flight
        with in_flight.changed:
            while (full := self._full(bound)) is not None:
                if in_flight.reserved.calls == 0:
                    raise BudgetError(full)
                in_flight.changed.wait()
            in_flight.reserved += bound

    def release(self, bound: Spent) -> None:
        """End a reservation."""
        with self._in_flight.changed:
            self._in_flight.reserved -= bound
            self._in_flight.changed.notify_all()

    def _full(self, bound: Spent) -> str | None:
        """Which cap the request could go over, in words."""
        spent = self._spent()
        taken = spent + self._in_flight.reserved + bound
        for name, cap in self.caps.items():
            if getattr(taken, name) > cap:
                return (
                    f"[budget] {name} = {cap:g} does not allow another call: "
                    f"{amount(name, spent)} spent so far, and the next could take "
                    f"{amount(name, bound)}, so it takes at least {amount(name, spent + bound)} "
                    "to go on"
                )
        return None


class Reservation:
    """One request's share of the budget; without caps nothing is reserved."""

    def __init__(self, caps: Caps, bound: Callable[[], Spent], charge: Charge) -> None:
        self._caps = caps
        self._bound = bound
        self._charge = charge
        self._taken: Spent | None = None

    @functools.cached_property
    def upper_bound(self) -> Spent:
        """The most that the request can cost."""
        return self._bound()

    def take(self) -> None:
        """Reserve the upper bound, or raise a BudgetError."""
        if self._caps.caps:
            self._caps.admit(self.upper_bound)
            self._taken = self.upper_bound

    def give_back(self) -> None:
        """End the reservation."""
        taken, self._taken = self._taken, None
        if taken is not None:
            self._caps.release(taken)

    def lost(self) -> None:
        """Count an attempt without a reply that may have been billed, and reserve the next one.

        Raises:
            BudgetError: There is nothing left for another attempt.
        """
        self._charge(self.upper_bound)
        self.give_back()
        self.take()

    def spent_on(self, reply: Reply) -> Spent:
        """What a reply cost; the upper bound where the provider did not count."""
        if reply.finish_reason == NO_REPLY:
            return Spent()
        if reply.input_tokens is None or reply.output_tokens is None:
            return self.upper_bound
        return Spent(calls=1, tokens=reply.tokens, dollars=reply.cost or 0.0)


def amount(name: str, spent: Spent) -> str:
    """An amount of `calls`, `tokens` or `dollars`, as it is shown."""
    value = getattr(spent, name)
    return f"${value:.4f}" if name == "dollars" else f"{value:,}"
