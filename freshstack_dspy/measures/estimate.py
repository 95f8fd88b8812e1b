"""A figure that may be undefined, and then says why."""

from typing import Self

from pydantic import model_validator

from freshstack_dspy.records import Record


class Estimate(Record):
    """A figure, or the reason why there is none; never both, never neither."""

    value: float | None = None
    reason: str | None = None

    @model_validator(mode="after")
    def _value_or_reason(self) -> Self:
        if (self.value is None) == (self.reason is None):
            raise ValueError("an estimate has a value or the reason why there is none")
        return self
