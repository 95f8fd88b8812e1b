"""Gains where a nugget that is told again is worth less: of a ranking, and of the ideal one.

alpha-nDCG, ERR-IA and NRBP are made of these gains and differ in how they discount a rank.
"""

import math
from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

from freshstack_dspy.measures.judged import Judged, NuggetSet


class RankGain(NamedTuple):
    """What the chunk at a rank, from 1, adds."""

    rank: int
    gain: float


def ranking_gains(ranking: Sequence[str], judged: Judged, alpha: float) -> list[RankGain]:
    """Give what each chunk of a ranking adds, best first; those that support nothing are left out.

    The gain of a chunk is the sum of (1 - alpha)^(times told above) over the nuggets it supports.

    Source: Clarke et al., Novelty and Diversity in Information Retrieval Evaluation, SIGIR 2008;
    Ju et al., CRUX, arXiv 2506.20051, equation 4.

    Raises:
        ValueError: alpha is outside 0 to 1.
    """
    worth = _Worth(judged.nuggets, alpha)
    return [
        RankGain(rank, worth.take(told))
        for rank, told in enumerate(map(judged.supported.get, ranking), start=1)
        if told
    ]


def ideal_gains(judged: Judged, alpha: float, k: int | None) -> list[RankGain]:
    """Give the gains of the greedy ideal ranking, to depth k or of all chunks that support any.

    Each step takes the chunk that adds most, of equals the one with the largest id, as `ndeval`
    does. The best ranking is NP-hard to find, and can be a little better.

    Source: Clarke et al., SIGIR 2008, on computing the ideal gain; the ties: `ndeval` 4.5.

    Raises:
        ValueError: alpha is outside 0 to 1.
    """
    worth = _Worth(judged.nuggets, alpha)
    depth = len(judged.supported) if k is None else min(k, len(judged.supported))
    # One chunk of each kind waits. What it adds only ever falls, so what was worked out before is
    # at least that, and the first whose figure is still right is the best.
    waiting = [(-worth.of(told), places[0], told, 0) for told, places in judged.kinds.items()]
    heapify(waiting)
    gains = []
    for rank in range(1, depth + 1):
        before, place, told, taken = waiting[0]
        while before != (now := -worth.of(told)):
            heapreplace(waiting, (now, place, told, taken))
            before, place, told, taken = waiting[0]
        gains.append(RankGain(rank, -before))
        worth.lower(told)
        places = judged.kinds[told]
        if taken + 1 < len(places):
            heapreplace(waiting, (-worth.of(told), places[taken + 1], told, taken + 1))
        else:
            heappop(waiting)
    return gains


class _Worth:
    """What each nugget of a query is still worth: 1, and 1 - alpha times that each time told."""

    def __init__(self, nuggets: int, alpha: float) -> None:
        if not 0 <= alpha <= 1:
            raise ValueError(f"alpha is between 0 and 1, not {alpha!r}")
        self._left = [1.0] * nuggets
        self._kept = 1 - alpha

    def of(self, told: NuggetSet) -> float:
        """Add up what these nuggets are worth, exactly, so that their order is of no account."""
        left = self._left
        if len(told) == 1:
            return left[told[0]]
        if len(told) == 2:
            return left[told[0]] + left[told[1]]
        return math.fsum([left[place] for place in told])

    def lower(self, told: NuggetSet) -> None:
        """Make each of these nuggets worth less."""
        for place in told:
            self._left[place] *= self._kept

    def take(self, told: NuggetSet) -> float:
        """Give what these nuggets are worth, and lower it for the next."""
        gain = self.of(told)
        self.lower(told)
        return gain
