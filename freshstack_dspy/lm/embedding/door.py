"""The door to an embedding model: every text is asked for once, and its vector recorded.

Modes: `live` serves a recorded vector or asks; `replay` serves or raises, and opens no socket;
`refresh` asks again, once for each text and run; `defer` does as `live`, for which requests are
deferred depends on the chunks that the vectors find.
"""

import functools
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from freshstack_dspy.errors import FatalModelError, ReplayMissError, ReplyError, TransientModelError
from freshstack_dspy.lm.embedding.access import Access
from freshstack_dspy.lm.embedding.answers import RefusedError, Vectors
from freshstack_dspy.lm.embedding.asks import EmbeddingAsk, text_hash
from freshstack_dspy.lm.embedding.figures import Figures, receive_figures
from freshstack_dspy.lm.embedding.live import Call, LiveNumbers
from freshstack_dspy.lm.embedding.model import EmbeddingRequest, HostedModel
from freshstack_dspy.lm.embedding.numbers_door import NumbersDoor
from freshstack_dspy.lm.embedding.packing import Wanted, packed, shares, worst_of
from freshstack_dspy.lm.embedding.rows import Rows
from freshstack_dspy.lm.provider.attempts import Exchange
from freshstack_dspy.lm.spending.ledger import StepLedger, step
from freshstack_dspy.lm.spending.prices import Price
from freshstack_dspy.lm.workers import map_in_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

STEP = "embeddings"
"""What the ledger enters vectors under, whichever step of a recipe needs them."""
_SHOWN = 60
_SERVED_AT_ONCE = 256
_log = logging.getLogger(__name__)


