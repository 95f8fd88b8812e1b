"""The budget: every call is reserved at its worst before it is sent, so no cap is overshot.

What was spent is in the replies store, under the name of the collection: it counts over all runs,
whatever became of them. What is reserved is only here, for the calls in flight.
"""

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from freshstack_dspy.config import BudgetConfig, PricesConfig
from freshstack_dspy.errors import BudgetError, ConfigError
from freshstack_dspy.lm.reply import NO_REPLY, Reply
from freshstack_dspy.lm.request import Ask, canonical_json
from freshstack_dspy.lm.spending.prices import Price
from freshstack_dspy.lm.spending.spent import Spent

ADDED_BY_PROVIDERS = 512
"""Tokens that a provider may put around a request, as the instructions for a response schema."""
_LONGEST_REPLY = 131_072
"""Tokens, where a request does not say."""

Charge = Callable[[Spent], None]


class Account(NamedTuple):
    """Who pays for calls, what they cost, and how much at most."""

    name: str = "default"
    """Caps count over all runs in this name."""
    caps: BudgetConfig = BudgetConfig()
    prices: PricesConfig = PricesConfig()
    reserved: Spent = Spent()
    """What is under way elsewhere, as in a provider's batches, at its worst."""


def worst_case(ask: Ask, price: Price | None, *, batch: bool = False) -> Spent:
    """The most that one request can cost.

    No tokenizer in use makes more tokens than its input has bytes, so its bytes are the bound: the
    provider's own count is not known before.

    Args:
        ask: The request.
        price: Of its model; without one the dollars are 0.
        batch: Whether it goes through the provider's batch API.
    """
    sent = canonical_json(ask.body()).encode("utf-8", "surrogatepass")
    input_tokens = len(sent) + ADDED_BY_PROVIDERS
    output_tokens = int(ask.parameters.get("max_tokens") or _LONGEST_REPLY)
    dollars = price.cost(input_tokens, output_tokens, batch=batch) if price else None
    return Spent(calls=1, tokens=input_tokens + output_tokens, dollars=dollars or 0.0)


class Budget:
    """Caps on what is spent; shared by threads."""

    def __init__(
        self, caps: BudgetConfig, *, model: str, price: Price | None, spent: Callable[[], Spent]
    ) -> None:
        """Prepare.

        Args:
            caps: The caps.
            model: The name of the model, for messages.
            price: What it costs.
            spent: Tells what is spent so far, by whoever spends it.

        Raises:
            ConfigError: The dollars have a cap, and the model has no price.
        """
        if caps.dollars is not None and price is None:
            raise ConfigError(
                f"[budget] dollars is {caps.dollars:g}, and nobody says what {model} costs: set "
                "[prices] input and output, in dollars per million tokens, or cap tokens or calls"
            )
        self._caps = {name: cap for name, cap in caps if cap is not None}
        self._price = price
        self._spent = spent
        self._in_flight = Spent()
        self._changed = threading.Condition()

    @contextmanager
    def reservation(self, ask: Ask, charge: Charge) -> Iterator["Reservation"]:
        """Reserve the worst that a request can cost for as long as it lasts.

        It waits where what is in flight may come back cheaper than reserved.

        Args:
            ask: The request.
            charge: Writes down what was spent without a reply.

        Raises:
            BudgetError: The request could go over a cap even with nothing else in flight.
        """
        reservation = Reservation(self, ask, charge)
        reservation.take()
        try:
            yield reservation
        finally:
            reservation.give_back()

    def worst(self, ask: Ask) -> Spent:
        """The most that a request can cost."""
        return worst_case(ask, self._price)

    @property
    def capped(self) -> bool:
        """Whether there is any cap."""
        return bool(self._caps)

    def admit(self, worst: Spent) -> None:
        """Wait until this much can be spent on top of all that is in flight.

        Raises:
            BudgetError: It could go over a cap even with nothing else in flight.
        """
        with self._changed:
            while (full := self._full(worst)) is not None:
                if self._in_flight.calls == 0:
                    raise BudgetError(full)
                self._changed.wait()
            self._in_flight += worst

    def release(self, worst: Spent) -> None:
        """Let what was reserved go."""
        with self._changed:
            self._in_flight = Spent(
                calls=self._in_flight.calls - worst.calls,
                tokens=self._in_flight.tokens - worst.tokens,
                dollars=max(0.0, self._in_flight.dollars - worst.dollars),
            )
            self._changed.notify_all()

    def _full(self, worst: Spent) -> str | None:
        """Which cap the request could go over, in words."""
        spent = self._spent()
        taken = spent + self._in_flight + worst
        for name, cap in self._caps.items():
            if getattr(taken, name) > cap:
                return (
                    f"[budget] {name} = {cap:g} does not allow another call: "
                    f"{_said(name, getattr(spent, name))} spent so far, and the next could take "
                    f"{_said(name, getattr(worst, name))}, so it takes at least "
                    f"{_said(name, getattr(spent + worst, name))} to go on"
                )
        return None


class Reservation:
    """One request's share of the budget; without caps nothing is reserved."""

    def __init__(self, budget: Budget, ask: Ask, charge: Charge) -> None:
        self._budget = budget
        self._ask = ask
        self._charge = charge
        self._held: Spent | None = None

    @functools.cached_property
    def worst(self) -> Spent:
        """The most that the request can cost."""
        return self._budget.worst(self._ask)

    def take(self) -> None:
        """Reserve the worst.

        Raises:
            BudgetError: There is not so much left.
        """
        if self._budget.capped:
            self._budget.admit(self.worst)
            self._held = self.worst

    def give_back(self) -> None:
        """End the reservation."""
        held, self._held = self._held, None
        if held is not None:
            self._budget.release(held)

    def lost(self) -> None:
        """Count an attempt without a reply that may have been billed, and reserve the next one.

        Raises:
            BudgetError: There is nothing left for another attempt.
        """
        self._charge(self.worst)
        self.give_back()
        self.take()

    def spent_on(self, reply: Reply) -> Spent:
        """What a reply cost; at worst where the provider did not count."""
        if reply.finish_reason == NO_REPLY:
            return Spent()
        if reply.input_tokens is None or reply.output_tokens is None:
            return self.worst
        return Spent(calls=1, tokens=reply.tokens, dollars=reply.cost or 0.0)


def _said(name: str, amount: float) -> str:
    return f"${amount:.4f}" if name == "dollars" else f"{amount:,}"
