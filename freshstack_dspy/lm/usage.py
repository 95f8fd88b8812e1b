"""The ledger: what each step of a build asked, found recorded, asked again and paid."""

import operator
import sys
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar

from pydantic import Field

from freshstack_dspy.records import Record

_SETTING = "freshstack_step"
_step: ContextVar[str | None] = ContextVar(_SETTING, default=None)
_answered: ContextVar["Ledger | None"] = ContextVar("freshstack_answered", default=None)


class StepLedger(Record):
    """The account of one step."""

    calls: int = Field(default=0, ge=0)
    """Requests sent to the model, re-asks included, retries of one request counted once."""
    cached: int = 0
    """Requests answered from recorded replies."""
    reasked: int = 0
    """Requests that sent an invalid reply back, or asked for what one left out."""
    damaged: int = 0
    """Recorded replies that were damaged, and are asked for again."""
    failed: int = 0
    """Questions that ended without an answer."""
    completed: int = Field(default=0, exclude_if=operator.not_)
    """Orders of a reranker that repeated or left out passages."""
    tokens: int = 0
    """Input and output tokens of the calls."""
    cost: float = 0.0
    """US dollars for the calls, where the price is known."""
    cached_tokens: int = 0
    cached_cost: float = 0.0
    """What the recorded replies cost when they were first asked for."""

    @property
    def line(self) -> str:
        """The account in one line."""
        cost = f", ${self.cost:.4f}" if self.cost else ""
        failed = f", {self.failed} failed" if self.failed else ""
        completed = f", {self.completed} completed" if self.completed else ""
        damaged = f", {self.damaged} damaged, asked again" if self.damaged else ""
        return f"{self.calls} calls, {self.cached} recorded{damaged}{completed}{failed}{cost}"

    @property
    def spent(self) -> str:
        """Calls and dollars, in a few letters."""
        cost = f", ${self.cost:,.2f}" if self.cost else ""
        return f"{self.calls:,} calls{cost}" if self.calls else ""


def grading_own_words(models: Mapping[str, Collection[str]]) -> str:
    """Say which models both wrote answers and judge them, by the models of each step; or nothing."""
    writers = {*models.get("answer", ()), *models.get("gold_answer", ())}
    steps = ("assignment", "citation", "contradiction", "comparison", "correctness")
    graders = {name for step in steps for name in models.get(step, ())}
    names = sorted(name for name in writers & graders if not name.startswith("extractive/"))
    if not names:
        return ""
    return (
        f"{' and '.join(names)} grades its own words: it wrote answers and judges them; name "
        "another model under [judge] or [generator]"
    )


class Ledger:
    """Accounts by step, written by many threads."""

    def __init__(self) -> None:
        self._sums: dict[str, dict[str, float]] = {}
        self._models: dict[str, set[str]] = {}
        self._lock = threading.Lock()

    def enter(self, **amounts: float) -> None:
        """Add amounts of any kind to the account of the step that asks."""
        with self._lock:
            sums = self._sums.setdefault(current_step(), {})
            for name, amount in amounts.items():
                sums[name] = sums.get(name, 0) + amount

    def of(self, name: str) -> StepLedger:
        """The account of one step."""
        with self._lock:
            return StepLedger.model_validate(self._sums.get(name, {}))

    def enter_model(self, name: str) -> None:
        """Note that a model answered in the step that asks, live or from a recorded reply.

        It is noted in the ledger of the session that asks too, whose model may be another.
        """
        session = _answered.get()
        if session is not None and session is not self:
            session.enter_model(name)
        with self._lock:
            self._models.setdefault(current_step(), set()).add(name)

    def models(self) -> dict[str, tuple[str, ...]]:
        """The models that answered so far, by step."""
        with self._lock:
            return {step: tuple(sorted(names)) for step, names in sorted(self._models.items())}

    def steps(self) -> dict[str, StepLedger]:
        """The accounts so far, by step."""
        with self._lock:
            ordered = sorted(self._sums.items())
            return {name: StepLedger.model_validate(sums) for name, sums in ordered}


def current_step() -> str:
    """Name of the step that asks."""
    name = _step.get()
    if name is None and "dspy" in sys.modules:
        import dspy

        name = dspy.settings.get(_SETTING)  # in one of its threads
    return name or "other"


@contextmanager
def step(name: str, ledger: Ledger | None = None) -> Iterator[None]:
    """Enter all that is asked inside under this step's name; `ledger` notes which models answer."""
    noted = _answered.set(ledger or _answered.get())
    token, inside = _step.set(name), nullcontext()
    if "dspy" in sys.modules:  # its threads see its settings, and no context variable of ours
        import dspy

        inside = dspy.context(**{_SETTING: name})
    try:
        with inside:
            yield
    finally:
        _step.reset(token)
        _answered.reset(noted)
