"""Who found what first: of each technique and retriever, what it found of the relevant chunks."""

from collections import Counter
from fractions import Fraction

from freshstack_dspy.collection.diagnostics.pooled import Pooled
from freshstack_dspy.records import Record, Technique

_Pair = tuple[Technique, str]


class Finder(Record):
    """What one retriever found with one technique's text."""

    technique: Technique
    retriever: str
    found: int
    """Relevant chunks among its first `top_k`."""
    first: float
    """Relevant chunks that no other ranks better, to whatever depth; where several give the same
    best rank, each gets an equal part."""
    alone: int
    """Relevant chunks among its first `top_k` and nobody else's."""


class Finders(Record):
    """Who found the relevant chunks of a pool; `first` adds up to `relevant`."""

    top_k: int
    relevant: int
    """Pooled chunks that support a nugget of their query."""
    by_fusion: int
    """Of these, those among the first `top_k` of no single list: only fusion raised them so far."""
    finders: tuple[Finder, ...]
    """By technique, then retriever."""


def finders(pool: Pooled) -> Finders:
    """Count, for every technique and retriever, the relevant chunks that it found."""
    found: Counter[_Pair] = Counter()
    alone: Counter[_Pair] = Counter()
    first: dict[_Pair, Fraction] = {}
    by_fusion = 0
    relevant = pool.relevant
    for candidate in relevant.values():
        ranks: dict[_Pair, int] = {
            (by.technique, by.retriever): by.rank for by in candidate.found_by
        }
        near_top = [pair for pair, rank in ranks.items() if rank <= pool.top_k]
        best = [pair for pair, rank in ranks.items() if rank == min(ranks.values())]
        found.update(near_top)
        by_fusion += not near_top
        if len(near_top) == 1:
            alone.update(near_top)
        for pair in best:
            first[pair] = first.get(pair, Fraction(0)) + Fraction(1, len(best))
    return Finders(
        top_k=pool.top_k,
        relevant=len(relevant),
        by_fusion=by_fusion,
        finders=tuple(
            Finder(
                technique=technique,
                retriever=retriever,
                found=found[technique, retriever],
                first=float(first.get((technique, retriever), 0)),
                alone=alone[technique, retriever],
            )
            for technique in pool.techniques
            for retriever in pool.retrievers
        ),
    )
