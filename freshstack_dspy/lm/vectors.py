"""What a client to an embedder or reranker needs beside its model: records, money, and listeners."""

import base64
import binascii
import functools
import hashlib
import logging
import math
import os
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable
from urllib.parse import urlsplit

import httpx
import openai
from pydantic import SecretStr

from freshstack_dspy.config import Mode
from freshstack_dspy.errors import (
    DamagedReplyError,
    FatalModelError,
    ModelError,
    ReplayMissError,
    ReplyError,
    TransientModelError,
)
from freshstack_dspy.lm.budget import Account, Caps, Spent, check_unpriced
from freshstack_dspy.lm.engine import (
    NO_ANSWER,
    Wire,
    did_not_answer,
    explained,
    imported_litellm,
    litellm_transport,
    presentable,
    watched,
)
from freshstack_dspy.lm.events import Callback, CallEvent
from freshstack_dspy.lm.misses import explain_miss
from freshstack_dspy.lm.prices import Price, RerankPrice
from freshstack_dspy.lm.reply import MOST_DIMENSIONS, MOST_TOKENS, Numbers, receive_numbers
from freshstack_dspy.lm.request import (
    EmbeddingRequest,
    NumbersRequest,
    RerankRequest,
    base_from_environment,
    endpoint_identity,
    passages_hash,
    sha256_of,
    text_hash,
)
from freshstack_dspy.lm.retry import Attempts, Exchange
from freshstack_dspy.lm.store import Recorded, ReplyStore
from freshstack_dspy.lm.usage import Ledger, StepLedger, current_step, step
from freshstack_dspy.lm.workers import map_in_order

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Access:
    """How a client is opened.

    Attributes:
        mode: See `client.py`.
        store: Where figures are kept; every mode but `replay` needs one that can be written.
        recorded: Numbers of bundles, read beside the store.
        account: Who pays, and how much at most; with `in_flight` under one cap with other clients.
        ledger: Where what is asked and served is entered.
        callback: Told of every request that is sent, by many threads.
    """

    mode: Mode = "live"
    store: ReplyStore | None = None
    recorded: Recorded | None = None
    account: Account = field(default_factory=Account)
    ledger: Ledger = field(default_factory=Ledger)
    callback: Callback | None = None

    def written(self) -> ReplyStore | None:
        """The store to record in; None in a replay.

        Raises:
            FatalModelError: The mode asks, and there is no store that can be written.
        """
        if self.mode == "replay":
            return None
        if not isinstance(self.store, ReplyStore):
            raise FatalModelError(f"mode {self.mode!r} needs a replies store")
        return self.store


class UnusableError(Exception):
    """An answer that is none."""


class RefusedError(ReplyError):
    """The provider refused a request as it is; another may be answered."""


class Vectors(NamedTuple):
    """The vectors of some texts, in their order."""

    matrix: "NDArray[Any]"
    """Shape (texts, dimensions), float32: finite, no row all zero."""
    tokens: int | None
    """As the provider counted them, if it did."""


class Scores(NamedTuple):
    """The scores of some passages, in their order."""

    scores: "NDArray[Any]"
    """Shape (passages,), float64: finite."""
    tokens: int | None
    """As the provider counted them, if it did."""
    units: int | None
    """Search units, as some providers bill; see `RerankPrice`."""


def vectors_of(answer: Any, count: int) -> Vectors:
    """Read the vectors of so many texts, each as numbers or as base64 of float32.

    Raises:
        UnusableError: They are not as many, not as long as each other, or hold no direction.
    """
    import numpy as np

    items = _in_order(_list_of(answer, "data"), count, "vectors", "texts")
    rows = [_vector(_field(item, "embedding")) for item in items]
    lengths = sorted({len(row) for row in rows})
    if len(lengths) != 1:
        raise UnusableError(f"its vectors have different lengths: {lengths[:5]}")
    if not 1 <= lengths[0] <= MOST_DIMENSIONS:
        raise UnusableError(f"its vectors have {lengths[0]:,} numbers")
    matrix = np.stack(rows)
    if not np.isfinite(matrix).all():
        raise UnusableError("a vector holds a number that is not finite")
    if not matrix.any(axis=1).all():
        raise UnusableError("a vector is all zero")
    usage = _field(answer, "usage")
    return Vectors(matrix, _count(_field(usage, "prompt_tokens"), _field(usage, "total_tokens")))


