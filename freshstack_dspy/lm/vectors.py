"""Vectors and scores by hosted models, recorded as replies are (`client.py`), through LiteLLM."""

import base64
import functools
import logging
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from freshstack_dspy.errors import FatalModelError, ReplyError, TransientModelError
from freshstack_dspy.lm.budget import Reservation, Spent, check_unpriced
from freshstack_dspy.lm.engine import (
    HostedModel,
    did_not_answer,
    errors_explained,
    imported_litellm,
    litellm_in_flight,
    litellm_options,
    unknown_provider,
)
from freshstack_dspy.lm.prices import Price, RerankPrice
from freshstack_dspy.lm.recorder import Access, Item, Recorder, Sent
from freshstack_dspy.lm.reply import (
    MOST_DIMENSIONS,
    MOST_TOKENS,
    Numbers,
    receive_numbers,
)
from freshstack_dspy.lm.request import (
    EmbeddingRequest,
    RerankRequest,
    passages_hash,
    text_hash,
)
from freshstack_dspy.lm.retry import Retries
from freshstack_dspy.lm.usage import step
from freshstack_dspy.lm.workers import map_in_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Access", "EmbeddingClient", "HostedModel", "RerankClient"]

STEP = "embeddings"
RERANK_STEP = "reranking"
"""What the ledger enters them under, whichever step of a recipe needs them."""
MOST_BYTES = 300_000
"""Of the texts of one request. OpenAI takes 300,000 tokens, and no token is less than a byte."""
_ADDED = 8
"""Tokens that a model may put around a text, as its beginning and end."""
_MOST_HALVINGS = 12
"""Refusals until one bad text among 2,048 is found."""
_SHOWN = 60
_REUSED_AT_ONCE = 256
_UNIT_PASSAGES, _UNIT_TOKENS = 100, 500
"""A search unit has so many passages; a passage counts once for so many tokens, the text's too."""
_log = logging.getLogger(__name__)


class InputTypes(NamedTuple):
    """How a provider is told whether a text is searched or searched for."""

    parameter: str
    query: str
    passage: str


_COHERE = InputTypes("input_type", "search_query", "search_document")
_INPUT_TYPES = {
    "cohere": _COHERE,
    "cohere_chat": _COHERE,
    "voyage": InputTypes("input_type", "query", "document"),
    "nvidia_nim": InputTypes("input_type", "query", "passage"),
}


def input_types_of(model: str) -> InputTypes | None:
    """What a model must be told of its texts, or None; others take prefixes, or nothing."""
    provider, _, name = model.partition("/")
    if provider == "bedrock" and "cohere." in name:
        return _COHERE
    return _INPUT_TYPES.get(provider)


class Answer(NamedTuple):
    """What a model answered."""

    values: "NDArray[Any]"
    """Vectors, shape (texts, dimensions), float32; or scores, shape (passages,), float64."""
    tokens: int | None
    """As the provider counted them, if it did."""
    units: int | None = None
    """Search units, as some providers of rerankers bill; see `RerankPrice`."""


class Batch(NamedTuple):
    """Texts that are sent together."""

    texts: tuple[str, ...]
    input_type: str | None = None


class Passages(NamedTuple):
    """Passages that are scored for one text."""

    query: str
    passages: tuple[str, ...]


class NumbersItem(Item, Protocol):
    """Something whose numbers are asked for."""

    @property
    def text(self) -> str:
        """What is embedded, or what passages are scored for."""
        ...


NumbersItemT = TypeVar("NumbersItemT", bound=NumbersItem)


class NumbersClient(Recorder[NumbersItemT, Numbers], Generic[NumbersItemT]):
    """What embedders and rerankers have in common."""

    def __init__(
        self,
        model: HostedModel,
        access: Access,
        opened: Callable[[], Any],
        *,
        refusals: int,
        priced: bool,
    ) -> None:
        self._model = model
        self._warned = False
        remedy = (
            f"set price of {model.section}, in dollars per million tokens, 0 for a server of "
            "one's own"
        )
        asks = access.mode != "replay"
        if asks:
            check_unpriced(access.account.caps, model.name, remedy, known=priced)
        retries: Retries[Any, Answer] = Retries(
            model, opened, advice=f"check {model.section}", refusals=refusals
        )
        super().__init__(model, access, retries, asks=asks)

    def _miss(self, items: Sequence[NumbersItemT]) -> str:
        return f"{len(items):,} missing, as of {_shown(items[0].text)}: {super()._miss(items)}"

    def _warn_uncounted(self) -> None:
        if not self._warned:
            self._warned = True
            _log.warning("%s does not count what it bills: it is estimated", self._name)


