"""How far the votes of one judge agree with each other."""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean

from freshstack_dspy.measures.estimate import Estimate


def vote_agreement(votes: Iterable[Sequence[int]]) -> Estimate:
    """Compute self-agreement: the share of pairs of votes on one item that give the same label.

    With `n` votes on an item, of which `c(l)` give the label `l`:

        P = sum over l of c(l) * (c(l) - 1) / (n * (n - 1))

    and the mean of `P` over all items, each weighing the same. It is the observed agreement of
    Fleiss' kappa (Fleiss, Measuring nominal scale agreement among many raters, 1971, formula 2),
    with no chance taken off: a judge that says no to everything agrees with itself fully.

    Args:
        votes: The labels of each item, at least two for an item to count.

    Returns:
        A share from 0 to 1; undefined where no item has two labels.
    """
    shares = [_share(labels) for labels in votes if len(labels) > 1]
    if not shares:
        return Estimate(reason="nothing was judged twice")
    return Estimate(value=fmean(shares))


def _share(labels: Sequence[int]) -> float:
    agreeing = sum(count * (count - 1) for count in Counter(labels).values())
    return agreeing / (len(labels) * (len(labels) - 1))