def scores_of(answer: Any, count: int) -> Scores:
    """Read the scores of so many passages.

    Raises:
        UnusableError: Some passage has no score, or two, or one that is no finite number.
    """
    import numpy as np

    items = _in_order(_list_of(answer, "results"), count, "scores", "passages")
    scores = _numbers([_field(item, "relevance_score") for item in items], "<f8")
    if not np.isfinite(scores).all():
        raise UnusableError("a score is not finite")
    meta = _field(answer, "meta")
    billed, counted = _field(meta, "billed_units"), _field(meta, "tokens")
    tokens = _count(_field(billed, "total_tokens"), _field(counted, "input_tokens"))
    return Scores(scores, tokens, _count(_field(billed, "search_units")))


def _list_of(answer: Any, name: str) -> list[Any]:
    found = _field(answer, name)
    if not isinstance(found, list):
        raise UnusableError(f"there is no list of {name} in what it sent")
    return found


def _in_order(items: Sequence[Any], count: int, what: str, whose: str) -> list[Any]:
    """The items by their index, which must be each once."""
    if len(items) != count:
        raise UnusableError(f"it sent {len(items):,} {what} for {count:,} {whose}")
    places = [_field(item, "index") for item in items]
    if any(type(place) is not int for place in places) or sorted(places) != list(range(count)):
        raise UnusableError(f"the indexes of its {what} are not those of the {whose}")
    ordered: list[Any] = [None] * count
    for place, item in zip(places, items, strict=True):
        ordered[place] = item
    return ordered


def _vector(value: Any) -> "NDArray[Any]":
    import numpy as np

    if not isinstance(value, str):
        return _numbers(value, "<f4")
    try:
        return np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4")
    except (binascii.Error, ValueError):
        raise UnusableError("a vector is no base64 of float32") from None


def _numbers(value: Any, kind: str) -> "NDArray[Any]":
    import numpy as np

    try:
        found = np.asarray(value)
    except (ValueError, TypeError):
        found = np.empty(0, dtype=object)
    if found.ndim != 1 or (found.dtype.kind not in "fi" and len(found)):
        raise UnusableError("it sent something else than a list of numbers")
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused
        return found.astype(kind)


def _field(value: Any, name: str) -> Any:
    """A field of an object or a dictionary, or None."""
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


def _count(*candidates: Any) -> int | None:
    """The first that is a count; LiteLLM puts 0 where the provider does not say."""
    counts = (one for one in candidates if type(one) is int and 0 < one <= MOST_TOKENS)
    return next(counts, None)


_ANY_KEY = "none"
"""For a server of one's own, which takes any key where a client insists on one."""


class HostedModel(NamedTuple):
    """Which model is asked, and how; a `Service`."""

    name: str
    """With the provider's, as LiteLLM takes it."""
    section: str
    """Of the configuration, where it is named."""
    api_base: str | None = None
    api_key: SecretStr | None = None
    concurrency: int = 8
    timeout: float = 120
    retries: int = 4

    @property
    def provider(self) -> str:
        """The provider's name."""
        return self.name.partition("/")[0]

    @property
    def endpoint(self) -> str:
        """Where requests go, without credentials; see `endpoint_identity`."""
        return endpoint_identity(self.name, self.api_base, self.section)

    def options(self) -> dict[str, Any]:
        """The arguments for a call of LiteLLM that makes one attempt."""
        options: dict[str, Any] = {
            "model": self.name,
            "timeout": self.timeout,
            "max_retries": 0,
            "num_retries": 0,
        }
        base = self.api_base or base_from_environment(self.name)
        if base:
            options["api_base"] = base
        if self.api_key:
            options["api_key"] = self.api_key.get_secret_value()
        elif base and ("@" in urlsplit(base).netloc or not self._has_key_in_environment()):
            options["api_key"] = _ANY_KEY
        return options

    def _has_key_in_environment(self) -> bool:
        return bool(os.environ.get(f"{self.provider.upper()}_API_KEY"))


