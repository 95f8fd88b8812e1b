"""Measures of one query's ranking: alpha-nDCG, Coverage and Recall.

Each takes the ranking (chunk ids, best first, each once), the labels of the query's nuggets and a
cut-off k of any size, and gives None where the query has no value. A chunk supports a nugget
where its label is 1 or more; a chunk without a label counts as not supporting.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from freshstack_dspy.measures.qrels import SUPPORTING, NuggetLabels

_NuggetSet = tuple[int, ...]
"""The places, among the query's nuggets, of those that a chunk supports."""


def alpha_ndcg(
    ranking: Sequence[str], labels: NuggetLabels, k: int, alpha: float = 0.5
) -> float | None:
    """Compute alpha-nDCG@k, as `ndeval` and `pyndeval` do but for any k.

    The gain of a chunk is the sum of (1 - alpha)^(times covered above) over the nuggets it
    supports, discounted by log2(rank + 1); the ideal ranking is built greedily from the supporting
    chunks, ties going to the largest id. A greedy ranking is not always the best one, so a value
    can be slightly larger than 1.

    Source: Clarke et al., Novelty and Diversity in Information Retrieval Evaluation, SIGIR 2008.

    Args:
        ranking: Chunk ids, best first.
        labels: Nugget id -> chunk id -> label, for the nuggets of the query.
        k: How many chunks are looked at.
        alpha: How much of a nugget's worth each repetition takes away, 0 to 1.

    Returns:
        The value, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1 or alpha outside 0 to 1.
    """
    _check_cutoff(k)
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha is between 0 and 1, not {alpha!r}")
    supported = _supported_nuggets(labels)
    if not supported:
        return None
    worth = _Worth(len(labels), alpha)
    gains = (worth.take(supported.get(chunk, ())) for chunk in ranking[:k])
    ideal = _ideal_gains(supported, k, _Worth(len(labels), alpha))
    return _discounted(gains) / _discounted(ideal)


def coverage(
    ranking: Sequence[str],
    labels: NuggetLabels,
    k: int,
    denominator: Literal["all", "answerable"] = "all",
) -> float | None:
    """Compute Coverage@k: the share of nuggets that a chunk of the top k supports.

    Args:
        ranking: Chunk ids, best first.
        labels: Nugget id -> chunk id -> label, for the nuggets of the query.
        k: How many chunks are looked at.
        denominator: `all` nuggets of the query (FreshStack), or only the `answerable` ones, which
            some judged chunk supports (CRUX).

    Returns:
        The share, 0 to 1, or None where there is no nugget to cover.

    Raises:
        ValueError: k is below 1 or the denominator unknown.
    """
    _check_cutoff(k)
    if denominator not in ("all", "answerable"):
        raise ValueError(f"denominator is 'all' or 'answerable', not {denominator!r}")
    nuggets = list(labels.values())
    if denominator == "answerable":
        nuggets = [nugget for nugget in nuggets if max(nugget.values(), default=0) >= SUPPORTING]
    if not nuggets:
        return None
    top = ranking[:k]
    covered = sum(any(nugget.get(chunk, 0) >= SUPPORTING for chunk in top) for nugget in nuggets)
    return covered / len(nuggets)


def recall(ranking: Sequence[str], labels: NuggetLabels, k: int) -> float | None:
    """Compute Recall@k: the share of the chunks that support any nugget found in the top k.

    Args:
        ranking: Chunk ids, best first.
        labels: Nugget id -> chunk id -> label, for the nuggets of the query.
        k: How many chunks are looked at.

    Returns:
        The share, 0 to 1, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1.
    """
    _check_cutoff(k)
    relevant = {
        chunk
        for nugget in labels.values()
        for chunk, label in nugget.items()
        if label >= SUPPORTING
    }
    if not relevant:
        return None
    return len(relevant.intersection(ranking[:k])) / len(relevant)


class _Worth:
    """What each nugget of a query is still worth: 1, and 1 - alpha times that after each cover."""

    def __init__(self, nuggets: int, alpha: float) -> None:
        self._left = [1.0] * nuggets
        self._kept = 1 - alpha

    def of(self, covered: _NuggetSet) -> float:
        """Add up what these nuggets are worth, exactly, so that their order is of no account."""
        return math.fsum(self._left[place] for place in covered)

    def take(self, covered: _NuggetSet) -> float:
        """Give what these nuggets are worth, and lower it for the next."""
        gain = self.of(covered)
        for place in covered:
            self._left[place] *= self._kept
        return gain


def _supported_nuggets(labels: NuggetLabels) -> dict[str, _NuggetSet]:
    """Turn the labels around: each supporting chunk with the places of its nuggets."""
    supported: dict[str, list[int]] = {}
    for place, nugget in enumerate(labels.values()):
        for chunk, label in nugget.items():
            if label >= SUPPORTING:
                supported.setdefault(chunk, []).append(place)
    return {chunk: tuple(places) for chunk, places in supported.items()}


def _ideal_gains(supported: Mapping[str, _NuggetSet], k: int, worth: _Worth) -> Iterator[float]:
    """Give the gains of the greedy ideal ranking, best first.

    Chunks that support the same nuggets gain the same, so one of each kind is compared.
    """
    waiting: dict[_NuggetSet, list[str]] = {}
    for chunk, covered in sorted(supported.items()):
        waiting.setdefault(covered, []).append(chunk)
    for _ in range(min(k, len(supported))):
        best = max(waiting, key=lambda covered: (worth.of(covered), waiting[covered][-1]))
        waiting[best].pop()
        if not waiting[best]:
            del waiting[best]
        yield worth.take(best)


def _discounted(gains: Iterable[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def _check_cutoff(k: int) -> None:
    if k < 1:
        raise ValueError(f"the cut-off k is at least 1, not {k!r}")
