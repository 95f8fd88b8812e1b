"""A chat model as the reranker of an index: a program of the recipe, asked in a session."""

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from freshstack_dspy.config import TRANSPORT
from freshstack_dspy.corpus.shown_chunks import as_chunk, whole
from freshstack_dspy.errors import ConfigError, DeferredError
from freshstack_dspy.index.reranking import scores_by_place
from freshstack_dspy.lm.request import endpoint_identity, sha256_of
from freshstack_dspy.lm.tokens import cut
from freshstack_dspy.lm.vectors import RERANK_STEP
from freshstack_dspy.pages.page import counted
from freshstack_dspy.programs.reranking import SetwiseReranker, completed_order
from freshstack_dspy.programs.support_judge import passage_inputs
from freshstack_dspy.recipes.judge import Window
from freshstack_dspy.recipes.recipe import identity_of
from freshstack_dspy.recipes.session import Session
from freshstack_dspy.records import as_query

Item = TypeVar("Item")
Result = TypeVar("Result")
_LEAST = 32
"""Tokens of a passage below which it tells nothing."""
_log = logging.getLogger(__name__)


class ProgramReranker:
    """The `reranker` of a session's recipe as one of an index; see `index.reranking.Reranker`.

    Scores count passages: n for the best of n, and 1 for the last.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._cut: list[int] = []

    @functools.cached_property
    def _program(self) -> Any:
        return self._session.recipe.reranker

    @functools.cached_property
    def identity(self) -> str:
        """The program with its prompt and settings, and the model."""
        model = self._session.config.model_of("reranker")
        settings = model.model_dump(mode="json", exclude={*TRANSPORT, "api_base"})
        endpoint = endpoint_identity(model.name, model.api_base)
        return sha256_of([identity_of(self._program), settings, endpoint])

    @property
    def at_once(self) -> int:
        """As many as the model may be asked at once."""
        return self._session.lm_of("reranker").client.model.concurrency

    def each(
        self, function: Callable[[Item], Result], searches: Sequence[Item]
    ) -> Sequence[Result]:
        """Rerank for all searches, as a step of the session, and say what did not go as it should.

        Raises:
            DeferredError: In mode `defer`, the next request of each search was written down.
        """
        session, self._cut = self._session, []
        before = session.lm.ledger.of(RERANK_STEP)
        done = session.each(RERANK_STEP, function, searches)
        now = session.lm.ledger.of(RERANK_STEP)
        if completed := now.completed - before.completed:
            _log.warning(
                f"reranking: {counted(completed, 'reply', 'replies')} repeated or left out passages, "
                "which follow in the order in which they were found"
            )
        if failed := now.failed - before.failed:
            _log.warning(
                f"reranking: {counted(failed, 'call')} got no valid reply; its passages stay in the "
                "order in which they were found"
            )
        if shortened := sum(self._cut):
            _log.warning(
                f"reranking: {counted(shortened, 'passage')} had to be cut for the model's context; "
                "[reranker] window bounds how many are shown together"
            )
        try:
            session.stop_if_deferred()
        except DeferredError as error:
            so_far = (
                f"{error}, until all is answered: {now.cached:,} replies of reranking are there, and "
                f"{len(done):,} of {len(searches):,} searches are reranked; what a search asks next "
                "depends on the reply before"
            )
            error.args = (so_far,)
            raise
        return done

    def scores(self, text: str, passages: Sequence[str]) -> list[float]:
        """Score passages by the place that the program gives them."""
        session = self._session
        result = self._program(query=as_query(text), passages=self.fitted(text, passages))
        order = [int(place) for place in result.order]
        completed, failed = result.get("completed"), result.get("failed")
        if completed is None:  # of a program of one's own
            completed = sorted(order) != list(range(len(passages)))
        if session.dry and isinstance(self._program, SetwiseReranker):
            self._plan(self._program.most_calls(len(passages)) - result.calls)
        if completed or failed:
            session.lm.ledger.enter(completed=int(completed), failed=int(failed or 0))
        return scores_by_place(completed_order(order, len(passages)))

    def _plan(self, more: int) -> None:
        """Count calls in a plan that depend on the replies, as many as there can be."""
        dry_run: Any = self._session.lm.client.provider
        if sent := dry_run.sent.get(RERANK_STEP):
            sent += [sent[-1]] * more

    def fitted(self, text: str, passages: Sequence[str]) -> list[str]:
        """Passages that fit together into one call, the long ones cut."""
        together = min(getattr(self._program, "window", len(passages)), len(passages))
        room = self._window.room_next_to(passage_inputs(as_query(text), []))
        sizes = [self._size(passage) for passage in passages]
        if room is None or sum(sorted(sizes)[-together:]) <= room:
            return list(passages)
        most = room // together
        if most < _LEAST:
            raise ConfigError(
                f"the model's context has room for {room} tokens of passages, too few for "
                f"{together} at once: lower [reranker] window, or name a model with a larger context"
            )
        self._cut.append(sum(size > most for size in sizes))
        return [self._shortened(passage, most) for passage in passages]

    @functools.cached_property
    def _window(self) -> Window:
        return Window(self._session.config.model_of("reranker"), self._program)

    def _size(self, passage: str) -> int:
        return self._window.size(whole(as_chunk("", passage)))

    def _shortened(self, passage: str, most: int) -> str:
        limit = most
        while (size := self._size(passage)) > most:  # it is shown as JSON, which takes some more
            passage = cut(passage, limit)
            limit = min(limit - 1, limit * most // size)
        return passage