class EmbeddingBatch(NamedTuple):
    """Texts that are sent together."""

    texts: tuple[str, ...]
    input_type: str | None = None


class RerankBatch(NamedTuple):
    """Passages that are scored for one text."""

    query: str
    passages: tuple[str, ...]


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
    figures: Callable[[Said], list[Numbers]]
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
        check_unpriced(account.caps, model.name, remedy, known=priced)
        self._model = model
        self._store = store
        self._account = account
        self._ledger = access.ledger
        self._on_call = access.callback
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

    def ask(self, call: Call[Asked, Said]) -> list[Numbers]:
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
            self._store.put(*figures, account=self._account.name, spent=spent)
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
    figures: list[Numbers]
    attempts: int


def _sum_of(figures: Sequence[Numbers]) -> Spent:
    return Spent(
        calls=1,
        tokens=sum(one.tokens for one in figures),
        dollars=sum(one.cost or 0.0 for one in figures),
    )


class Claim(NamedTuple):
    """Which of some keys are this thread's to ask for."""

    mine: list[str]
    theirs: list[str]
    """Those that others have claimed."""
    landings: set[threading.Event]
    """Set when these are done with them, whatever came of it."""


class Flights:
    """The keys that are being asked for; shared by threads."""

    def __init__(self) -> None:
        self._flying: dict[str, threading.Event] = {}
        self._guard = threading.Lock()

    @contextmanager
    def claim(self, keys: Iterable[str]) -> Iterator[Claim]:
        """Claim what nobody else has, for as long as the context lasts.

        Who waits for the others waits after it: two that wait for each other inside never end.
        """
        landed = threading.Event()
        mine: list[str] = []
        theirs: dict[str, threading.Event] = {}
        with self._guard:
            for key in keys:
                other = self._flying.get(key)
                if other is None:
                    self._flying[key] = landed
                    mine.append(key)
                else:
                    theirs[key] = other
        try:
            yield Claim(mine, list(theirs), set(theirs.values()))
        finally:
            with self._guard:
                for key in mine:
                    del self._flying[key]
            landed.set()


_SHOWN = 60
_TWO_VALUES = "two values in one run"
_log = logging.getLogger(__name__)


class Recall:
    """What is recorded, and what of it was used; shared by threads."""

    def __init__(self, mode: Mode, *sources: Recorded | None) -> None:
        """Prepare.

        Args:
            mode: As for the client; `defer` serves as `live` does.
            sources: Where figures are; the first that has any is believed.
        """
        self._mode = mode
        self._sources = [source for source in sources if source is not None]
        self._rerecorded: set[str] = set()
        self._used: dict[str, bytes] = {}
        self._doubled: set[str] = set()
        self._guard = threading.Lock()

    def servable(self, key: str) -> Numbers | None:
        """The recorded figures, unless this mode asks again in their place.

        Raises:
            DamagedReplyError: In a replay, the entry cannot be trusted.
        """
        if self._mode == "rerecord" and key not in self._rerecorded:
            return None
        try:
            return self.recorded(key)
        except DamagedReplyError as error:
            if self._mode == "replay":
                raise
            _log.warning("%s: asked again", error)
            return None

    def recorded(self, key: str) -> Numbers | None:
        """The figures of a key in the first place that has them.

        Raises:
            StoreError: They cannot be read or trusted.
        """
        found = (source.numbers(key) for source in self._sources)
        return next((figures for figures in found if figures is not None), None)

    def enter(self, figures: Numbers, *, asked: bool) -> None:
        """Enter figures that are given out, and whether they were asked for now."""
        said = hashlib.sha256(figures.values.encode()).digest()
        with self._guard:
            if asked:
                self._rerecorded.add(figures.key)
            if self._used.setdefault(figures.key, said) != said:
                # Asked again in one run: nothing single stands for all that was made of this key.
                self._doubled.add(figures.key)

    def used(self) -> dict[str, str]:
        """The hash of the values that were given out, by key, in the order of the keys."""
        with self._guard:
            return {
                key: _TWO_VALUES if key in self._doubled else said.hex()
                for key, said in sorted(self._used.items())
            }

    def missing(self, ask: NumbersRequest, text: str, count: int) -> str:
        """Say in words that figures are not recorded, and how the recorded ones differ.

        Args:
            ask: What was asked first.
            text: Its text, or its query.
            count: How many are missing.
        """
        what = "vector" if ask.kind == "embedding" else "scores"
        shown = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
        return (
            f"no recorded {what} by {ask.model} for {shown!r}, and {count:,} missing: "
            f"{explain_miss(ask, self._sources)}"
        )


