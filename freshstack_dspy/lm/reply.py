"""A recorded reply: what was asked, what came back, what it cost, and what it was worth."""

import base64
import binascii
import functools
import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from freshstack_dspy.errors import StoreError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.lm.prices import Price
from freshstack_dspy.lm.request import Ask, sha256_of
from freshstack_dspy.records import Record, Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEY_VERSION = 1
"""Raised when the same request gets another key, so that old stores say why they miss."""

MOST_PASSAGES = 1000
_Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class EmbeddingAsk(Record):
    """One text that is embedded."""

    kind: Literal["embedding"] = "embedding"
    model: str
    endpoint: str
    dimensions: int | None = None
    """Of the vector, where the model is asked to shorten it."""
    input_type: str | None = None
    """What the text is to the model (`search_query`), for those that must be told."""
    text: _Hash
    """SHA-256 of the text exactly as it is sent: with its prefix, and cut."""

    @functools.cached_property
    def key(self) -> str:
        """SHA-256 over the canonical JSON of every field, as 64 hexadecimal digits."""
        return _key(self)


class RerankAsk(Record):
    """Passages that are scored for one text."""

    kind: Literal["rerank"] = "rerank"
    model: str
    endpoint: str
    query: _Hash
    """SHA-256 of the text."""
    passages: _Hash
    """SHA-256 of the canonical JSON of the list of the passages' SHA-256, sorted, each once."""
    count: int = Field(ge=1, le=MOST_PASSAGES)
    """How many passages these are."""

    @functools.cached_property
    def key(self) -> str:
        """SHA-256 over the canonical JSON of every field, as 64 hexadecimal digits."""
        return _key(self)


NumbersAsk = EmbeddingAsk | RerankAsk


def text_hash(text: str) -> str:
    """SHA-256 of a text's UTF-8, as 64 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def passages_hash(hashes: Iterable[str]) -> str:
    """The hash of a set of passages, from theirs."""
    return sha256_of(sorted(set(hashes)))


def _key(ask: NumbersAsk) -> str:
    return sha256_of({"key_version": KEY_VERSION, **ask.model_dump(mode="json")})


Origin = Literal["live", "import"]


MOST_TOKENS = 2**40
MOST_DOLLARS = 1e15
"""No reply has so many; larger numbers are made up, and could not be added up and written."""
NO_REPLY = "error"
"""The finish reason of a request that the provider refused or did not answer; the text says why."""


class Reply(Record):
    """One reply of a language model, with the request that it answers.

    Only a reply of status `ok` is ever an answer. The others are kept for the record; one that
    was `unparsed` is served again only as the first half of a recorded re-ask (`reasked_as`).
    """

    key: str
    ask: Ask
    text: str
    finish_reason: str
    status: Status
    reasked_as: str | None = None
    """Key of the request that sent this invalid reply back with its error."""
    input_tokens: int | None = Field(default=None, ge=0, le=MOST_TOKENS)
    output_tokens: int | None = Field(default=None, ge=0, le=MOST_TOKENS)
    cost: float | None = Field(default=None, ge=0, le=MOST_DOLLARS)
    """US dollars; None where the price or the number of tokens is not known."""
    received_at: str
    origin: Origin

    @model_validator(mode="after")
    def _key_is_of_this_request(self) -> "Reply":
        if self.key != self.ask.key:
            raise ValueError(f"the key {self.key!r:.80} is not the key of the request beside it")
        return self

    @property
    def is_dead_end(self) -> bool:
        """Whether it is no answer, and no re-ask goes on from it."""
        return self.status != "ok" and self.reasked_as is None

    @property
    def tokens(self) -> int:
        """All tokens that were paid for, as far as they are known."""
        return (self.input_tokens or 0) + (self.output_tokens or 0)


def receive(
    ask: Ask,
    *,
    text: str,
    finish_reason: str,
    input_tokens: int | None,
    output_tokens: int | None,
    origin: Origin,
    price: Price | None,
    batch: bool = False,
) -> Reply:
    """Make the record of a reply that has just come in.

    Args:
        ask: What it answers.
        text: What it says.
        finish_reason: As the provider names it.
        input_tokens: As the provider counted them, or None; what is no such number counts as None.
        output_tokens: The same.
        origin: How it came here.
        price: Of the model, or None where it is not known.
        batch: Whether it came from the provider's batch API, which has prices of its own.
    """
    input_tokens, output_tokens = _counted(input_tokens), _counted(output_tokens)
    return Reply(
        key=ask.key,
        ask=ask,
        text=encodable(text),
        finish_reason=finish_reason,
        status=status_of(finish_reason),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost=price.cost(input_tokens, output_tokens, batch=batch) if price else None,
        received_at=datetime.now(UTC).isoformat(timespec="seconds"),
        origin=origin,
    )


def _counted(tokens: Any) -> int | None:
    """A provider's count of tokens, or None where it is none."""
    return tokens if type(tokens) is int and 0 <= tokens <= MOST_TOKENS else None


