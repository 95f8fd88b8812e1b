"""The steps of a build that ask a model: each for all its items, with progress and account."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from freshstack_dspy.errors import BudgetError, DeferredError
from freshstack_dspy.lm.connect import DoorLM
from freshstack_dspy.lm.spending.ledger import StepLedger, step
from freshstack_dspy.lm.workers import map_in_order
from freshstack_dspy.recipes.freshstack import JudgedBatch
from freshstack_dspy.recipes.progress import Progress
from freshstack_dspy.records import Failure

Item = TypeVar("Item")
Result = TypeVar("Result")


class Steps:
    """Runs the steps that ask a model, one after the other, and knows how far they are."""

    def __init__(self, names: Sequence[str], lm: DoorLM, progress: Progress) -> None:
        """Prepare.

        Args:
            names: Of all steps, in their order.
            lm: Whom they ask.
            progress: Whom to tell how it goes.
        """
        self._lm = lm
        self._progress = progress
        self._totals: dict[str, int | None] = dict.fromkeys(names)
        self._done: dict[str, int] = dict.fromkeys(names, 0)
        self._deferred: Counter[str] = Counter()

    def each(
        self, name: str, function: Callable[[Item], Result], items: Sequence[Item]
    ) -> list[Result]:
        """Ask for every item of a step; a deferred one is left out.

        Raises:
            BudgetError: The budget is used up; says what is done and what is left.
        """
        self._progress.start(name, len(items))
        self._totals[name] = len(items)

        def ask(item: Item) -> Result | None:
            try:
                result = function(item)
            except DeferredError:
                self._deferred[name] += 1
                return None
            self._count_failure(result)
            return result

        def done() -> None:
            self._done[name] += 1
            self._progress.advance(name)

        with step(name):
            try:
                results = map_in_order(
                    ask, items, workers=self._lm.door.model.concurrency, done=done
                )
            except BudgetError as error:
                raise BudgetError(f"{error}. {self._how_far()}") from None
        self._progress.finish(name, self._account(name))
        return [result for result in results if result is not None]

    def _count_failure(self, result: Any) -> None:
        failure = result.failure if isinstance(result, JudgedBatch) else result
        if isinstance(failure, Failure):
            self._lm.ledger.failed()

    def _account(self, name: str) -> str:
        account = self._lm.ledger.steps().get(name, StepLedger())
        if deferred := self._deferred[name]:
            return f"{deferred} deferred, {account.cached} recorded"
        if account == StepLedger():
            return "nothing to ask"
        cost = f", ${account.cost:.4f}" if account.cost else ""
        failed = f", {account.failed} failed" if account.failed else ""
        return f"{account.calls} calls, {account.cached} recorded{failed}{cost}"

    def _how_far(self) -> str:
        begun = [
            f"{name} {self._done[name]} of {total}"
            for name, total in self._totals.items()
            if total is not None
        ]
        left = [name for name, total in self._totals.items() if total is None]
        not_begun = f"; not begun: {', '.join(left)}" if left else ""
        return (
            f"Done in this run: {', '.join(begun)}{not_begun}. Every reply is recorded: raise the cap and "
            "build again, and only what is missing is asked; `freshstack plan` tells how much it is"
        )
