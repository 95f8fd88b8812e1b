"""Fusion: the rankings of several retrievers for one text become one.

Of each ranking only the best `depth` chunks count: it is sorted first (score descending, then id)
and cut after. With n for a chunk's min-max normalised score in a ranking, r for its rank there
from 1, and m for the number of rankings that hold it, the methods are:

- `normalised_sum`: the sum of n (FreshStack §3.4; the CombSUM of Fox & Shaw, TREC-2, 1993).
- `weighted`: the sum of w × n, with a weight w for each retriever.
- `comb_mnz`: m × the sum of n (Fox & Shaw, TREC-2, 1993).
- `z_score`: the sum of (score - mean) / standard deviation (ZMUV in Montague & Aslam, CIKM 2001).
- `rrf`: the sum of 1 / (60 + r) (Cormack, Clarke & Büttcher, SIGIR 2009).
- `isr`: m × the sum of 1 / r² (Mourão, Martins & Magalhães, Computerized Medical Imaging and
  Graphics 39, 2015).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from freshstack_dspy.config import FusionConfig
from freshstack_dspy.errors import IndexingError
from freshstack_dspy.records import ScoredChunk, ranked

# Two ways to add the same terms differ near the 16th digit, and so would the order of what is
# equal. Nine decimals are far above that noise and below every difference that means something.
# Ranks need no rounding: they are whole numbers, and are added as such.
_DECIMALS = 9
_RRF_K = 60
_LARGEST = 1e300
"""Of a score, so that the difference of any two is finite."""

PAPER_FUSION = FusionConfig(method="normalised_sum")
"""FreshStack's, and the default."""

_Best = Mapping[str, Sequence[ScoredChunk]]
_Term = TypeVar("_Term", int, float)


def fuse(
    rankings: Mapping[str, Sequence[ScoredChunk]], depth: int, fusion: FusionConfig
) -> list[ScoredChunk]:
    """Fuse the rankings of one text.

    Scores are normalised by `(score - lowest) / (highest - lowest)` over the chunks that count;
    where they are all equal, as the one of a single chunk is, each chunk gets 1.
    A chunk that a ranking lacks gets 0 from it. Z-scores go below 0, so there it gets what the
    ranking's last chunk gets; where all scores are equal, the chunks get 0 and those lacking -1.
    An empty ranking changes nothing.

    Args:
        rankings: By retriever, in any order, each sorted or not; they may be empty.
        depth: How many chunks count of each ranking, and how many are given at most.
        fusion: The method. The weights of `weighted` are taken relative to the largest of them,
            and a ranking of weight 0 is left out.

    Returns:
        Chunks by score descending, then by id.

    Raises:
        IndexingError: A chunk stands twice in a ranking, its score is not finite or is beyond
            1e300, or every ranking weighs 0.
    """
    best = {name: _best(name, ranking, depth) for name, ranking in rankings.items()}
    match fusion.method:
        case "normalised_sum":
            scores = _combined(best, times_rankings=False)
        case "comb_mnz":
            scores = _combined(best, times_rankings=True)
        case "weighted":
            scores = _weighted(best, fusion.weights)
        case "z_score":
            scores = _z_scores(best)
        case "rrf":
            scores = _reciprocal_ranks(best)
        case "isr":
            scores = _inverse_square_ranks(best)
    return ranked(scores, depth)


def _best(name: str, ranking: Sequence[ScoredChunk], depth: int) -> list[ScoredChunk]:
    scores: dict[str, float] = {}
    for chunk_id, score in ranking:
        if chunk_id in scores:
            raise IndexingError(f"the ranking of {name} holds chunk {chunk_id!r} twice")
        if not abs(score) <= _LARGEST:  # nor NaN
            raise IndexingError(
                f"the ranking of {name} scores chunk {chunk_id!r} {score!r}: not finite, or "
                f"beyond {_LARGEST:g}"
            )
        scores[chunk_id] = score
    return ranked(scores, depth)