class Wanted(NamedTuple):
    """A text whose vector is asked for."""

    request: EmbeddingRequest
    text: str
    """Exactly as it is sent."""

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.text.encode())


def packed(wanted: Iterable[Wanted], most_texts: int) -> Iterator[list[Wanted]]:
    """Cut texts into requests, in their order; a text that is too long goes alone."""
    pack: list[Wanted] = []
    size = 0
    for one in wanted:
        if pack and (len(pack) == most_texts or size + one.size > MOST_BYTES):
            yield pack
            pack, size = [], 0
        pack.append(one)
        size += one.size
    if pack:
        yield pack


class EmbeddingClient(NumbersClient[Wanted]):
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
        """Open the client; with a cap on dollars, a model without a price is a `ConfigError`."""
        self._dimensions = dimensions
        self._batch = batch
        self._price = price
        self._length: int | None = None
        opened = functools.partial(LiteLLMEmbedding, model, dimensions)
        super().__init__(model, access, opened, refusals=_MOST_HALVINGS, priced=price is not None)

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
            progress: Called with the fraction that is done, by many threads.

        Returns:
            Shape (texts, dimensions), float32, finite, no row all zero.

        Raises:
            ModelError: Some text has no vector; those that came are recorded.
        """
        import numpy as np

        requests = [self.request_of(text, input_type) for text in texts]
        wanted = {
            request.key: Wanted(request, text)
            for request, text in zip(requests, texts, strict=True)
        }
        rows: dict[str, NDArray[Any]] = {}

        def fill(found: Sequence[Numbers]) -> None:
            for numbers in found:
                rows[numbers.key] = numbers.array()
                self._check_length(len(rows[numbers.key]))
            progress(len(rows) / len(wanted))

        def ask(pack: Sequence[Wanted]) -> None:
            fill(self._halving(pack))

        with step(STEP):
            keys = list(wanted)
            for start in range(0, len(keys), _REUSED_AT_ONCE):  # all at once would fill the memory
                some = map(self.reusable, keys[start : start + _REUSED_AT_ONCE])
                known = [found for found in some if found is not None]
                if known:
                    self.reuse(known)
                    fill(known)
            missing = [one for key, one in wanted.items() if key not in rows]
            if missing and self.mode == "replay":
                self.answer(missing)
            map_in_order(ask, list(packed(missing, self._batch)), workers=self._model.concurrency)
        if not texts:
            return np.empty((0, 0), dtype=np.float32)
        return np.stack([rows[request.key] for request in requests]).astype(np.float32, copy=False)

    def request_of(self, text: str, input_type: str | None = None) -> EmbeddingRequest:
        """The request for a text's vector, as it is recorded."""
        return EmbeddingRequest(
            model=self._name,
            endpoint=self.endpoint,
            dimensions=self._dimensions,
            input_type=input_type,
            text=text_hash(text),
        )

    def _halving(self, pack: Sequence[Wanted]) -> list[Numbers]:
        """Ask for vectors together; if they are refused, for each half."""
        try:
            return self.answer(pack)
        except RefusedError as error:
            # One text that is too long, or all of them together: which, only asking tells.
            if len(pack) == 1:
                text = pack[0].text
                raise FatalModelError(
                    f"{error}; the text, of {len(text):,} characters, begins {_shown(text)}: if it "
                    f"is too long, set {self._model.section} max_tokens, and longer ones are cut"
                ) from None
        middle = len(pack) // 2
        return [*self._halving(pack[:middle]), *self._halving(pack[middle:])]

    def _upper_bound(self, items: Sequence[Wanted]) -> Spent:
        tokens = sum(one.size + _ADDED for one in items)  # a token for each byte
        dollars = tokens * self._price.input if self._price else 0.0
        return Spent(calls=1, tokens=tokens, dollars=dollars)

    def _send(self, items: Sequence[Wanted], reservation: Reservation) -> Sent[Numbers]:
        batch = Batch(tuple(one.text for one in items), items[0].request.input_type)
        answer, attempts = _completed(self._retries, batch, reservation)
        self._check_length(answer.values.shape[1], reservation)
        counted = answer.tokens is not None
        tokens = answer.tokens
        if tokens is None:
            from freshstack_dspy.lm.tokens import count_tokens

            self._warn_uncounted()
            tokens = sum(count_tokens(one.text) for one in items)
        entries = []
        parts = _shares(tokens, [one.size for one in items])
        for one, vector, part in zip(items, answer.values, parts, strict=True):
            cost = part * self._price.input if self._price else None
            entries.append(
                receive_numbers(one.request, vector, tokens=part, counted=counted, cost=cost)
            )
        dollars = tokens * self._price.input if self._price else 0.0
        spent = (
            Spent(calls=1, tokens=tokens, dollars=dollars) if counted else reservation.upper_bound
        )
        return Sent(entries, spent, attempts)

    def _check_length(self, length: int, reservation: Reservation | None = None) -> None:
        expected = self._dimensions or self._length
        if expected not in (None, length):
            if reservation is not None:
                reservation.lost()  # it was answered, if not as it should be
            whose = "dimensions asks for" if self._dimensions else "came before"
            raise FatalModelError(
                f"{self._name} gives vectors of {length} numbers, and {whose} {expected}: "
                f"check {self._model.section} model and dimensions; if the model behind the name "
                "has changed, ask for all vectors again with --mode rerecord"
            )
        self._length = length


