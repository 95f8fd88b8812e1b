"""The door to a rerank model: one request for each text and its passages, and its scores recorded.

The modes are those of `door.py`.
"""

import functools
import logging
import math
from collections.abc import Sequence

from freshstack_dspy.errors import FatalModelError, ReplayMissError, ReplyError, TransientModelError
from freshstack_dspy.lm.embedding.access import Access
from freshstack_dspy.lm.embedding.answers import RefusedError, Scores
from freshstack_dspy.lm.embedding.asks import RerankAsk, passages_hash, text_hash
from freshstack_dspy.lm.embedding.figures import Figures, receive_figures
from freshstack_dspy.lm.embedding.live import Call
from freshstack_dspy.lm.embedding.model import HostedModel, RerankRequest
from freshstack_dspy.lm.embedding.numbers_door import NumbersDoor
from freshstack_dspy.lm.embedding.packing import ADDED
from freshstack_dspy.lm.provider.attempts import Exchange
from freshstack_dspy.lm.spending.ledger import StepLedger, step
from freshstack_dspy.lm.spending.prices import RerankPrice
from freshstack_dspy.lm.spending.spent import Spent

STEP = "reranking"
"""What the ledger enters scores under, whichever step of a recipe needs them."""
_UNIT_PASSAGES, _UNIT_TOKENS = 100, 500
"""A search unit has so many passages; a passage counts once for so many tokens, the text's too."""
_log = logging.getLogger(__name__)


class RerankDoor(NumbersDoor[RerankRequest, Scores]):
    """Scores of passages by one hosted model; shared by threads."""

    def __init__(
        self, model: HostedModel, access: Access, *, price: RerankPrice | None = None
    ) -> None:
        """Open the door.

        Args:
            model: Which model is asked, and how.
            access: What is recorded, who pays, and who listens.
            price: Of the model, or None where nobody knows it.

        Raises:
            FatalModelError: The model's endpoint cannot be used, or there is no store to record in.
            ConfigError: The budget has a cap on dollars, and the model has no price.
        """
        super().__init__(model, access, priced=price is not None)
        self._price = price

    def scores(self, query: str, passages: Sequence[str]) -> list[float]:
        """Score passages for a text; equal ones have equal scores.

        They are sent in the order of their hashes, each once, so that the request is the same
        whatever order they come in.

        Raises:
            ModelError: There are no scores.
        """
        if not passages:
            return []
        hashes = [text_hash(passage) for passage in passages]
        by_hash = dict(sorted(zip(hashes, passages, strict=True)))
        ask = RerankAsk(
            model=self._model.name,
            endpoint=self._endpoint,
            query=text_hash(query),
            passages=passages_hash(hashes),
            count=len(by_hash),
        )
        request = RerankRequest(query, tuple(by_hash.values()))
        with step(STEP):
            figures = self._figures(ask, request)
        found = dict(zip(by_hash, figures.array().tolist(), strict=True))
        return [found[each] for each in hashes]

    def _opened(self) -> Exchange[RerankRequest, Scores]:
        from freshstack_dspy.lm.embedding.through_litellm import LiteLLMRerank

        return LiteLLMRerank(self._model)

    def _figures(self, ask: RerankAsk, request: RerankRequest) -> Figures:
        while True:
            with self._flights.claim([ask.key]) as claim:
                if claim.mine:
                    return self._fetched(ask, request)
            for landing in claim.landings:
                landing.wait()

    def _fetched(self, ask: RerankAsk, request: RerankRequest) -> Figures:
        figures = self._recall.servable(ask.key)
        if figures is None:
            figures = self._asked(ask, request)
            self._recall.enter(figures, asked=True)
        else:
            self._recall.enter(figures, asked=False)
            self._ledger.enter(
                StepLedger(cached=1, cached_tokens=figures.tokens, cached_cost=figures.cost or 0.0)
            )
        return figures

    def _asked(self, ask: RerankAsk, request: RerankRequest) -> Figures:
        if self._live is None:
            raise ReplayMissError(self._recall.missing(ask, request.query, 1))
        call = Call(
            task="rerank",
            keys=[ask.key],
            request=request,
            worst=self._worst(request),
            figures=functools.partial(self._received, ask, request),
        )
        try:
            (figures,) = self._live.ask(call)
        except RefusedError as error:
            raise FatalModelError(
                f"{error}; {ask.count} passages were sent: if they are too many, set "
                f"{self._model.section} depth"
            ) from None
        except ReplyError as error:
            raise TransientModelError(str(error)) from None
        return figures

    def _received(self, ask: RerankAsk, request: RerankRequest, answer: Scores) -> list[Figures]:
        tokens = answer.tokens
        if tokens is None:
            tokens = _estimated_tokens(request)
        price = self._price
        by_unit = price is not None and price.is_by_unit
        counted = answer.units is not None if by_unit else answer.tokens is not None
        if not counted and not self._told:
            self._told = True
            _log.warning("%s does not count what it bills: it is estimated", self._model.name)
        units = answer.units or _units(request)
        return [
            receive_figures(
                ask,
                answer.scores,
                tokens=tokens,
                counted=counted,
                cost=price.cost(tokens, units) if price else None,
            )
        ]

    def _worst(self, request: RerankRequest) -> Spent:
        """The most that a request can cost: a token for each byte, and the text for each passage."""
        text = len(request.query.encode())
        tokens = sum(len(passage.encode()) + text + ADDED for passage in request.passages)
        dollars = self._price.cost(tokens, _units(request)) if self._price else 0.0
        return Spent(calls=1, tokens=tokens, dollars=dollars)


def _units(request: RerankRequest) -> int:
    """The most search units that a request can be."""
    text = len(request.query.encode())
    parts = sum(
        math.ceil((len(passage.encode()) + text + 1) / _UNIT_TOKENS) for passage in request.passages
    )
    return math.ceil(parts / _UNIT_PASSAGES)


def _estimated_tokens(request: RerankRequest) -> int:
    from freshstack_dspy.lm.cl100k import count_tokens

    text = count_tokens(request.query)
    return sum(text + count_tokens(passage) for passage in request.passages)
