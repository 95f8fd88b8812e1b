"""Fusion of rankings by the sum of their normalised scores (FreshStack §3.4)."""

import math
from collections.abc import Sequence

from freshstack_dspy.errors import IndexingError
from freshstack_dspy.records import ScoredChunk, ranked

# Two ways to add the same terms differ near the 16th digit, and so would the order of what is
# equal. Nine decimals are far above that noise and below every difference that means something.
_DECIMALS = 9


def fuse_normalised_sum(rankings: Sequence[Sequence[ScoredChunk]], depth: int) -> list[ScoredChunk]:
    """Fuse rankings of the same query.

    The best `depth` chunks of each ranking are normalised by `(score - min) / (max - min)`, where
    the extremes are those of the chunks kept; then each chunk's normalised scores are summed.
    A ranking whose scores are all equal, as that of one chunk is, gives 1 to each of its chunks.
    A chunk that a ranking lacks gets 0 from it.

    Args:
        rankings: One per retriever or text, in any order, each sorted or not; they may be empty.
        depth: How many chunks count of each ranking, and how many are given at most.

    Returns:
        Chunks with scores from 0 to the number of rankings, by score descending, then by id.

    Raises:
        IndexingError: A chunk stands twice in one ranking, or its score is not finite.
    """
    parts: dict[str, list[float]] = {}
    for ranking in rankings:
        for chunk_id, score in _normalised(ranking, depth):
            parts.setdefault(chunk_id, []).append(score)
    sums = {chunk_id: round(math.fsum(scores), _DECIMALS) for chunk_id, scores in parts.items()}
    return ranked(sums, depth)


def _normalised(ranking: Sequence[ScoredChunk], depth: int) -> list[ScoredChunk]:
    scores: dict[str, float] = {}
    for chunk_id, score in ranking:
        if chunk_id in scores:
            raise IndexingError(f"a ranking to fuse holds chunk {chunk_id!r} twice; keep it once")
        if not math.isfinite(score):
            raise IndexingError(
                f"a ranking to fuse scores chunk {chunk_id!r} {score!r}: not finite"
            )
        scores[chunk_id] = score
    best = ranked(scores, depth)
    if not best:
        return []
    highest, lowest = best[0].score, best[-1].score
    if highest == lowest:
        return [ScoredChunk(chunk_id, 1.0) for chunk_id, _ in best]
    span = highest - lowest
    return [ScoredChunk(chunk_id, (score - lowest) / span) for chunk_id, score in best]
