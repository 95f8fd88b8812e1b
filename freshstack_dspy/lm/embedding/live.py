"""Requests for numbers that are really sent: within the budget, with retries, recorded at once."""

import functools
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Generic, NamedTuple, TypeVar

from freshstack_dspy.errors import FatalModelError, ModelError
from freshstack_dspy.lm.embedding.access import Access
from freshstack_dspy.lm.embedding.figures import Figures
from freshstack_dspy.lm.embedding.model import HostedModel
from freshstack_dspy.lm.events import CallEvent
from freshstack_dspy.lm.provider.attempts import Attempts, Exchange
from freshstack_dspy.lm.replies.store import ReplyStore
from freshstack_dspy.lm.request import sha256_of
from freshstack_dspy.lm.spending.budget import Caps, refuse_unpriced
from freshstack_dspy.lm.spending.ledger import StepLedger, current_step
from freshstack_dspy.lm.spending.spent import Spent

Asked = TypeVar("Asked")
Said = TypeVar("Said")
_NOTHING = Spent()
_MOST_HALVINGS = 12
"""Refusals until one bad text among 2,048 is found."""


class Call(NamedTuple, Generic[Asked, Said]):
    """One request, and what is to be made of its answer."""

    task: str
    """`embedding` or `rerank`."""
    keys: Sequence[str]
    request: Asked
    worst: Spent
    """The most that it can cost."""
    figures: Callable[[Said], list[Figures]]
    """Makes the records of an answer; a `FatalModelError` refuses it."""


class LiveNumbers(Generic[Asked, Said]):
    """Asks a provider for numbers and records them; shared by threads."""

    def __init__(
        self,
        model: HostedModel,
        opened: Callable[[], Exchange[Asked, Said]],
        *,
        store: ReplyStore,
        access: Access,
        priced: bool,
    ) -> None:
        """Prepare.

        Args:
            model: Which model is asked, and how.
            opened: Makes what answers, when it is first asked.
            store: Where figures are kept, and what was spent.
            access: Who pays, and who listens.
            priced: Whether the price of the model is known.

        Raises:
            ConfigError: There is a cap on dollars, and the model has no price.
        """
        account = access.account
        remedy = (
            f"set price of {model.section}, in dollars per million tokens, 0 for a server of one's "
            "own"
        )
        refuse_unpriced(account.caps, model.name, remedy, known=priced)
        self._model = model
        self._store = store
        self._account = account
        self._ledger = access.ledger
        self._on_call = access.on_call
        self._attempts: Attempts[Asked, Said] = Attempts(
            model,
            opened=opened,
            advice=f"check {model.section}",
            hopeless_after=_MOST_HALVINGS,
        )
        self._caps = Caps(
            account.caps,
            spent=lambda: store.spent(account.name) + account.reserved,
            in_flight=account.in_flight,
        )

    def ask(self, call: Call[Asked, Said]) -> list[Figures]:
        """Ask and record.

        Raises:
            BudgetError: It could go over a cap.
            ModelError: No answer came.
        """
        begun = time.monotonic()
        try:
            figures, attempts = self._asked(call)
        except ModelError as error:
            self._tell(call, begun, error=error)
            raise
        paid = _sum_of(figures)
        self._ledger.enter(StepLedger(calls=1, tokens=paid.tokens, cost=paid.dollars))
        self._tell(call, begun, attempts=attempts, paid=paid)
        return figures

    def close(self) -> None:
        """Close the provider's connections."""
        self._attempts.close()

    def _asked(self, call: Call[Asked, Said]) -> "_Recorded":
        charge = functools.partial(self._store.charge, self._account.name)
        with (
            self._attempts.asking(),
            self._caps.reserved(lambda: call.worst, charge) as reservation,
        ):
            answer = self._attempts.complete(call.request, reservation.lost)
            try:
                figures = call.figures(answer.response)
            except FatalModelError:
                charge(call.worst)  # it was answered, if not as it should be
                raise
            # Where the provider does not count, the worst is taken to be spent.
            spent = _sum_of(figures) if all(one.counted for one in figures) else call.worst
            self._store.put_figures(figures, account=self._account.name, spent=spent)
        return _Recorded(figures, answer.attempts)

    def _tell(
        self,
        call: Call[Asked, Said],
        begun: float,
        *,
        attempts: int = 0,
        paid: Spent = _NOTHING,
        error: ModelError | None = None,
    ) -> None:
        """Tell whoever listens what became of a request."""
        if self._on_call is None:
            return
        self._on_call(
            CallEvent(
                at=datetime.now(UTC).isoformat(timespec="milliseconds"),
                step=current_step(),
                key=sha256_of(list(call.keys)),
                task=call.task,
                model=self._model.name,
                cached=False,
                seconds=round(time.monotonic() - begun, 6),
                attempts=attempts,
                input_tokens=paid.tokens,
                output_tokens=0,
                cost=paid.dollars,
                status="ok" if error is None else "error",
                error=None if error is None else str(error),
            )
        )


class _Recorded(NamedTuple):
    figures: list[Figures]
    attempts: int


def _sum_of(figures: Sequence[Figures]) -> Spent:
    return Spent(
        calls=1,
        tokens=sum(one.tokens for one in figures),
        dollars=sum(one.cost or 0.0 for one in figures),
    )
