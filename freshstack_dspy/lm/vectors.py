"""Vectors and scores by hosted models, through LiteLLM, recorded as chat is (`recorder.py`)."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from freshstack_dspy.errors import FatalModelError, ReplyError, TransientModelError, argument
from freshstack_dspy.lm.budget import Reservation, Spent, check_unpriced
from freshstack_dspy.lm.engine import (
    LITELLM_IN_FLIGHT,
    HostedModel,
    errors_explained,
    imported_litellm,
    litellm_address,
)
from freshstack_dspy.lm.prices import Price
from freshstack_dspy.lm.recorder import Access, Recorder, Sent
from freshstack_dspy.lm.reply import Numbers, encodable, receive_numbers
from freshstack_dspy.lm.request import (
    EmbeddingRequest,
    NumbersRequest,
    RerankRequest,
    sha256_of,
    text_hash,
)
from freshstack_dspy.lm.retry import Retries
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.lm.usage import step
from freshstack_dspy.lm.workers import map_in_order, packed

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Access", "EmbeddingClient", "HostedModel", "RerankClient"]

STEP = "embeddings"
RERANK_STEP = "reranking"
"""The ledger enters them under this step, whichever step of a recipe needs them."""
MOST_BYTES = 300_000
"""The most bytes in the texts of one request. OpenAI takes 300,000 tokens, and no token is less than a byte."""
_ADDED = 8
"""Tokens that a model may add at the beginning and end of a text."""
_UNIT_PASSAGES, _UNIT_TOKENS = 100, 500
"""Passages in a search unit, and the tokens after which a passage counts once more."""
_SHOWN = 60
_OPENAI = ("openai/", "azure/")
_BY_OPENAI_SDK = ("openai", "together_ai", "nvidia_nim", "mistral", "fireworks_ai", "nebius")
"""Providers that LiteLLM asks for vectors with the OpenAI SDK, which repeats requests by itself."""


_COHERE = ("search_query", "search_document")
_INPUT_TYPES = {
    "cohere": _COHERE,
    "cohere_chat": _COHERE,
    "voyage": ("query", "document"),
    "nvidia_nim": ("query", "passage"),
}


def input_types_of(model: str) -> tuple[str, str] | tuple[None, None]:
    """The provider's names for a query and for a passage, if it has any."""
    provider, _, name = model.partition("/")
    if provider == "bedrock" and "cohere." in name:
        return _COHERE
    return _INPUT_TYPES.get(provider, (None, None))


class Wanted(NamedTuple):
    """A text whose vector is asked for, or a query that passages are scored for."""

    request: NumbersRequest
    text: str
    """Exactly as it is sent."""
    passages: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes that the model reads; a reranker reads the query once for each passage."""
        times = max(1, len(self.passages))
        return times * len(self.text.encode()) + sum(len(each.encode()) for each in self.passages)


class NumbersAnswer(NamedTuple):
    """A model's answer to one request."""

    rows: "NDArray[Any]"
    """Vectors, shape (texts, dimensions), float32; or scores, shape (1, passages), float64."""
    tokens: int | None
    """As the provider counted them, if it did."""
    units: int | None = None
    """Search units, as some providers of rerankers bill; see `Price`."""