class Ranked(NamedTuple):
    """Passages whose scores are asked for."""

    request: RerankRequest
    sent: Passages

    @property
    def text(self) -> str:
        """What they are scored for."""
        return self.sent.query


class RerankClient(NumbersClient[Ranked]):
    """Scores of passages by one hosted model; shared by threads."""

    def __init__(
        self, model: HostedModel, access: Access, *, price: RerankPrice | None = None
    ) -> None:
        """Open the client; with a cap on dollars, a model without a price is a `ConfigError`."""
        self._price = price
        opened = functools.partial(LiteLLMRerank, model)
        super().__init__(model, access, opened, refusals=3, priced=price is not None)

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
        request = RerankRequest(
            model=self._name,
            endpoint=self.endpoint,
            query=text_hash(query),
            passages=passages_hash(hashes),
            count=len(by_hash),
        )
        with step(RERANK_STEP):
            try:
                (numbers,) = self.answer(
                    [Ranked(request, Passages(query, tuple(by_hash.values())))]
                )
            except RefusedError as error:
                raise FatalModelError(
                    f"{error}; {request.count} passages were sent: if they are too many, set "
                    f"{self._model.section} depth"
                ) from None
        found = dict(zip(by_hash, numbers.array().tolist(), strict=True))
        return [found[each] for each in hashes]

    def _upper_bound(self, items: Sequence[Ranked]) -> Spent:
        """A token for each byte, and the text once more for each passage."""
        request = items[0].sent
        text = len(request.query.encode())
        tokens = sum(len(passage.encode()) + text + _ADDED for passage in request.passages)
        dollars = self._price.cost(tokens, _units(request)) if self._price else 0.0
        return Spent(calls=1, tokens=tokens, dollars=dollars)

    def _send(self, items: Sequence[Ranked], reservation: Reservation) -> Sent[Numbers]:
        ((request, sent),) = items
        answer, attempts = _completed(self._retries, sent, reservation)
        price = self._price
        by_unit = price is not None and price.is_by_unit
        counted = (answer.units if by_unit else answer.tokens) is not None
        tokens = answer.tokens
        if tokens is None:
            from freshstack_dspy.lm.tokens import count_tokens

            text = count_tokens(sent.query)
            tokens = sum(text + count_tokens(passage) for passage in sent.passages)
        if not counted:
            self._warn_uncounted()
        cost = price.cost(tokens, answer.units or _units(sent)) if price else None
        entry = receive_numbers(request, answer.values, tokens=tokens, counted=counted, cost=cost)
        spent = (
            Spent(calls=1, tokens=tokens, dollars=cost or 0.0)
            if counted
            else reservation.upper_bound
        )
        return Sent([entry], spent, attempts)


