"""The most telling of several statements: new, informative and unlike each other."""

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

from freshstack_dspy.lm.baseline.rarity import expected_share, information
from freshstack_dspy.terms import terms

KNOWN = 0.25
"""What a term is still worth that the reader already has, as one of the question."""

REPEATS = 0.7
"""The share of its information that makes a statement a repetition of another."""

WORTH_KEEPING = 0.33
"""The least value of a kept statement, as a share of the best one's."""

_MOST = 500


class _Candidate(NamedTuple):
    place: int
    weights: dict[str, float]
    value: float
    repeats: float
    """The largest share of its information that one chosen statement has too."""

    def beside(self, chosen: "_Candidate") -> "_Candidate":
        whole = sum(self.weights.values())
        shared = sum(self.weights[term] for term in self.weights if term in chosen.weights)
        share = shared / whole if whole else 1.0
        return self._replace(repeats=max(self.repeats, share))


def most_telling(
    texts: Sequence[str],
    limit: int,
    *,
    known: Collection[str] = (),
    favoured: Collection[int] = (),
) -> list[int]:
    """Choose statements greedily by what they add, and say where they stand.

    Args:
        texts: The statements, in order. Of very many only the most valuable 500 are compared.
        limit: The largest number of statements to choose, at least 1.
        known: Terms that say little, as those of the question.
        favoured: Places whose statements count half as much again.

    Returns:
        Places in `texts`, ascending; at least one if there is a text.
    """
    known, favoured = frozenset(known), frozenset(favoured)
    candidates = [
        _candidate(place, text, known, 1.5 if place in favoured else 1.0)
        for place, text in enumerate(texts)
    ]
    candidates = sorted(candidates, key=lambda item: (-item.value, item.place))[:_MOST]
    floor = WORTH_KEEPING * candidates[0].value if candidates else 0.0
    chosen: list[int] = []
    while candidates and len(chosen) < limit:
        best = max(candidates, key=lambda item: item.value * (1 - item.repeats))
        if chosen and best.value * (1 - best.repeats) < floor:
            break
        chosen.append(best.place)
        candidates = [item.beside(best) for item in candidates]
        candidates = [item for item in candidates if item.repeats < REPEATS]
    return sorted(chosen)


def _candidate(place: int, text: str, known: frozenset[str], favour: float) -> _Candidate:
    found = terms(text)
    weights = {
        term: information(expected_share(term)) * (KNOWN if term in known else 1.0)
        for term in dict.fromkeys(found)
    }
    value = favour * sum(weights.values()) / math.sqrt(len(found) + 4)
    return _Candidate(place, weights, value, repeats=0.0)