class NumbersClient(Recorder[Wanted, Numbers]):
    """The common base of embedders and rerankers; the first request imports LiteLLM."""

    _remedy: str
    """Advice for when the model refuses texts."""

    def __init__(
        self, model: HostedModel, access: Access, *, price: Price | None = None, **options: Any
    ) -> None:
        """Open the client; with a cap on dollars, a model without a price is a `ConfigError`."""
        self._model = model
        self._options = options
        self.price = price
        asks = access.mode != "replay"
        if asks:
            remedy = (
                f"set price of {model.section}, in dollars per million tokens, 0 for a server of "
                "one's own"
            )
            check_unpriced(access.account.caps, model.name, remedy, is_priced=price is not None)
        super().__init__(model, access, Retries(model, self._opened), asks=asks)

    def _opened(self) -> SimpleNamespace:
        """What `Retries` asks: LiteLLM, which makes one attempt; its own clients are the process's."""
        self._litellm = imported_litellm(self._model)
        self._options |= {
            "model": self._name,
            "max_retries": 0,
            "num_retries": 0,
            **litellm_address(self._model),
        }
        return SimpleNamespace(complete=self._attempt, most_in_flight=LITELLM_IN_FLIGHT)

    def _attempt(self, items: Sequence[Wanted]) -> NumbersAnswer:
        """Ask once; errors are those of `NetworkProvider.complete`, but that a refusal is fatal."""
        from freshstack_dspy.lm.transport import answer_within

        try:
            with errors_explained(self._model):
                return answer_within(self._model.timeout, lambda: self._asked(items))
        except ReplyError as error:
            longest = max((text for each in items for text in (each.text, *each.passages)), key=len)
            shown = _shown(longest)
            raise FatalModelError(
                f"{error}; the longest text, of {len(longest):,} characters, begins {shown}: "
                f"{self._remedy}"
            ) from None

    @abstractmethod
    def _asked(self, items: Sequence[Wanted]) -> NumbersAnswer:
        """Send one request."""

    def _miss(self, items: Sequence[Wanted]) -> str:
        return f"{len(items):,} missing, such as that of {_shown(items[0].text)}: {super()._miss(items)}"

    def _upper_bound(self, items: Sequence[Wanted]) -> Spent:
        """A token for each byte, and those that the model adds."""
        tokens = sum(each.size + _ADDED * max(1, len(each.passages)) for each in items)
        return Spent(calls=1, tokens=tokens, dollars=self._cost(items, tokens, None) or 0.0)

    def _send(self, items: Sequence[Wanted], reservation: Reservation) -> Sent[Numbers]:
        try:
            answer, attempts = self.retries.complete(items, reservation.lost)
        except ReplyError as error:  # without numbers no build goes on
            raise TransientModelError(str(error)) from None
        by_unit = self.price is not None and self.price.unit > 0
        counted = (answer.units if by_unit else answer.tokens) is not None
        tokens = answer.tokens
        if tokens is None:
            read = (f"{each.text}\n{text}" for each in items for text in each.passages or [""])
            tokens = sum(map(count_tokens, read))
        cost = self._cost(items, tokens, answer.units)
        sizes = [each.size for each in items]
        ends = [tokens * so_far // (sum(sizes) or 1) for so_far in accumulate(sizes, initial=0)]
        ends[-1] = tokens  # whole numbers, which add up
        entries = [
            receive_numbers(
                each.request,
                row,
                tokens=end - start,
                counted=counted,
                cost=None if cost is None else cost * (end - start) / max(1, tokens),
            )
            for each, row, (start, end) in zip(items, answer.rows, pairwise(ends), strict=True)
        ]
        spent = Spent(calls=1, tokens=tokens, dollars=cost or 0.0)
        return Sent(entries, spent if counted else reservation.upper_bound, attempts)

    def _cost(self, items: Sequence[Wanted], tokens: int, units: int | None) -> float | None:
        """US dollars for one request; search units that were not counted are the most it can be."""
        if self.price is None:
            return None
        if units is None:
            parts = sum(each.size // _UNIT_TOKENS + len(each.passages) for each in items)
            units = 1 + parts // _UNIT_PASSAGES
        return tokens * self.price.input + units * self.price.unit


class EmbeddingClient(NumbersClient):
    """Vectors of texts by one hosted model; shared by threads."""

    _remedy = "if it is too long, set [[embedder]] max_tokens; if they are too many, batch"

    def __init__(
        self,
        model: HostedModel,
        access: Access,
        *,
        dimensions: int | None = None,
        batch: int = 64,
        price: Price | None = None,
    ) -> None:
        """Open the client; with a cap on dollars, a model without a price is a `ConfigError`."""
        self._dimensions = dimensions
        self._batch = batch
        shortened: dict[str, Any] = {} if dimensions is None else {"dimensions": dimensions}
        if shortened and model.name.startswith(_OPENAI):
            # LiteLLM lets only the models of OpenAI that it knows shorten their vectors.
            shortened["allowed_openai_params"] = ["dimensions"]
        super().__init__(model, access, price=price, **shortened)

    def vectors(
        self,
        texts: Sequence[str],
        *,
        input_type: str | None = None,
        progress: Callable[[float], None] = lambda _: None,
    ) -> "NDArray[Any]":
        """Embed texts exactly as they are given: shape (texts, dimensions), float32, finite.

        Equal texts are asked for once, and no row is all zero. `progress` is called with the
        fraction that is done, by many threads. Vectors that came before an error are recorded.
        """
        import numpy as np

        requests = [self.request_of(text, input_type) for text in texts]
        wanted = {
            request.key: Wanted(request, text)
            for request, text in zip(requests, texts, strict=True)
        }
        rows: dict[str, NDArray[Any]] = {}

        def ask(pack: Sequence[Wanted]) -> None:
            rows.update((numbers.key, numbers.array()) for numbers in self.answer(pack))
            progress(len(rows) / len(wanted))

        with step(STEP):
            for key in wanted:
                if (recorded := self.reusable(key)) is not None:
                    self.reuse([recorded])
                    rows[key] = recorded.array()
            progress(len(rows) / len(wanted))
            missing = [each for key, each in wanted.items() if key not in rows]
            if missing and self.mode == "replay":
                self.answer(missing)
            map_in_order(ask, self.requests(missing), workers=self._model.concurrency)
        if len(lengths := sorted({len(row) for row in rows.values()})) > 1:
            raise FatalModelError(
                f"{self._name} gave vectors of {' and '.join(map(str, lengths))} numbers: if "
                "the model behind the name has changed, ask for all again with "
                f"{argument('mode', 'rerecord')}"
            )
        return np.stack([rows[request.key] for request in requests]).astype(np.float32, copy=False)

    def requests(self, wanted: Iterable[Wanted]) -> list[list[Wanted]]:
        """Cut texts into requests, in their order; a text that is too long goes alone."""
        return list(packed(wanted, lambda text: text.size, most_size=MOST_BYTES, most=self._batch))

    def request_of(self, text: str, input_type: str | None = None) -> EmbeddingRequest:
        """The request for a text's vector, as it is recorded."""
        return EmbeddingRequest(
            model=self._name,
            endpoint=self.endpoint,
            dimensions=self._dimensions,
            input_type=input_type,
            text=text_hash(text),
        )

    def _opened(self) -> SimpleNamespace:
        opened = super()._opened()
        if self._name.partition("/")[0] in _BY_OPENAI_SDK:
            with errors_explained(self._model):
                self._options["client"] = client = self._one_attempt()
            opened.close = client.close
        return opened

    def _one_attempt(self) -> Any:
        """A client of the OpenAI SDK that never repeats a request, also where LiteLLM would."""
        import openai

        class OneAttempt(openai.OpenAI):
            max_retries: Any = property(lambda _: 0, lambda _, __: None)

        named = {name: self._options.get(name) for name in ("api_base", "api_key")}
        _, _, key, base = self._litellm.get_llm_provider(self._name, **named)
        return OneAttempt(api_key=key, base_url=base, timeout=self._model.timeout)

    def _asked(self, items: Sequence[Wanted]) -> NumbersAnswer:
        input_type = getattr(items[0].request, "input_type", None)
        typed = {"input_type": input_type} if input_type else {}
        texts = [each.text for each in items]
        answer = self._litellm.embedding(input=texts, **self._options, **typed)
        rows = _numbers(_field(answer, "data"), "embedding", len(items), "<f4")
        if rows.ndim != 2 or not rows.any(axis=1).all():
            raise ValueError("it sent no vectors, or one that is all zero")
        length = rows.shape[1]
        if self._dimensions not in (None, length):
            raise ValueError(
                f"it sent vectors of {length} numbers, and dimensions asks for {self._dimensions}"
            )
        usage = _field(answer, "usage")
        tokens = _count(_field(usage, "prompt_tokens"), _field(usage, "total_tokens"))
        return NumbersAnswer(rows, tokens)


class RerankClient(NumbersClient):
    """Scores of passages by one hosted model; shared by threads."""

    _remedy = "if they are too long or too many, set [reranker] depth"

    def scores(self, text: str, passages: Sequence[str]) -> list[float]:
        """Score passages for a text; equal ones have equal scores.

        They are sent in the order of their hashes, each once, so that the request is the same
        in any order of the texts.
        """
        text, passages = encodable(text), [encodable(passage) for passage in passages]
        hashes = [text_hash(passage) for passage in passages]
        by_hash = dict(sorted(zip(hashes, passages, strict=True)))
        request = RerankRequest(
            model=self._name,
            endpoint=self.endpoint,
            query=text_hash(text),
            passages=sha256_of(list(by_hash)),
            count=len(by_hash),
        )
        with step(RERANK_STEP):
            (numbers,) = self.answer([Wanted(request, text, tuple(by_hash.values()))])
        scores = dict(zip(by_hash, numbers.array().tolist(), strict=True))
        return [scores[each] for each in hashes]

    def _asked(self, items: Sequence[Wanted]) -> NumbersAnswer:
        ((_, text, passages),) = items
        answer = self._litellm.rerank(
            query=text, documents=list(passages), return_documents=False, **self._options
        )
        scores = _numbers(_field(answer, "results"), "relevance_score", len(passages), "<f8")
        meta = _field(answer, "meta")
        billed, counted = _field(meta, "billed_units"), _field(meta, "tokens")
        tokens = _count(_field(billed, "total_tokens"), _field(counted, "input_tokens"))
        return NumbersAnswer(scores[None], tokens, _count(_field(billed, "search_units")))


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…")


def _numbers(items: Any, name: str, count: int, kind: str) -> "NDArray[Any]":
    """Read a field of `count` results, by their index: finite numbers."""
    import numpy as np

    by_index = {_field(item, "index"): _field(item, name) for item in items or ()}
    if set(by_index) != set(range(count)):
        raise ValueError(f"it sent {len(by_index):,} numbered results for {count:,} texts")
    numbers = np.array([by_index[index] for index in range(count)], dtype=kind)
    if not np.isfinite(numbers).all():
        raise ValueError("it sent numbers that are not finite")
    return numbers


def _field(value: Any, name: str) -> Any:
    """A field of an object or a dictionary, or None."""
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


def _count(*candidates: Any) -> int | None:
    """The first value that is a count; LiteLLM puts 0 if the provider does not say."""
    return next((each for each in candidates if isinstance(each, int) and each > 0), None)
