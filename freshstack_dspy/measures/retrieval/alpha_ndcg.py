"""alpha-nDCG: how soon a ranking tells everything, with what it repeats worth less."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from freshstack_dspy.measures.judged import Judged, NuggetSet
from freshstack_dspy.measures.retrieval.cutoff import top


def alpha_ndcg(
    ranking: Sequence[str], judged: Judged, k: int | None = None, *, alpha: float = 0.5
) -> float | None:
    """Compute alpha-nDCG@k, as `ndeval` and `pyndeval` do but for any k.

    The gain of a chunk is the sum of (1 - alpha)^(times covered above) over the nuggets it
    supports, discounted by log2(rank + 1); the ideal ranking is built greedily from the supporting
    chunks, ties going to the largest id. A greedy ranking is not always the best one, so a value
    can be slightly larger than 1.

    Source: Clarke et al., Novelty and Diversity in Information Retrieval Evaluation, SIGIR 2008.

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query.
        k: How many chunks are looked at; None: all.
        alpha: How much of a nugget's worth each repetition takes away, 0 to 1.

    Returns:
        The value, or None where no chunk supports any nugget.

    Raises:
        ValueError: k is below 1 or alpha outside 0 to 1.
    """
    looked_at = top(ranking, k)
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha is between 0 and 1, not {alpha!r}")
    if not judged.supported:
        return None
    worth = _Worth(judged.nuggets, alpha)
    gains = (worth.take(judged.supported.get(chunk, ())) for chunk in looked_at)
    depth = len(judged.supported) if k is None else k
    ideal = _ideal_gains(judged.supported, depth, _Worth(judged.nuggets, alpha))
    return _discounted(gains) / _discounted(ideal)


class _Worth:
    """What each nugget of a query is still worth: 1, and 1 - alpha times that after each cover."""

    def __init__(self, nuggets: int, alpha: float) -> None:
        self._left = [1.0] * nuggets
        self._kept = 1 - alpha

    def of(self, covered: NuggetSet) -> float:
        """Add up what these nuggets are worth, exactly, so that their order is of no account."""
        return math.fsum(self._left[place] for place in covered)

    def take(self, covered: NuggetSet) -> float:
        """Give what these nuggets are worth, and lower it for the next."""
        gain = self.of(covered)
        for place in covered:
            self._left[place] *= self._kept
        return gain


def _ideal_gains(supported: Mapping[str, NuggetSet], depth: int, worth: _Worth) -> Iterator[float]:
    """Give the gains of the greedy ideal ranking, best first.

    Chunks that support the same nuggets gain the same, so one of each kind is compared.
    """
    waiting: dict[NuggetSet, list[str]] = {}
    for chunk, covered in sorted(supported.items()):
        waiting.setdefault(covered, []).append(chunk)
    for _ in range(min(depth, len(supported))):
        best = max(waiting, key=lambda covered: (worth.of(covered), waiting[covered][-1]))
        waiting[best].pop()
        if not waiting[best]:
            del waiting[best]
        yield worth.take(best)


def _discounted(gains: Iterable[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))