class EmbeddingDoor(NumbersDoor[EmbeddingRequest, Vectors]):
    """Vectors of texts by one hosted model; shared by threads."""

    def __init__(
        self,
        model: HostedModel,
        access: Access,
        *,
        dimensions: int | None = None,
        batch: int = 64,
        price: Price | None = None,
    ) -> None:
        """Open the door.

        Args:
            model: Which model is asked, and how.
            access: What is recorded, who pays, and who listens.
            dimensions: Of the vectors, where the model is to shorten them.
            batch: Most texts in one request.
            price: Of a token of input, or None where nobody knows it.

        Raises:
            FatalModelError: The model's endpoint cannot be used, or there is no store to record in.
            ConfigError: The budget has a cap on dollars, and the model has no price.
        """
        super().__init__(model, access, priced=price is not None)
        self._dimensions = dimensions
        self._batch = batch
        self._price = price
        self._length: int | None = None

    def vectors(
        self,
        texts: Sequence[str],
        *,
        input_type: str | None = None,
        progress: Callable[[float], None] = lambda _: None,
    ) -> "NDArray[Any]":
        """Embed texts, exactly as they are given.

        Args:
            texts: With their prefixes, and cut; equal ones are asked for once.
            input_type: What they are to the model, where it must be told.
            progress: Told the fraction that is done, by one thread at a time.

        Returns:
            Shape (texts, dimensions), float32, finite, no row all zero.

        Raises:
            ModelError: Some text has no vector; those that came are recorded.
        """
        asks = [self.ask_of(text, input_type) for text in texts]
        wanted = {ask.key: Wanted(ask, text) for ask, text in zip(asks, texts, strict=True)}
        rows = Rows(wanted, progress)
        left = list(wanted)
        with step(STEP):
            while left:
                with self._flights.claim(left) as claim:
                    self._fetch([wanted[key] for key in claim.mine], rows)
                for landing in claim.landings:
                    landing.wait()
                left = claim.theirs  # recorded by now, or asked again if the others failed
        return rows.of([ask.key for ask in asks])

    def ask_of(self, text: str, input_type: str | None = None) -> EmbeddingAsk:
        """What is asked of a text; its key is that of the vector."""
        return EmbeddingAsk(
            model=self._model.name,
            endpoint=self._endpoint,
            dimensions=self._dimensions,
            input_type=input_type,
            text=text_hash(text),
        )

    def _opened(self) -> Exchange[EmbeddingRequest, Vectors]:
        from freshstack_dspy.lm.embedding.through_litellm import LiteLLMEmbedding

        return LiteLLMEmbedding(self._model, self._dimensions)

    def _fetch(self, wanted: Sequence[Wanted], rows: Rows) -> None:
        """Serve what is recorded, and ask for the rest."""
        missing: list[Wanted] = []
        for start in range(0, len(wanted), _SERVED_AT_ONCE):
            served = []
            for one in wanted[start : start + _SERVED_AT_ONCE]:
                figures = self._recall.servable(one.ask.key)
                if figures is None:
                    missing.append(one)
                else:
                    served.append(figures)
            self._give_out(served, rows, asked=False)
            self._enter_served(served)
        if missing:
            self._ask(missing, rows)

    def _ask(self, missing: Sequence[Wanted], rows: Rows) -> None:
        if self._live is None:
            first = missing[0]
            raise ReplayMissError(self._recall.missing(first.ask, first.text, len(missing)))
        map_in_order(
            functools.partial(self._request, self._live, rows),
            list(packed(missing, self._batch)),
            workers=self._model.concurrency,
        )

    def _request(
        self,
        live: LiveNumbers[EmbeddingRequest, Vectors],
        rows: Rows,
        pack: Sequence[Wanted],
    ) -> None:
        """Ask for the vectors of texts together; if they are refused, for each half."""
        call = Call(
            task="embedding",
            keys=[one.ask.key for one in pack],
            request=EmbeddingRequest(tuple(one.text for one in pack), pack[0].ask.input_type),
            worst=worst_of(pack, self._price),
            figures=functools.partial(self._received, pack),
        )
        try:
            figures = live.ask(call)
        except RefusedError as error:
            # One text that is too long, or all of them together: who it is, only asking tells.
            if len(pack) == 1:
                raise FatalModelError(_refused(error, pack[0].text, self._model)) from None
            middle = len(pack) // 2
            self._request(live, rows, pack[:middle])
            self._request(live, rows, pack[middle:])
        except ReplyError as error:
            raise TransientModelError(str(error)) from None
        else:
            self._give_out(figures, rows, asked=True)

    def _received(self, pack: Sequence[Wanted], answer: Vectors) -> list[Figures]:
        self._check_length(answer.matrix.shape[1])
        tokens = answer.tokens
        if tokens is None:
            tokens = self._estimated(pack)
        records = []
        parts = shares(tokens, (one.size for one in pack))
        for one, vector, part in zip(pack, answer.matrix, parts, strict=True):
            records.append(
                receive_figures(
                    one.ask,
                    vector,
                    tokens=part,
                    counted=answer.tokens is not None,
                    cost=part * self._price.input if self._price else None,
                )
            )
        return records

    def _estimated(self, pack: Sequence[Wanted]) -> int:
        from freshstack_dspy.lm.cl100k import count_tokens

        if not self._told:
            self._told = True
            _log.warning("%s does not count its tokens: they are estimated", self._model.name)
        return sum(count_tokens(one.text) for one in pack)

    def _give_out(self, figures: Sequence[Figures], rows: Rows, *, asked: bool) -> None:
        if not figures:
            return
        for one in figures:
            self._check_length(len(one.array()))
            self._recall.enter(one, asked=asked)
        rows.fill(figures)

    def _enter_served(self, figures: Sequence[Figures]) -> None:
        if figures:
            self._ledger.enter(
                StepLedger(
                    cached=len(figures),
                    cached_tokens=sum(one.tokens for one in figures),
                    cached_cost=sum(one.cost or 0.0 for one in figures),
                )
            )

    def _check_length(self, length: int) -> None:
        """Refuse a vector of another length than was asked for or came before.

        Raises:
            FatalModelError: It has another.
        """
        expected = self._dimensions or self._length
        if expected not in (None, length):
            whose = "dimensions asks for" if self._dimensions else "came before"
            raise FatalModelError(
                f"{self._model.name} gives vectors of {length} numbers, and {whose} {expected}: "
                f"check {self._model.section} model and dimensions; if the model behind the name "
                "has changed, ask for all vectors again with --mode refresh"
            )
        self._length = length


def _refused(error: ReplyError, text: str, model: HostedModel) -> str:
    shown = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
    return (
        f"{error}; the text, of {len(text):,} characters, begins {shown!r}: if it is too long, set "
        f"{model.section} max_tokens, and longer ones are cut"
    )
