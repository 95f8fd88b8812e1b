"""Recorded entries: a request, what came back, what it cost, and what it was worth.

There are four kinds: a chat reply (`Reply`), a vector or scores (`Numbers`: embedding, rerank), and
what a search of the index returned (`SearchResult`). Each is found by the key of its request.
"""

import base64
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, JsonValue, ValidationError, model_validator
from pydantic_core import from_json

from freshstack_dspy.errors import DamagedReplyError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.lm.prices import Price
from freshstack_dspy.lm.request import (
    ChatRequest,
    NumbersRequest,
    RerankRequest,
    SearchRequest,
    canonical_json,
    json_string,
    sha256_of,
    text_hash,
)
from freshstack_dspy.records import Record, Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

Kind = Literal["chat", "embedding", "rerank", "search"]
Origin = Literal["live", "import"]


MOST_TOKENS = 2**40
MOST_DOLLARS = 1e15
"""No reply has as many tokens; larger numbers are made up, and could overflow when summed."""
NO_REPLY = "error"
"""The finish reason of a request that the provider refused; the text says why."""
UNANSWERED = "unanswered"
"""The finish reason of a request that it did not answer in any attempt."""


class _Entry(Record):
    """What every kind has; `received_at` is in UTC."""

    key: str
    request: Any
    """The request, of one of the types of `KeyedRequest`."""
    received_at: str

    @property
    def kind(self) -> Kind:
        """Which kind of entry this is."""
        kind: Kind = getattr(self.request, "kind", "chat")
        return kind


class Reply(_Entry):
    """One reply of a language model, with the request that it answers.

    Only a reply of status `ok` is ever an answer. The others are kept for the record; one that
    was `unparsed` is served again only as the first half of a recorded re-ask (`reasked_as`).
    """

    model_config = ConfigDict(populate_by_name=True)

    request: ChatRequest = Field(alias="ask")
    text: str
    finish_reason: str
    status: Status
    reasked_as: str | None = None
    """Key of the request that sent this invalid reply back with its error."""
    input_tokens: int | None = Field(default=None, ge=0, le=MOST_TOKENS)
    output_tokens: int | None = Field(default=None, ge=0, le=MOST_TOKENS)
    cost: float | None = Field(default=None, ge=0, le=MOST_DOLLARS)
    """US dollars; None where the price or the number of tokens is not known."""
    origin: Origin

    @property
    def is_dead_end(self) -> bool:
        """Whether it is not an answer, and no re-ask continues it."""
        return self.status != "ok" and self.reasked_as is None

    @property
    def tokens(self) -> int:
        """All tokens that were paid for, as far as they are known."""
        return (self.input_tokens or 0) + (self.output_tokens or 0)


def receive(
    request: ChatRequest,
    *,
    text: str,
    finish_reason: str,
    origin: Origin,
    price: Price | None,
    input_tokens: int | None = None,
    output_tokens: int | None = None,
    total_tokens: int | None = None,
) -> Reply:
    """Make the record of a reply that has just come in; invalid token counts become None."""
    counts = [
        tokens if type(tokens) is int and 0 <= tokens <= MOST_TOKENS else None
        for tokens in (input_tokens, output_tokens, total_tokens)
    ]
    sent, written, total = counts
    if sent is not None and written is not None and total is not None:
        # Gemini and xAI count what a model thinks in the total alone, and bill it as output.
        written = max(written, total - sent)
    asked: dict[str, Any] = {"request": request}  # type checkers disagree about its alias
    return Reply(
        **asked,
        key=request.key,
        text=encodable(text),
        finish_reason=finish_reason,
        status=status_of(finish_reason),
        input_tokens=sent,
        output_tokens=written,
        cost=price.cost(sent, written) if price else None,
        received_at=_now(),
        origin=origin,
    )


def encodable(text: str) -> str:
    """Half a surrogate pair, which a reply cut inside an escape holds, has no UTF-8."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def status_of(finish_reason: str) -> Status:
    """The status of a reply according to the provider's finish reason alone."""
    if finish_reason in ("length", "max_tokens"):
        return "truncated"
    if finish_reason in ("content_filter", "refusal", "safety"):
        return "refused"
    if finish_reason in (NO_REPLY, UNANSWERED):
        return "failed"
    return "ok"


_FORMATS = {"embedding": "<f4", "rerank": "<f8"}


