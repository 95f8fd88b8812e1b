"""The steps of a build that ask a model: each for all its items, with progress and account."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, get_args

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.errors import BudgetError, DeferredError
from freshstack_dspy.lm.client import RecordedLM
from freshstack_dspy.lm.usage import StepLedger, step
from freshstack_dspy.lm.workers import map_in_order
from freshstack_dspy.recipes.freshstack import Nuggetized
from freshstack_dspy.recipes.judging.voting import JudgedBatch
from freshstack_dspy.recipes.progress import Progress
from freshstack_dspy.records import ExpansionKind, Failure

Item = TypeVar("Item")
Result = TypeVar("Result")


class Steps:
    """Runs the steps that ask a model, one after the other, and knows how far they are."""

    def __init__(
        self, names: Sequence[str], lm: RecordedLM, progress: Progress, again: str = "build again"
    ) -> None:
        """Prepare.

        Args:
            names: Of all steps, in their order.
            lm: Whom they ask.
            progress: Whom to tell how it goes.
            again: What to do once there is more budget.
        """
        self._lm = lm
        self._again = again
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
        self._totals[name] = (self._totals[name] or 0) + len(items)

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
                    ask, items, workers=self._lm.client.model.concurrency, done=done
                )
            except BudgetError as error:
                raise BudgetError(f"{error}. {self._how_far()}") from None
        self._progress.finish(name, self._account(name))
        return [result for result in results if result is not None]

    def _count_failure(self, result: Any) -> None:
        failure = result.failure if isinstance(result, JudgedBatch | Nuggetized) else result
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
            f"{self._again}, and only what is missing is asked"
            + ("; `freshstack plan` tells how much it is" if self._again == "build again" else "")
        )


def asking_steps(config: BuildConfig) -> list[str]:
    """The steps that ask a model, in their order."""
    expansions = [kind for kind in get_args(ExpansionKind) if kind in config.pool.techniques]
    scored = config.contamination.score and "closed_book_answer" in expansions
    rated = ["importance"] * config.nuggets.importance
    compared = ["single_support"] * bool(config.judge.compare)
    made = ["synthesis"] * config.queries.is_synthetic
    return [
        *made,
        "nuggets",
        *expansions,
        "support",
        *compared,
        *["contamination"] * scored,
        *rated,
    ]
