"""Requests that are really sent: within the budget, with retries, and recorded once answered."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from freshstack_dspy.config import BudgetConfig, ModelConfig
from freshstack_dspy.errors import ReplyError
from freshstack_dspy.lm.provider.attempts import Attempts
from freshstack_dspy.lm.provider.choice import Provider, provider_for
from freshstack_dspy.lm.replies.store import ReplyStore
from freshstack_dspy.lm.reply import NO_REPLY, Reply, receive
from freshstack_dspy.lm.request import Ask
from freshstack_dspy.lm.spending.budget import Account, Budget
from freshstack_dspy.lm.spending.prices import Price, price_of

if TYPE_CHECKING:
    from dspy.lm15 import Request, Response, Usage


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

    def ask(self, ask: Ask, request: "Request") -> Answer:
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

    def _answer(self, ask: Ask, request: "Request", lost: Callable[[], None]) -> Answer:
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
