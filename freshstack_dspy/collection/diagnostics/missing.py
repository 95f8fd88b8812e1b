"""Estimated missing support: signs that relevant chunks lie below the pool."""

from collections import Counter

from freshstack_dspy.collection.diagnostics.pooled import Pooled, best_rank
from freshstack_dspy.measures.estimate import Estimate
from freshstack_dspy.records import Record


class RankRate(Record):
    """How many of the chunks that were pooled at a rank are relevant."""

    rank: int
    """The best rank that a technique's fused list gives them."""
    chunks: int
    relevant: int
    rate: float


class MissingSupport(Record):
    """What the bottom of the pool, and the overlap of the techniques, say of what is below it."""

    top_k: int
    relevant: int
    """Pooled chunks that are relevant: S, as found."""
    bottom_from: int
    """The first rank of the last quarter of the pool."""
    bottom_chunks: int
    """Chunks whose best rank is in the last quarter."""
    bottom_relevant: int
    """Relevant chunks among them: a pool that ends above the quarter lacks them."""
    bottom_nuggets: int
    """Nuggets that only these chunks support."""
    rates: tuple[RankRate, ...]
    """By rank, from 1; a rank that is no chunk's best is left out."""
    by_techniques: dict[int, int]
    """How many relevant chunks were pooled by exactly 1, 2, … techniques: f1, f2, …"""
    chao1: Estimate
    """S + f1² / 2 f2: how many relevant chunks there are at least (Chao 1984)."""
    chao1_corrected: Estimate
    """S + f1 (f1 - 1) / 2 (f2 + 1): the bias-corrected form, defined where f2 is 0 too."""


def missing_support(pool: Pooled) -> MissingSupport:
    """Estimate how much support the pool has missed.

    Chao's estimate takes the techniques for independent samples of the relevant chunks: many
    that a single technique found mean that many were found by none. Techniques are not
    independent: they share the retrievers, and nuggets come from the answer. So they overlap
    more than by chance, and the estimate is a lower bound of what could be reached at this
    depth; what no technique comes near is beyond any such estimate.

    Source: Chao, Nonparametric estimation of the number of classes in a population,
    Scandinavian Journal of Statistics 11, 1984; the bias-corrected form as in Chao, Estimating
    the population size for capture-recapture data with unequal catchability, Biometrics 43, 1987.
    """
    relevant = pool.relevant
    ranks = {pair: best_rank(candidate) for pair, candidate in pool.candidates.items()}
    bottom_from = 3 * pool.top_k // 4 + 1
    above: set[str] = set()
    below: set[str] = set()
    for pair, nuggets in pool.support.items():
        at_bottom = pair in ranks and ranks[pair] >= bottom_from
        (below if at_bottom else above).update(nuggets)
    counts = Counter(
        len({by.technique for by in candidate.pooled_by}) for candidate in relevant.values()
    )
    techniques = len(pool.techniques)
    by_techniques = {number: counts[number] for number in range(1, techniques + 1)}
    return MissingSupport(
        top_k=pool.top_k,
        relevant=len(relevant),
        bottom_from=bottom_from,
        bottom_chunks=sum(rank >= bottom_from for rank in ranks.values()),
        bottom_relevant=sum(ranks[pair] >= bottom_from for pair in relevant),
        bottom_nuggets=len(below - above),
        rates=_rates(Counter(ranks.values()), Counter(ranks[pair] for pair in relevant)),
        by_techniques=by_techniques,
        chao1=_chao1(by_techniques),
        chao1_corrected=_chao1_corrected(by_techniques),
    )


def _rates(chunks: Counter[int], relevant: Counter[int]) -> tuple[RankRate, ...]:
    return tuple(
        RankRate(
            rank=rank,
            chunks=chunks[rank],
            relevant=relevant[rank],
            rate=relevant[rank] / chunks[rank],
        )
        for rank in sorted(chunks)
    )


_ONE = Estimate(reason="one technique alone overlaps with none")


def _chao1(by_techniques: dict[int, int]) -> Estimate:
    if len(by_techniques) < 2:
        return _ONE
    once, twice = by_techniques[1], by_techniques[2]
    if not twice:
        return Estimate(reason="no relevant chunk was pooled by exactly two techniques")
    return Estimate(value=sum(by_techniques.values()) + once**2 / (2 * twice))


def _chao1_corrected(by_techniques: dict[int, int]) -> Estimate:
    if len(by_techniques) < 2:
        return _ONE
    once, twice = by_techniques[1], by_techniques[2]
    return Estimate(value=sum(by_techniques.values()) + once * (once - 1) / (2 * (twice + 1)))
