"""What `freshstack compare` found: the comparison, and what it was made of."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from freshstack_dspy.cli.judgments import Judgments
    from freshstack_dspy.measures.compare import Comparison
    from freshstack_dspy.measures.evaluation import Evaluation


class Compared(NamedTuple):
    """A comparison, and what it was made of."""

    judgments: "Judgments"
    evaluations: "dict[str, Evaluation]"
    """By the name of the run."""
    comparison: "Comparison"
    contaminated_from: float | None = None
    """The share of known nuggets from which on queries were left out; None: none were."""
    left_out: tuple[str, ...] = ()
    """By query_id: those left out as contaminated."""

    @property
    def queries(self) -> int:
        """How many queries the runs were evaluated on."""
        return len(next(iter(self.evaluations.values())).per_query)
