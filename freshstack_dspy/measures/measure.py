"""A measure by its name, as `alpha_nDCG@10`: the table of those there are.

To add one, write its function in a file of its own and give it a line in `MEASURES`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from freshstack_dspy.errors import ConfigError
from freshstack_dspy.measures.qrels import NuggetLabels
from freshstack_dspy.measures.retrieval import alpha_ndcg, coverage, recall

MEASURES: dict[str, Callable[[Sequence[str], NuggetLabels, int], float | None]] = {
    "alpha_nDCG": alpha_ndcg,
    "Coverage": coverage,
    "Recall": recall,
}
"""The functions (ranking, labels of the query's nuggets, k) -> value or None, by family."""

_NAME = re.compile(r"([A-Za-z_]+)@([1-9][0-9]{0,8})")


@dataclass(frozen=True)
class Measure:
    """A measure of one query's ranking at a cut-off."""

    family: str
    k: int

    @property
    def name(self) -> str:
        """The name that `parse_measure` reads."""
        return f"{self.family}@{self.k}"

    def __call__(self, ranking: Sequence[str], labels: NuggetLabels) -> float | None:
        """Measure one query; None where it has no value."""
        return MEASURES[self.family](ranking, labels, self.k)


def parse_measure(name: str) -> Measure:
    """Read the name of a measure, as `Coverage@20`.

    Raises:
        ConfigError: There is no such measure; the message lists those there are.
    """
    match = _NAME.fullmatch(name)
    if match is None or match[1] not in MEASURES:
        allowed = ", ".join(f"{family}@k" for family in MEASURES)
        raise ConfigError(
            f"there is no measure {name!r}; there are {allowed}, with k a whole number from 1, "
            "as in Coverage@20"
        )
    return Measure(match[1], int(match[2]))
