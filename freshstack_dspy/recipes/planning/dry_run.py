"""A dry run: what a live build would ask for, found by its own programs; nothing is asked or kept."""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from freshstack_dspy.config import ModelConfig
from freshstack_dspy.errors import DeferredError
from freshstack_dspy.lm.client import connect, in_bulk
from freshstack_dspy.lm.reply import Reply
from freshstack_dspy.lm.request import ChatRequest
from freshstack_dspy.lm.store import Recorded, ReplyStore, recorded_reply
from freshstack_dspy.lm.usage import StepLedger, step
from freshstack_dspy.recipes.session import Progress
from freshstack_dspy.records import Status, Step

Item = TypeVar("Item")
Result = TypeVar("Result")


class DryStep(NamedTuple, Generic[Result]):
    """What one step would ask for."""

    results: list[Result | None]
    """Of each item; None where a reply is missing."""
    recorded: int
    """Requests that recorded replies answer."""
    missing: list[ChatRequest]
    """Requests that would be sent; what their replies would lead to is not known."""


class DryRun:
    """A model that answers from recorded replies, and notes every other request."""

    def __init__(self, model: ModelConfig, store: ReplyStore | None, recorded: Recorded) -> None:
        """Prepare.

        Args:
            model: Which would be asked.
            store: None where there is none yet.
            recorded: Replies of bundles, read beside the store.

        Raises:
            FatalModelError: The model's name or endpoint cannot be used.
        """
        self._replies = _Recorded(store, recorded)
        self._lm = connect(model, mode="defer", store=self._replies)

    def each(
        self,
        name: Step,
        function: Callable[[Item], Result],
        items: Sequence[Item],
        progress: Progress,
    ) -> DryStep[Result]:
        """Go through a step as a build does, one item after another."""
        progress.start(name, len(items))
        results: list[Result | None] = []
        with in_bulk(self._lm), step(name):
            for item in items:
                try:
                    results.append(function(item))
                except DeferredError:
                    results.append(None)
                progress.advance(name)
        recorded = self._lm.ledger.steps().get(name, StepLedger()).cached
        missing = self._replies.taken()
        progress.finish(name, f"{len(missing)} to ask, {recorded} recorded")
        return DryStep(results, recorded, missing)


class _Recorded(ReplyStore):
    """The replies that a live build would serve; what it would send is kept in memory."""

    def __init__(self, store: ReplyStore | None, recorded: Recorded) -> None:
        self._store = store
        self._bundles = recorded
        self._missing: dict[str, ChatRequest] = {}

    def entry(self, key: str) -> Reply | None:
        """The recorded reply, if it is one that is not asked for again."""
        reply = recorded_reply(key, self._store, self._bundles)
        return None if reply is not None and reply.is_dead_end else reply

    def note(self, key: str, status: Status, reasked_as: str | None = None) -> None:
        """Keep what is recorded as it is."""

    def defer(self, ask: ChatRequest) -> None:
        """Note a request that would be sent."""
        self._missing[ask.key] = ask

    def taken(self) -> list[ChatRequest]:
        """The requests noted since the last time, in order."""
        missing, self._missing = list(self._missing.values()), {}
        return missing