class NumbersClient(ABC, Generic[Asked, Said]):
    """Recorded numbers of one hosted model, and the way to ask it for more; shared by threads."""

    def __init__(self, model: HostedModel, access: Access, *, priced: bool) -> None:
        """Open the client.

        Args:
            model: Which model is asked, and how.
            access: What is recorded, who pays, and who listens.
            priced: Whether the price of the model is known.

        Raises:
            FatalModelError: The model's endpoint cannot be used, or there is no store to record in.
            ConfigError: The budget has a cap on dollars, and the model has no price.
        """
        self._model = model
        self._endpoint = model.endpoint
        self._ledger = access.ledger
        self._recall = Recall(access.mode, access.store, access.recorded)
        self._flights = Flights()
        self._told = False
        store = access.written()
        self._live = (
            None
            if store is None
            else LiveNumbers(model, self._opened, store=store, access=access, priced=priced)
        )

    def recorded(self, key: str) -> Numbers | None:
        """The recorded numbers of a key.

        Raises:
            StoreError: They cannot be read or trusted.
        """
        return self._recall.recorded(key)

    def used(self) -> dict[str, str]:
        """The hash of all numbers that were given out, by key."""
        return self._recall.used()

    def close(self) -> None:
        """Close the provider's connections."""
        if self._live is not None:
            self._live.close()

    @abstractmethod
    def _opened(self) -> Exchange[Asked, Said]:
        """Make what answers, when it is first asked."""


MOST_BYTES = 300_000
"""Of the texts of one request. OpenAI takes 300,000 tokens, and no token is less than a byte."""
ADDED = 8
"""Tokens that a model may put around a text, as its beginning and end."""


class Wanted(NamedTuple):
    """A text whose vector is asked for."""

    ask: EmbeddingRequest
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


def worst_of(pack: Iterable[Wanted], price: Price | None) -> Spent:
    """The most that a request can cost: a token for each byte."""
    tokens = sum(one.size + ADDED for one in pack)
    return Spent(calls=1, tokens=tokens, dollars=tokens * price.input if price else 0.0)