class RefusedError(ReplyError):
    """The provider refused a request as it is; another may be answered."""


def _completed(
    retries: Retries[Any, Answer], request: Any, reservation: Reservation
) -> tuple[Answer, int]:
    """Ask; without numbers no build goes on, so that an unanswered request stops it."""
    try:
        return retries.complete(request, reservation.lost)
    except RefusedError:
        raise
    except ReplyError as error:
        raise TransientModelError(str(error)) from None


def _units(request: Passages) -> int:
    """The most search units that a request can be."""
    text = len(request.query.encode())
    parts = sum(
        math.ceil((len(passage.encode()) + text + 1) / _UNIT_TOKENS) for passage in request.passages
    )
    return math.ceil(parts / _UNIT_PASSAGES)


def _shares(total: int, sizes: Sequence[int]) -> list[int]:
    """Divide a count by sizes into whole numbers that add up to it."""
    whole = sum(sizes) or 1
    ends, so_far = [0], 0
    for size in sizes:
        so_far += size
        ends.append(total * so_far // whole)
    ends[-1] = total
    return [end - start for start, end in pairwise(ends)]


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…")


_IN_BASE64 = ("openai", "azure", "hosted_vllm")
"""Providers that take `encoding_format`: JSON numbers take thirty times as long to read."""
_KNOWN_BY_NAME = ("openai", "azure")
"""Providers of which LiteLLM lets only the models it knows shorten their vectors."""
_BY_OPENAI_SDK = ("openai", "together_ai", "nvidia_nim", "mistral", "fireworks_ai", "nebius")
"""Providers that LiteLLM asks for vectors with the OpenAI SDK, which repeats requests by itself."""
_WARNS_OF_BASE64 = r"(?s)Pydantic serializer warnings:.*list\[float\].*field_name='embedding'"


class _LiteLLM:
    """One of LiteLLM's functions; makes one attempt."""

    def __init__(self, model: HostedModel) -> None:
        self.most_in_flight = litellm_in_flight(model)
        self._model = model
        self._provider = model.name.partition("/")[0]
        self._options = litellm_options(model)
        self._litellm = imported_litellm(model)
        try:
            self._litellm.get_llm_provider(model.name)
        except self._litellm.BadRequestError:
            where = f"{model.section} model"
            raise unknown_provider(model, where, "LiteLLM does not know") from None

    def _asked(
        self, function: Any, read: Callable[[Any, int], Answer], count: int, **options: Any
    ) -> Answer:
        try:
            with errors_explained(self._model):
                answer = function(**self._options, **options)
            return read(answer, count)
        except UnusableError as error:
            raise did_not_answer(str(error), self._model) from None
        except ReplyError as error:
            raise RefusedError(str(error), status=error.status, call_id=None) from None


class LiteLLMEmbedding(_LiteLLM):
    """Asks for vectors, once."""

    def __init__(self, model: HostedModel, dimensions: int | None) -> None:
        super().__init__(model)
        if dimensions is not None:
            self._options["dimensions"] = dimensions
            if self._provider in _KNOWN_BY_NAME:
                self._options["allowed_openai_params"] = ["dimensions"]
        if self._provider in _IN_BASE64:
            self._options["encoding_format"] = "base64"
            # The OpenAI SDK takes every vector for a list, and LiteLLM has Pydantic write it down.
            warnings.filterwarnings("ignore", _WARNS_OF_BASE64, UserWarning)
        if self._provider in _BY_OPENAI_SDK:
            with errors_explained(model):
                self._options["client"] = self._one_attempt()

    def complete(self, batch: Batch, /) -> Answer:
        """Ask once; errors are those of `NetworkProvider.complete`."""
        types = input_types_of(self._model.name)
        extra = {types.parameter: batch.input_type} if types and batch.input_type else {}
        texts = list(batch.texts)
        embedding = self._litellm.embedding
        return self._asked(embedding, vectors_of, len(texts), input=texts, **extra)

    def close(self) -> None:
        """Close the connections; LiteLLM's own clients are the process's."""
        if "client" in self._options:
            self._options["client"].close()

    def _one_attempt(self) -> Any:
        """A client of the OpenAI SDK that never repeats a request, whatever LiteLLM sets."""
        import openai

        class OneAttempt(openai.OpenAI):
            max_retries = property(lambda _: 0, lambda _, __: None)

        given = {name: self._options.get(name) for name in ("api_base", "api_key")}
        _, _, key, base = self._litellm.get_llm_provider(self._model.name, **given)
        return OneAttempt(api_key=key, base_url=base, timeout=self._model.timeout)


class LiteLLMRerank(_LiteLLM):
    """Asks for scores, once."""

    def complete(self, sent: Passages, /) -> Answer:
        """Ask once; errors are those of `NetworkProvider.complete`."""
        return self._asked(
            self._litellm.rerank,
            scores_of,
            len(sent.passages),
            query=sent.query,
            documents=list(sent.passages),
            return_documents=False,
        )


class UnusableError(Exception):
    """An answer that is none."""


def vectors_of(answer: Any, count: int) -> Answer:
    """Read the vectors of so many texts, each as numbers or as base64 of float32.

    Raises:
        UnusableError: They are not as many, not as long as each other, or hold no direction.
    """
    import numpy as np

    items = _in_order(_field(answer, "data"), count)
    rows = [_floats(_field(item, "embedding"), "<f4") for item in items]
    lengths = sorted({len(row) for row in rows})
    if len(lengths) != 1 or not 1 <= lengths[0] <= MOST_DIMENSIONS:
        raise UnusableError(f"its vectors have unusable lengths: {lengths[:5]}")
    matrix = np.stack(rows)
    if not matrix.any(axis=1).all():
        raise UnusableError("a vector is all zero")
    usage = _field(answer, "usage")
    return Answer(matrix, _count(_field(usage, "prompt_tokens"), _field(usage, "total_tokens")))


def scores_of(answer: Any, count: int) -> Answer:
    """Read the scores of so many passages.

    Raises:
        UnusableError: Some passage has no score, or two, or one that is no finite number.
    """
    items = _in_order(_field(answer, "results"), count)
    scores = _floats([_field(item, "relevance_score") for item in items], "<f8")
    meta = _field(answer, "meta")
    billed, counted = _field(meta, "billed_units"), _field(meta, "tokens")
    tokens = _count(_field(billed, "total_tokens"), _field(counted, "input_tokens"))
    return Answer(scores, tokens, _count(_field(billed, "search_units")))


def _in_order(items: Any, count: int) -> list[Any]:
    """The items by their index, which must be each once."""
    by_index = {_field(item, "index"): item for item in items or ()}
    if len(items or ()) != count or set(by_index) != set(range(count)):
        raise UnusableError(f"it sent {len(items or ()):,} numbered results for {count:,} texts")
    return [by_index[index] for index in range(count)]


def _floats(value: Any, kind: str) -> "NDArray[Any]":
    """Finite numbers, given as a list or as base64."""
    import numpy as np

    try:
        if isinstance(value, str):
            found = np.frombuffer(base64.b64decode(value, validate=True), dtype=kind)
        else:
            with np.errstate(over="ignore"):
                found = np.asarray(value).astype(kind, casting="same_kind")
    except (TypeError, ValueError):
        raise UnusableError("it sent something else than numbers") from None
    if found.ndim != 1 or not np.isfinite(found).all():
        raise UnusableError("it sent numbers that are not finite, or no list of them")
    return found


def _field(value: Any, name: str) -> Any:
    """A field of an object or a dictionary, or None."""
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


def _count(*candidates: Any) -> int | None:
    """The first that is a count; LiteLLM puts 0 where the provider does not say."""
    counts = (one for one in candidates if type(one) is int and 0 < one <= MOST_TOKENS)
    return next(counts, None)


@runtime_checkable
class Recording(Protocol):
    """A model whose numbers are recorded."""

    def used(self) -> Iterator[Numbers]:
        """What was given out, as it is recorded now, by key."""
        ...


def used_figures(models: Iterable[object]) -> Iterator[Numbers]:
    """All vectors and scores that were given out, as they are recorded now, each once, by key.

    Args:
        models: Embedders and rerankers; those whose numbers are not recorded are passed over.

    Raises:
        StoreError: One cannot be read or trusted.
    """
    recording = [model for model in models if isinstance(model, Recording)]
    by_key = {numbers.key: numbers for model in recording for numbers in model.used()}
    yield from (by_key[key] for key in sorted(by_key))
