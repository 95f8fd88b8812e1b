"""The budget: every call is reserved at its upper bound before it is sent, so no cap is overshot.

The amount spent is in the replies store, under the name of the collection, and counts all runs,
failed ones too. Reservations exist only here, for the calls in flight.
"""

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from pydantic import Field

from freshstack_dspy.config import BudgetConfig, PricesConfig
from freshstack_dspy.errors import BudgetError, ConfigError
from freshstack_dspy.lm.capabilities import THOUGHTS
from freshstack_dspy.lm.prices import Price
from freshstack_dspy.lm.reply import NO_REPLY, UNANSWERED, Reply
from freshstack_dspy.lm.request import ChatRequest, canonical_json
from freshstack_dspy.records import Record


class Spent(Record):
    """An amount of calls, tokens and dollars."""

    calls: int = Field(default=0, ge=0)
    tokens: int = Field(default=0, ge=0)
    """Input and output."""
    dollars: float = Field(default=0.0, ge=0, allow_inf_nan=False)

    def __add__(self, other: "Spent") -> Self:
        sums = {name: amount + getattr(other, name) for name, amount in self}
        return self.model_copy(update=sums)

    def __sub__(self, other: "Spent") -> Self:
        left = {name: max(0, amount - getattr(other, name)) for name, amount in self}
        return self.model_copy(update=left)


ADDED_BY_PROVIDERS = 512
"""Tokens that a provider may put around a request, as the instructions for a response schema."""
SET_PRICES = "set [prices] input and output, in dollars per million tokens"
_LONGEST_REPLY = 131_072
"""Tokens, where a request does not say."""


@dataclass
class Account:
    """Who pays for calls, their prices, and the caps."""

    name: str = "default"
    """Caps count over all runs in this name."""
    caps: BudgetConfig = field(default_factory=BudgetConfig)
    prices: PricesConfig = field(default_factory=PricesConfig)
    reserved: Spent = field(default_factory=Spent)
    """The upper bound of calls under way elsewhere, such as a provider's batches."""
    in_flight: Spent = field(default_factory=Spent)
    """The upper bound of the calls under way, of all the clients that share this account."""
    changed: threading.Condition = field(default_factory=threading.Condition)
    """Notified when that shrinks; held while it is read or written."""


def upper_bound(request: ChatRequest, price: Price | None) -> Spent:
    """The most that one request can cost.

    The provider's count is not known in advance, but no tokenizer in use makes more tokens than
    its input has bytes, so the bytes are the bound. Without a price the dollars are 0.
    """
    input_tokens = len(canonical_json(request.body()).encode()) + ADDED_BY_PROVIDERS
    output_tokens = int(request.parameters.get("max_tokens") or _LONGEST_REPLY)
    if request.model.startswith("anthropic/") and (thought := request.parameters.get("reasoning")):
        output_tokens += THOUGHTS.get(thought["effort"], 0)  # DSPy's client adds it to max_tokens
    dollars = price.cost(input_tokens, output_tokens) if price else None
    return Spent(calls=1, tokens=input_tokens + output_tokens, dollars=dollars or 0.0)


def check_unpriced(caps: BudgetConfig, model: str, remedy: str, *, is_priced: bool) -> None:
    """Raise a ConfigError for a cap on dollars where the price of the model is not known."""
    if caps.dollars is not None and not is_priced:
        raise ConfigError(
            f"[budget] dollars is {caps.dollars:g}, and the price of {model} is not known: {remedy}, "
            "or cap tokens or calls"
        )


@dataclass
class Reservation:
    """One request's share of the caps while its context lasts; without caps nothing is reserved."""

    account: Account
    spent: Callable[[], Spent]
    """What is spent so far."""
    bound: Callable[[], Spent]
    """The most that the request can cost."""
    charge: Callable[[Spent], None]
    """Adds to what is spent."""
    _taken: Spent | None = None

    @functools.cached_property
    def upper_bound(self) -> Spent:
        """The most that the request can cost."""
        return self.bound()

    def __enter__(self) -> Self:
        """Wait until the upper bound fits next to all in flight, or raise a BudgetError."""
        account = self.account
        if account.caps == BudgetConfig():
            return self
        with account.changed:
            while fault := self._passed_cap():
                if account.in_flight.calls == 0:
                    raise BudgetError(fault)
                account.changed.wait()
            account.in_flight += self.upper_bound
            self._taken = self.upper_bound
        return self

    def __exit__(self, *_: object) -> None:
        """End the reservation."""
        if self._taken is not None:
            with self.account.changed:
                self.account.in_flight -= self._taken
                self.account.changed.notify_all()
            self._taken = None

    def lost(self) -> None:
        """Count an attempt without a reply that may have been billed, and reserve the next one."""
        self.charge(self.upper_bound)
        self.__exit__()
        self.__enter__()

    def _passed_cap(self) -> str:
        """Say which cap the request could pass, next to all in flight; "" where it fits."""
        spent, bound = self.spent(), self.upper_bound
        taken = spent + self.account.in_flight + bound
        for name, cap in self.account.caps:
            if cap is not None and getattr(taken, name) > cap:
                return (
                    f"[budget] {name} = {cap:g} does not allow another call: "
                    f"{amount(name, spent)} spent so far, and the next could take "
                    f"{amount(name, bound)}, so it takes at least "
                    f"{amount(name, spent + bound)} to go on"
                )
        return ""


def spent_on(reply: Reply, price: Price | None) -> Spent:
    """What a reply cost; the upper bound where the provider did not count."""
    if reply.finish_reason in (NO_REPLY, UNANSWERED):
        return Spent()
    if reply.input_tokens is None or reply.output_tokens is None:
        return upper_bound(reply.request, price)
    return Spent(calls=1, tokens=reply.tokens, dollars=reply.cost or 0.0)


def amount(name: str, spent: Spent) -> str:
    """An amount of `calls`, `tokens` or `dollars`, as it is shown."""
    value = getattr(spent, name)
    return f"${value:.4f}" if name == "dollars" else f"{value:,}"
