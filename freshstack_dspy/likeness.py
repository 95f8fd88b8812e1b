"""How alike two texts are, by the terms that they share."""

from collections.abc import Set as AbstractSet


def jaccard(a: AbstractSet[str], b: AbstractSet[str]) -> float:
    """The share of the terms of either set that both hold: |a ∩ b| / |a ∪ b|, in [0, 1].

    Args:
        a: The different terms of a text: `set(freshstack_dspy.terms.terms(text))`.
        b: Those of the other.

    Returns:
        1 for the same terms, 0 where none is shared; also 0 where one or both have none, for then
        nothing says that they are alike.

    Source:
        P. Jaccard, Étude comparative de la distribution florale, 1901.
    """
    shared = len(a & b)
    return shared / (len(a) + len(b) - shared) if shared else 0.0