def shares(total: int, sizes: Iterable[int]) -> list[int]:
    """Divide a count by sizes into whole numbers that add up to it.

    Args:
        total: What is divided.
        sizes: Of the parts.
    """
    sizes = list(sizes)
    whole = sum(sizes) or 1
    ends, so_far = [0], 0
    for size in sizes:
        so_far += size
        ends.append(total * so_far // whole)
    ends[-1] = total
    return [end - start for start, end in pairwise(ends)]


class Rows:
    """A row for each key; filled by many threads."""

    def __init__(self, keys: Iterable[str], progress: Callable[[float], None]) -> None:
        """Prepare; the first vector says how long all are.

        Args:
            keys: Of the rows, each once.
            progress: Told the fraction that is filled, by one thread at a time.
        """
        self._places = {key: place for place, key in enumerate(keys)}
        self._matrix: NDArray[Any] | None = None
        self._filled = 0
        self._progress = progress
        self._guard = threading.Lock()

    def fill(self, figures: Sequence[Numbers]) -> None:
        """Fill in vectors, all of one length."""
        import numpy as np

        with self._guard:
            for one in figures:
                vector = one.array()
                if self._matrix is None:
                    self._matrix = np.empty((len(self._places), len(vector)), dtype=np.float32)
                self._matrix[self._places[one.key]] = vector
            self._filled += len(figures)
            self._progress(self._filled / len(self._places))

    def of(self, keys: Sequence[str]) -> "NDArray[Any]":
        """The rows of these keys, which may repeat: shape (keys, dimensions)."""
        import numpy as np

        if self._matrix is None:
            return np.empty((0, 0), dtype=np.float32)
        places = [self._places[key] for key in keys]
        if places == list(range(len(self._matrix))):
            return self._matrix
        return self._matrix[places]


STEP = "embeddings"
"""What the ledger enters vectors under, whichever step of a recipe needs them."""
_SHOWN_client = 60
_SERVED_AT_ONCE = 256
_log_client = logging.getLogger(__name__)


class EmbeddingClient(NumbersClient[EmbeddingBatch, Vectors]):
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
        """Open the client.

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

    def ask_of(self, text: str, input_type: str | None = None) -> EmbeddingRequest:
        """What is asked of a text; its key is that of the vector."""
        return EmbeddingRequest(
            model=self._model.name,
            endpoint=self._endpoint,
            dimensions=self._dimensions,
            input_type=input_type,
            text=text_hash(text),
        )

    def _opened(self) -> Exchange[EmbeddingBatch, Vectors]:

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
        live: LiveNumbers[EmbeddingBatch, Vectors],
        rows: Rows,
        pack: Sequence[Wanted],
    ) -> None:
        """Ask for the vectors of texts together; if they are refused, for each half."""
        call = Call(
            task="embedding",
            keys=[one.ask.key for one in pack],
            request=EmbeddingBatch(tuple(one.text for one in pack), pack[0].ask.input_type),
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

    def _received(self, pack: Sequence[Wanted], answer: Vectors) -> list[Numbers]:
        self._check_length(answer.matrix.shape[1])
        tokens = answer.tokens
        if tokens is None:
            tokens = self._estimated(pack)
        records = []
        parts = shares(tokens, (one.size for one in pack))
        for one, vector, part in zip(pack, answer.matrix, parts, strict=True):
            records.append(
                receive_numbers(
                    one.ask,
                    vector,
                    tokens=part,
                    counted=answer.tokens is not None,
                    cost=part * self._price.input if self._price else None,
                )
            )
        return records

    def _estimated(self, pack: Sequence[Wanted]) -> int:
        from freshstack_dspy.lm.tokens import count_tokens

        if not self._told:
            self._told = True
            _log_client.warning(
                "%s does not count its tokens: they are estimated", self._model.name
            )
        return sum(count_tokens(one.text) for one in pack)

    def _give_out(self, figures: Sequence[Numbers], rows: Rows, *, asked: bool) -> None:
        if not figures:
            return
        for one in figures:
            self._check_length(len(one.array()))
            self._recall.enter(one, asked=asked)
        rows.fill(figures)

    def _enter_served(self, figures: Sequence[Numbers]) -> None:
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
    shown = text if len(text) <= _SHOWN_client else f"{text[: _SHOWN - 1]}…"
    return (
        f"{error}; the text, of {len(text):,} characters, begins {shown!r}: if it is too long, set "
        f"{model.section} max_tokens, and longer ones are cut"
    )


RERANK_STEP = "reranking"
"""What the ledger enters scores under, whichever step of a recipe needs them."""
_UNIT_PASSAGES, _UNIT_TOKENS = 100, 500
"""A search unit has so many passages; a passage counts once for so many tokens, the text's too."""
_log_rerank_client = logging.getLogger(__name__)


class RerankClient(NumbersClient[RerankBatch, Scores]):
    """Scores of passages by one hosted model; shared by threads."""

    def __init__(
        self, model: HostedModel, access: Access, *, price: RerankPrice | None = None
    ) -> None:
        """Open the client.

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
        ask = RerankRequest(
            model=self._model.name,
            endpoint=self._endpoint,
            query=text_hash(query),
            passages=passages_hash(hashes),
            count=len(by_hash),
        )
        request = RerankBatch(query, tuple(by_hash.values()))
        with step(RERANK_STEP):
            figures = self._figures(ask, request)
        found = dict(zip(by_hash, figures.array().tolist(), strict=True))
        return [found[each] for each in hashes]

    def _opened(self) -> Exchange[RerankBatch, Scores]:

        return LiteLLMRerank(self._model)

    def _figures(self, ask: RerankRequest, request: RerankBatch) -> Numbers:
        while True:
            with self._flights.claim([ask.key]) as claim:
                if claim.mine:
                    return self._fetched(ask, request)
            for landing in claim.landings:
                landing.wait()

    def _fetched(self, ask: RerankRequest, request: RerankBatch) -> Numbers:
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

    def _asked(self, ask: RerankRequest, request: RerankBatch) -> Numbers:
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

    def _received(self, ask: RerankRequest, request: RerankBatch, answer: Scores) -> list[Numbers]:
        tokens = answer.tokens
        if tokens is None:
            tokens = _estimated_tokens(request)
        price = self._price
        by_unit = price is not None and price.is_by_unit
        counted = answer.units is not None if by_unit else answer.tokens is not None
        if not counted and not self._told:
            self._told = True
            _log_rerank_client.warning(
                "%s does not count what it bills: it is estimated", self._model.name
            )
        units = answer.units or _units(request)
        return [
            receive_numbers(
                ask,
                answer.scores,
                tokens=tokens,
                counted=counted,
                cost=price.cost(tokens, units) if price else None,
            )
        ]

    def _worst(self, request: RerankBatch) -> Spent:
        """The most that a request can cost: a token for each byte, and the text for each passage."""
        text = len(request.query.encode())
        tokens = sum(len(passage.encode()) + text + ADDED for passage in request.passages)
        dollars = self._price.cost(tokens, _units(request)) if self._price else 0.0
        return Spent(calls=1, tokens=tokens, dollars=dollars)


def _units(request: RerankBatch) -> int:
    """The most search units that a request can be."""
    text = len(request.query.encode())
    parts = sum(
        math.ceil((len(passage.encode()) + text + 1) / _UNIT_TOKENS) for passage in request.passages
    )
    return math.ceil(parts / _UNIT_PASSAGES)


def _estimated_tokens(request: RerankBatch) -> int:
    from freshstack_dspy.lm.tokens import count_tokens

    text = count_tokens(request.query)
    return sum(text + count_tokens(passage) for passage in request.passages)


_IN_BASE64 = ("openai", "azure", "hosted_vllm")
"""Providers that take `encoding_format`: JSON numbers take thirty times as long to read."""
_KNOWN_BY_NAME = ("openai", "azure")
"""Providers of which LiteLLM lets only the models it knows shorten their vectors."""
_WARNS_OF_BASE64 = r"(?s)Pydantic serializer warnings:.*list\[float\].*field_name='embedding'"


class LiteLLMEmbedding:
    """Asks for vectors, once."""

    def __init__(self, model: HostedModel, dimensions: int | None) -> None:
        """Prepare.

        Args:
            model: Which.
            dimensions: Of the vectors, where the model is to shorten them.

        Raises:
            FatalModelError: LiteLLM cannot be imported, or does not know the provider.
        """
        self._model = model
        self._litellm = _litellm_for(model)
        self._options: dict[str, Any] = {}
        if dimensions is not None:
            self._options["dimensions"] = dimensions
            if model.provider in _KNOWN_BY_NAME:
                self._options["allowed_openai_params"] = ["dimensions"]
        if model.provider in _IN_BASE64:
            self._options["encoding_format"] = "base64"
            # The OpenAI SDK takes every vector for a list, and LiteLLM has Pydantic write it down.
            warnings.filterwarnings("ignore", _WARNS_OF_BASE64, UserWarning)

    def complete(self, request: EmbeddingBatch, /) -> Vectors:
        """Ask once.

        Raises:
            ModelError: As `NetworkProvider.complete`.
        """
        types = input_types_of(self._model.name)
        told = {types.parameter: request.input_type} if types and request.input_type else {}
        texts = list(request.texts)
        with watched(self._model.timeout, self._model.section) as wire:
            try:
                answer = self._litellm.embedding(
                    input=texts, **self._model.options(), **self._options, **told
                )
                return vectors_of(answer, len(texts))
            except _FAILURES as error:
                raise _explained(error, wire, self._model) from None

    def close(self) -> None:
        """Close the idle connections."""
        litellm_transport.close()


class LiteLLMRerank:
    """Asks for scores, once."""

    def __init__(self, model: HostedModel) -> None:
        """Prepare.

        Raises:
            FatalModelError: LiteLLM cannot be imported, or does not know the provider.
        """
        self._model = model
        self._litellm = _litellm_for(model)

    def complete(self, request: RerankBatch, /) -> Scores:
        """Ask once.

        Raises:
            ModelError: As `NetworkProvider.complete`.
        """
        passages = list(request.passages)
        with watched(self._model.timeout, self._model.section) as wire:
            try:
                answer = self._litellm.rerank(
                    query=request.query,
                    documents=passages,
                    return_documents=False,
                    **self._model.options(),
                )
                return scores_of(answer, len(passages))
            except _FAILURES as error:
                raise _explained(error, wire, self._model) from None

    def close(self) -> None:
        """Close the idle connections."""
        litellm_transport.close()


_FAILURES = (openai.OpenAIError, httpx.HTTPError, UnusableError, *NO_ANSWER)
"""LiteLLM's own errors are the OpenAI SDK's."""


def _litellm_for(model: HostedModel) -> Any:
    litellm = imported_litellm(model)
    try:
        litellm.get_llm_provider(model.name)
    except litellm.BadRequestError:
        raise FatalModelError(
            f"{model.section} model is {model.name!r}, and LiteLLM does not know its provider, "
            f"{model.provider!r}; the known ones are at https://docs.litellm.ai/docs/providers; "
            "for a server of one's own it is hosted_vllm/… with api_base"
        ) from None
    # Its OpenAI client takes a `max_retries` of 0 for none given, and this in its place.
    litellm.DEFAULT_MAX_RETRIES = 0
    return litellm


def _explained(error: Exception, wire: Wire, model: HostedModel) -> ModelError:
    """Say in one line what went wrong."""
    if isinstance(error, UnusableError):
        return did_not_answer(str(error), model)
    said = explained(error, wire, model)
    if isinstance(said, ReplyError):
        return RefusedError(str(said), status=said.status, call_id=None)
    if wire.reply is None and wire.failure is None and not isinstance(said, FatalModelError):
        # Nothing was sent: what LiteLLM does not like of the request, it will not like again.
        message = getattr(error, "message", None) or str(error)
        return FatalModelError(f"{model.name} cannot be asked: {presentable(message, model)}")
    return said


@runtime_checkable
class Recording(Protocol):
    """A model whose numbers are recorded."""

    def used(self) -> dict[str, str]:
        """The hash of what was given out, by key."""
        ...

    def recorded(self, key: str) -> Numbers | None:
        """The recorded figures of a key."""
        ...


def used_figures(models: Iterable[object]) -> Iterator[Numbers]:
    """All figures that were given out, as they are recorded now, each once, by key.

    Args:
        models: Embedders and rerankers; those whose numbers are not recorded are passed over.

    Raises:
        StoreError: One cannot be read or trusted.
    """
    by_key = {key: model for model in _recording(models) for key in model.used()}
    for key in sorted(by_key):
        figures = by_key[key].recorded(key)
        if figures is not None:
            yield figures


def fingerprint_figures(models: Iterable[object]) -> str:
    """One hash of all figures that were given out."""
    return sha256_of(
        {key: said for model in _recording(models) for key, said in model.used().items()}
    )


def _recording(models: Iterable[object]) -> list[Recording]:
    return [model for model in models if isinstance(model, Recording)]