def _combined(best: _Best, *, times_rankings: bool) -> dict[str, float]:
    terms = _by_chunk(_normalised(ranking) for ranking in best.values())
    return {
        chunk_id: _rounded(of_chunk, len(of_chunk) if times_rankings else 1)
        for chunk_id, of_chunk in terms.items()
    }


def _weighted(best: _Best, weights: Mapping[str, float]) -> dict[str, float]:
    of = {name: weights.get(name, 1.0) for name in best}
    heaviest = max(of.values(), default=1.0)
    if heaviest == 0:
        raise IndexingError(f"{', '.join(best)} all weigh 0 in [fusion.weights]; raise one")
    terms = _by_chunk(
        [(chunk_id, of[name] / heaviest * term) for chunk_id, term in _normalised(ranking)]
        for name, ranking in best.items()
        if of[name]
    )
    return {chunk_id: _rounded(of_chunk) for chunk_id, of_chunk in terms.items()}


def _z_scores(best: _Best) -> dict[str, float]:
    standardised = [dict(_standardised(ranking)) for ranking in best.values() if ranking]
    # What a chunk gets that the ranking lacks. Scores that are all equal have no spread.
    lacking = [min(of.values()) if any(of.values()) else -1.0 for of in standardised]
    return {
        chunk_id: _rounded(
            [of.get(chunk_id, none) for of, none in zip(standardised, lacking, strict=True)]
        )
        for chunk_id in sorted({chunk_id for of in standardised for chunk_id in of})
    }


def _reciprocal_ranks(best: _Best) -> dict[str, float]:
    terms = _by_chunk(
        [(entry.chunk_id, _RRF_K + rank) for rank, entry in enumerate(ranking, 1)]
        for ranking in best.values()
    )
    return {chunk_id: _reciprocals(of_chunk) for chunk_id, of_chunk in terms.items()}


def _inverse_square_ranks(best: _Best) -> dict[str, float]:
    terms = _by_chunk(
        [(entry.chunk_id, rank**2) for rank, entry in enumerate(ranking, 1)]
        for ranking in best.values()
    )
    return {chunk_id: _reciprocals(of_chunk, len(of_chunk)) for chunk_id, of_chunk in terms.items()}


def _by_chunk(rankings: Iterable[Iterable[tuple[str, _Term]]]) -> dict[str, list[_Term]]:
    terms: dict[str, list[_Term]] = {}
    for ranking in rankings:
        for chunk_id, term in ranking:
            terms.setdefault(chunk_id, []).append(term)
    return terms


def _normalised(ranking: Sequence[ScoredChunk]) -> list[tuple[str, float]]:
    if not ranking:
        return []
    highest, lowest = ranking[0].score, ranking[-1].score
    if highest == lowest:
        return [(chunk_id, 1.0) for chunk_id, _ in ranking]
    span = highest - lowest
    return [(chunk_id, (score - lowest) / span) for chunk_id, score in ranking]


def _standardised(ranking: Sequence[ScoredChunk]) -> list[tuple[str, float]]:
    """Z-scores: of the normalised scores, which have the same ones and squares that are finite."""
    terms = _normalised(ranking)
    mean = math.fsum(term for _, term in terms) / len(terms)
    deviation = math.sqrt(math.fsum((term - mean) ** 2 for _, term in terms) / len(terms))
    return [(chunk_id, (term - mean) / (deviation or 1.0)) for chunk_id, term in terms]


def _reciprocals(numbers: Sequence[int], times: int = 1) -> float:
    """Sum 1 / number exactly: over the numbers' product, in whole numbers."""
    product = math.prod(numbers)
    return times * sum(product // number for number in numbers) / product


def _rounded(terms: Sequence[float], times: int = 1) -> float:
    return round(times * math.fsum(terms), _DECIMALS) + 0.0  # never -0.0
