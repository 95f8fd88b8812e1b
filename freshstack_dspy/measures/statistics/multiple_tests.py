"""All tests of a comparison together, whose p-values are adjusted for one another."""

from collections.abc import Sequence

from freshstack_dspy.measures.statistics.comparison_rules import ComparisonRules
from freshstack_dspy.measures.statistics.correction import (
    CorrectionName,
    adjust,
    strictest_level,
)
from freshstack_dspy.measures.statistics.significance import Significance


class MultipleTests:
    """The tests of one family; those without a p-value do not count in it.

    Attributes:
        tests: How many there are.
        alpha: The level that adjusted p-values are held against.
        strictest: The level that the smallest p-value itself is held against.
    """

    def __init__(self, found: Sequence[Significance], rules: ComparisonRules) -> None:
        """Adjust the p-values.

        Args:
            found: What the tests found, in an order that places below refer to.
            rules: How they are adjusted.
        """
        self._found = found
        self._correction: CorrectionName = rules.correction
        self._p_values = {
            place: each.p_value for place, each in enumerate(found) if each.p_value is not None
        }
        adjusted = adjust(list(self._p_values.values()), rules.correction)
        self._adjusted = dict(zip(self._p_values, adjusted, strict=True))
        self.tests = len(self._p_values)
        self.alpha = rules.alpha
        self.strictest = strictest_level(rules.alpha, self.tests, rules.correction)

    def adjusted(self, place: int) -> float | None:
        """Give the adjusted p-value of a test; None where it has none."""
        return self._adjusted.get(place)

    def passes_strictest(self, place: int) -> bool:
        """Whether a test can be found whatever the others show."""
        smallest = self._found[place].smallest
        return smallest is None or smallest <= self.strictest

    def could_be_found(self, place: int) -> bool:
        """Whether the smallest p-value that a test can have would be found, the others given."""
        if self.passes_strictest(place):
            return True
        smallest = {**self._p_values, place: self._found[place].smallest or 0.0}
        adjusted = adjust(list(smallest.values()), self._correction)
        return dict(zip(smallest, adjusted, strict=True))[place] <= self.alpha
