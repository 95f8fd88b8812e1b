"""A record of numbers: the vector of a text, or the scores of passages, with what was asked.

The numbers are base64 of little-endian floats, 4 bytes each for a vector and 8 for scores: a
vector of 1,536 takes 8.6 KB so, and as JSON numbers 31 KB and thirty times as long to read.
"""

import base64
import binascii
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator

from freshstack_dspy.errors import StoreError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.lm.embedding.asks import EmbeddingAsk, NumbersAsk, RerankAsk
from freshstack_dspy.lm.reply import MOST_DOLLARS, MOST_TOKENS
from freshstack_dspy.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
