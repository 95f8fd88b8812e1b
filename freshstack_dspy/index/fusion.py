"""Fusion: the rankings of several retrievers for one text become one.

Of each ranking only the best `depth` chunks count. With n for a chunk's min-max normalised score
in a ranking and r for its rank there from 1, the methods are:

- `normalised_sum`: the sum of n (FreshStack §3.4; CombSUM of Fox & Shaw, TREC-2, 1993).
- `weighted`: the sum of w × n, with a weight w for each retriever.
- `rrf`: the sum of 1 / (60 + r) (Cormack, Clarke & Büttcher, SIGIR 2009).
"""

import math
from collections.abc import Callable, Mapping, Sequence

from freshstack_dspy.config import FusionConfig
from freshstack_dspy.errors import IndexingError
from freshstack_dspy.records import ScoredChunk, ranked

PAPER_FUSION = FusionConfig(method="normalised_sum")
"""FreshStack's, and the default."""
_RRF_K = 60
_DECIMALS = 12
"""Sums are rounded, for the same terms added in another order differ near the 16th digit."""


def fuse(
    rankings: Mapping[str, Sequence[ScoredChunk]], depth: int, fusion: FusionConfig
) -> list[ScoredChunk]:
    """Fuse the rankings of one text, each cut to its best `depth` chunks.

    Scores are normalised by `(score - lowest) / (highest - lowest)` over the chunks that count;
    where all scores are equal each chunk gets 1. A chunk that a ranking lacks gets 0 from it.
    Weights are taken relative to the largest of them, and a ranking of weight 0 is left out.
    """
    best = {name: ranked(dict(ranking), depth) for name, ranking in rankings.items()}
    if fusion.method == "rrf":
        terms = [
            (chunk_id, 1 / (_RRF_K + rank))
            for ranking in best.values()
            for rank, (chunk_id, _) in enumerate(ranking, 1)
        ]
    else:
        weights = _weights(best, fusion)
        terms = [
            (chunk_id, weights[name] * value)
            for name, ranking in best.items()
            if weights[name]
            for chunk_id, value in _normalised(ranking)
        ]
    by_chunk: dict[str, list[float]] = {}
    for chunk_id, term in terms:
        by_chunk.setdefault(chunk_id, []).append(term)
    scores = {chunk_id: round(math.fsum(parts), _DECIMALS) for chunk_id, parts in by_chunk.items()}
    return ranked(scores, depth)


def fuse_texts(
    search: Callable[[Sequence[str]], Sequence[Sequence[ScoredChunk]]],
    searches: Sequence[Sequence[str]],
    depth: int,
    fusion: FusionConfig,
) -> list[Sequence[ScoredChunk]]:
    """Give one ranking for each group of texts: that of its text, or those of its texts fused."""
    rankings = iter(search([text for texts in searches for text in texts]))
    fused: list[Sequence[ScoredChunk]] = []
    for texts in searches:
        # No retriever has a name with a space, so no weight is meant for one of these.
        by_text = {f"text {number}": next(rankings) for number, _ in enumerate(texts, 1)}
        alone = len(by_text) == 1
        fused.append(by_text["text 1"] if alone else fuse(by_text, depth, fusion))
    return fused


def _weights(names: Mapping[str, object], fusion: FusionConfig) -> dict[str, float]:
    weights = {name: fusion.weights.get(name, 1.0) for name in names}
    heaviest = max(weights.values(), default=1.0)
    if heaviest == 0:
        raise IndexingError(f"{', '.join(names)} all weigh 0 in [fusion.weights]; raise one")
    return {name: weight / heaviest for name, weight in weights.items()}


def _normalised(ranking: Sequence[ScoredChunk]) -> list[tuple[str, float]]:
    if not ranking:
        return []
    lowest, span = ranking[-1].score, ranking[0].score - ranking[-1].score
    return [(chunk_id, (score - lowest) / span if span else 1.0) for chunk_id, score in ranking]
