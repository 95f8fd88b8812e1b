"""How runs are tested against each other."""

from dataclasses import dataclass
from typing import get_args

from freshstack_dspy.measures.statistics.correction import CorrectionName
from freshstack_dspy.measures.statistics.means import check
from freshstack_dspy.measures.statistics.significance import TestName


@dataclass(frozen=True, kw_only=True)
class ComparisonRules:
    """How runs are tested against each other.

    Attributes:
        test: `permutation` (the default: it takes nothing for granted about the values) or `t`.
        correction: For several comparisons, see `adjust`.
        level: Of the intervals; a difference is found where p is at most 1 - level.
        resamples: How many for an interval.
        permutations: How many for a p-value, where not all are looked at.
        seed: Of the random numbers.

    Raises:
        ValueError: One is out of range.
    """

    test: TestName = "permutation"
    correction: CorrectionName = "holm"
    level: float = 0.95
    resamples: int = 10_000
    permutations: int = 100_000
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("test", self.test, get_args(TestName)),
            ("correction", self.correction, get_args(CorrectionName)),
        ):
            if value not in allowed:
                raise ValueError(f"{name} is one of {', '.join(allowed)}, not {value!r}")
        check(self.level, self.resamples)
        if self.permutations < 1:
            raise ValueError(f"permutations is at least 1, not {self.permutations!r}")
        if self.seed < 0:
            raise ValueError(f"seed is at least 0, not {self.seed!r}")

    @property
    def alpha(self) -> float:
        """The level that adjusted p-values are held against."""
        return round(1 - self.level, 12)
