"""The threshold of support, moved by the labels that the prompt demonstrates.

Few-shot optimizers put judged calls into the prompt. Their labels say how strict the user's people
are, so the threshold moves from its default to where it fits them best, as far as they suffice:
it is the maximum a posteriori centre of a logistic curve over the score, under a normal prior
around the default, with both labels weighing the same.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from freshstack_dspy.lm.baseline.entailment import THRESHOLD

SLOPE = 8.0
SPREAD = 0.05
"""Standard deviation of the prior: how far label sets differ in what they call support."""

_REACH = 4 * SPREAD
_HALVINGS = 40


class LabelledScore(NamedTuple):
    """The score of a demonstrated pair and whether it was labelled as supported."""

    score: float
    supported: bool


def threshold(demonstrated: Sequence[LabelledScore]) -> float:
    """From which score on a nugget counts as supported.

    Args:
        demonstrated: The labelled pairs of the prompt; none gives the default.

    Returns:
        The threshold, at most four standard deviations of the prior from the default.
    """
    if not demonstrated:
        return THRESHOLD
    low, high = THRESHOLD - _REACH, THRESHOLD + _REACH
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _pull(demonstrated, middle) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _pull(demonstrated: Sequence[LabelledScore], centre: float) -> float:
    """Derivative of the log posterior: positive where the threshold should be higher."""
    positives = sum(pair.supported for pair in demonstrated)
    weight = {
        True: len(demonstrated) / (2 * max(1, positives)),
        False: len(demonstrated) / (2 * max(1, len(demonstrated) - positives)),
    }
    pull = sum(
        weight[pair.supported]
        * (1 / (1 + math.exp(SLOPE * (centre - pair.score))) - pair.supported)
        for pair in demonstrated
    )
    return SLOPE * pull - (centre - THRESHOLD) / SPREAD**2