class Numbers(_Entry):
    """The numbers that a model gave to one request: a vector of a text, or scores of passages."""

    request: Annotated[NumbersRequest, Field(discriminator="kind")]
    values: str
    """Base64 of little-endian float32 (a vector) or float64 (scores, by the passages' hashes)."""
    tokens: int = Field(ge=0, le=MOST_TOKENS)
    """Tokens of the request; for a text that was sent with others, its share by length."""
    counted: bool
    """Whether the provider counted the tokens; else they are estimated."""
    cost: float | None = Field(default=None, ge=0, le=MOST_DOLLARS)
    """US dollars; None where the price is not known."""

    @model_validator(mode="after")
    def _are_as_many_finite_numbers_as_asked_for(self) -> Self:
        import numpy as np

        try:
            values = self.array()
        except ValueError:
            raise ValueError("values are no base64 of floats") from None
        request = self.request
        count = request.count if isinstance(request, RerankRequest) else request.dimensions
        if count not in (None, len(values)) or not len(values) or not np.isfinite(values).all():
            raise ValueError(f"values are not {count or 'some'} finite numbers")
        return self

    def array(self) -> "NDArray[Any]":
        """The numbers, read-only: shape (dimensions,) or (passages,)."""
        import numpy as np

        data = base64.b64decode(self.values, validate=True)
        return np.frombuffer(data, dtype=_FORMATS[self.request.kind])


class SearchResult(_Entry):
    """What a search of the index returned."""

    request: SearchRequest
    value: JsonValue


Entry = Reply | Numbers | SearchResult


def receive_numbers(
    request: NumbersRequest,
    values: "NDArray[Any]",
    *,
    tokens: int,
    counted: bool,
    cost: float | None,
) -> Numbers:
    """Make the record of numbers that have just come in; a ValueError if they are no answer."""
    data = values.astype(_FORMATS[request.kind]).tobytes()
    return Numbers(
        key=request.key,
        request=request,
        values=base64.b64encode(data).decode(),
        tokens=tokens,
        counted=counted,
        cost=cost,
        received_at=_now(),
    )


def receive_search(request: SearchRequest, value: JsonValue) -> SearchResult:
    """Make the record of what a search has just returned."""
    return SearchResult(key=request.key, request=request, value=value, received_at=_now())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


_CHAT_BEGINS = b'{"ask":'
"""Serialise as the canonical JSON of every chat reply does."""
_MODELS: dict[str, type[Entry]] = {
    "embedding": Numbers,
    "rerank": Numbers,
    "search": SearchResult,
}


def entry_of_others(data: bytes, where: str) -> Entry:
    """Read an entry as `entry_from_json` does, and check that its key is that of its request."""
    entry = entry_from_json(data, where)
    if entry.key != entry.request.key:
        raise DamagedReplyError(
            f"{where}: not a recorded reply: the key {entry.key!r:.80} is not the key of the "
            "request next to it"
        )
    return entry


def entry_from_json(data: bytes, where: str) -> Entry:
    """Read and validate one recorded entry; a DamagedReplyError names `where` and the fault."""
    try:
        if data.startswith(_CHAT_BEGINS):
            return Reply.model_validate_json(data)
        fields = from_json(data)
        request = fields.get("request") if isinstance(fields, dict) else None
        kind = request.get("kind") if isinstance(request, dict) else None
        return _MODELS.get(kind or "", Reply).model_validate(fields)
    except ValidationError as error:
        fault = first_fault(error)
    except ValueError as error:
        fault = str(error)
    raise DamagedReplyError(f"{where}: not a recorded reply: {fault}")


def entry_json(entry: Entry) -> str:
    """The canonical JSON of an entry, as stores and bundles hold it."""
    if not isinstance(entry, Reply):
        return canonical_json(entry.model_dump(mode="json"))
    others = canonical_json(entry.model_dump(exclude={"request", "text"}))
    return f'{{"ask":{entry.request.canonical()},{others[1:-1]},"text":{json_string(entry.text)}}}'


def content_hash(entry: Entry | dict[str, Any]) -> str:
    """SHA-256 of the parts of an entry, or of its JSON, that can change what a build makes."""
    fields = entry if isinstance(entry, dict) else vars(entry)
    if "text" in fields:
        finish_reason, text = fields["finish_reason"], fields["text"]
        return text_hash(f"[{json_string(finish_reason)},{json_string(text)}]")
    return sha256_of(fields["values" if "values" in fields else "value"])


def same_content(entry: Entry, other: Entry) -> bool:
    """Whether a build makes the same of two entries; when they came and their cost may differ."""
    if isinstance(entry, Reply) and isinstance(other, Reply):
        worth = (entry.status, entry.reasked_as) == (other.status, other.reasked_as)
    else:
        worth = entry.kind == other.kind
    return entry.key == other.key and worth and content_hash(entry) == content_hash(other)
