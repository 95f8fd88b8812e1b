"""An amount of calls, tokens and money."""

from typing import Self

from pydantic import Field

from freshstack_dspy.records import Record


class Spent(Record):
    """What was, or at worst would be, spent."""

    calls: int = Field(default=0, ge=0, le=2**64)
    tokens: int = Field(default=0, ge=0, le=2**64)
    """Input and output."""
    dollars: float = Field(default=0.0, ge=0, allow_inf_nan=False)

    def __add__(self, other: "Spent") -> Self:
        return self.model_copy(
            update={
                "calls": self.calls + other.calls,
                "tokens": self.tokens + other.tokens,
                "dollars": self.dollars + other.dollars,
            }
        )
