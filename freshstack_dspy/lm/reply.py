"""A recorded reply: what was asked, what came back, what it cost, and what it was worth."""

from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from freshstack_dspy.errors import StoreError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.lm.request import Ask
from freshstack_dspy.lm.spending.prices import Price
from freshstack_dspy.records import Record, Status

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
