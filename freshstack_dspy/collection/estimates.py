"""What was estimated of a build before its first request, and how far off it was."""

from collections.abc import Mapping

from pydantic import Field

from freshstack_dspy.lm.spending.ledger import StepLedger
from freshstack_dspy.records import Record


class StepEstimate(Record):
    """What one step was expected to ask for, whatever was recorded."""

    requests: int = Field(ge=0)
    """Re-asks left out."""
    input_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)
    cost: float | None = None
    """US dollars; None where the model's price is not known."""


class EstimateError(Record):
    """What was estimated of one step, and what it took, recorded replies included."""

    step: str
    requests: int
    made: int
    tokens: int
    """Input and output, estimated."""
    used: int
    """Input and output, as the provider counted them; 0 where it did not."""
    cost: float | None
    paid: float

    @property
    def requests_off(self) -> float | None:
        """By which share of the requests the estimate was too high; below 0 too low."""
        return self.requests / self.made - 1 if self.made else None

    @property
    def tokens_off(self) -> float | None:
        """By which share of the tokens the estimate was too high; below 0 too low."""
        return self.tokens / self.used - 1 if self.used else None


def estimate_errors(
    estimates: Mapping[str, StepEstimate], ledger: Mapping[str, StepLedger]
) -> list[EstimateError]:
    """Compare an estimate with the ledger, for every step that is in both."""
    return [
        EstimateError(
            step=name,
            requests=expected.requests,
            made=ledger[name].calls + ledger[name].cached,
            tokens=expected.input_tokens + expected.output_tokens,
            used=ledger[name].tokens + ledger[name].cached_tokens,
            cost=expected.cost,
            paid=ledger[name].cost + ledger[name].cached_cost,
        )
        for name, expected in estimates.items()
        if name in ledger
    ]