def encodable(text: str) -> str:
    """Half a surrogate pair, which a reply cut inside an escape holds, has no UTF-8."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def reply_from_json(line: str, where: str) -> Reply:
    """Read one recorded reply, validating every field.

    Raises:
        StoreError: Naming `where` and the fault.
    """
    try:
        return Reply.model_validate_json(line)
    except ValidationError as error:
        raise StoreError(f"{where}: not a recorded reply: {first_fault(error)}") from None


def status_of(finish_reason: str) -> Status:
    """What the provider's finish reason alone says of a reply."""
    if finish_reason in ("length", "max_tokens"):
        return "truncated"
    if finish_reason in ("content_filter", "refusal", "safety"):
        return "refused"
    if finish_reason == NO_REPLY:
        return "failed"
    return "ok"


MOST_DIMENSIONS = 65_536
_FORMATS = {"embedding": "<f4", "rerank": "<f8"}


class Figures(Record):
    """The numbers that a model gave to one request of one text or one query."""

    key: str
    request: Annotated[NumbersAsk, Field(discriminator="kind")]
    values: str
    """Base64 of little-endian float32 (a vector) or float64 (scores, by the passages' hashes)."""
    tokens: int = Field(ge=0, le=MOST_TOKENS)
    """Of the request; of a text that was sent with others, its share by length."""
    counted: bool
    """Whether the provider counted the tokens; else they are estimated."""
    cost: float | None = Field(default=None, ge=0, le=MOST_DOLLARS)
    """US dollars; None where the price is not known."""
    received_at: str

    @model_validator(mode="after")
    def _says_numbers(self) -> Self:
        if self.key != self.request.key:
            raise ValueError(f"the key {self.key!r:.80} is not the key of the request beside it")
        try:
            fault = fault_of(self.array(), self.request)
        except (binascii.Error, ValueError):
            raise ValueError("values are no base64 of floats") from None
        if fault is not None:
            raise ValueError(f"values {fault}")
        return self

    def array(self) -> "NDArray[Any]":
        """The numbers, read-only: shape (dimensions,) or (passages,)."""
        import numpy as np

        data = base64.b64decode(self.values, validate=True)
        return np.frombuffer(data, dtype=_FORMATS[self.request.kind])


def fault_of(values: "NDArray[Any]", ask: NumbersAsk) -> str | None:
    """Say in words why these numbers are no answer to a request, or None."""
    import numpy as np

    if not np.isfinite(values).all():
        return "hold a number that is not finite"
    if isinstance(ask, RerankAsk):
        if len(values) != ask.count:
            return f"are {len(values)} scores for {ask.count} passages"
        return None
    if not 1 <= len(values) <= MOST_DIMENSIONS:
        return f"are a vector of {len(values)} numbers"
    if ask.dimensions not in (None, len(values)):
        return f"are a vector of {len(values)} numbers, not of the {ask.dimensions} asked for"
    return None if values.any() else "are all zero"


def receive_figures(
    request: EmbeddingAsk | RerankAsk,
    values: "NDArray[Any]",
    *,
    tokens: int,
    counted: bool,
    cost: float | None,
) -> Figures:
    """Make the record of numbers that have just come in.

    Raises:
        ValidationError: They are no answer to the request.
    """
    data = values.astype(_FORMATS[request.kind]).tobytes()
    return Figures(
        key=request.key,
        request=request,
        values=base64.b64encode(data).decode(),
        tokens=tokens,
        counted=counted,
        cost=cost,
        received_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def figures_from_json(line: str, where: str) -> Figures:
    """Read recorded numbers, validating every field.

    Raises:
        StoreError: Naming `where` and the fault.
    """
    try:
        return Figures.model_validate_json(line)
    except ValidationError as error:
        raise StoreError(f"{where}: no recorded vector or scores: {first_fault(error)}") from None
