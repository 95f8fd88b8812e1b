"""Near-duplicates: which questions ask nearly the same, by the terms that they share."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from freshstack_dspy.likeness import jaccard
from freshstack_dspy.terms import terms

_ROUNDING = 1e-9
"""A product of floats may end just above a whole number; to look at more loses nothing."""


def near_duplicates(texts: Mapping[str, str], similarity: float) -> dict[str, tuple[str, ...]]:
    """Find the texts whose terms are alike.

    Args:
        texts: By id.
        similarity: From which Jaccard similarity of their sets of terms on two are alike,
            above 0.

    Returns:
        For each id the others that are alike, ascending; an id without any is left out.

    Source:
        The pairs are found by prefix, size and position (C. Xiao, W. Wang, X. Lin and J. X. Yu,
        Efficient Similarity Joins for Near Duplicate Detection, WWW 2008): with all terms in one
        order, from the rarest on, two sets of a similarity of at least t share one of the first
        n - ceil(t n) + 1 terms of each, where n is its size.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for one, other in _alike(
        {id_: frozenset(terms(text)) for id_, text in texts.items()}, similarity
    ):
        found[one].add(other)
        found[other].add(one)
    return {id_: tuple(sorted(found[id_])) for id_ in sorted(found)}


def clusters(ids: Sequence[str], alike: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """Group ids that are alike, or alike to one that is, at whatever remove.

    Args:
        ids: All of them.
        alike: As `near_duplicates` gives it.

    Returns:
        Every id once; each group in the order given, and the groups by their first ids.
    """
    place = {id_: number for number, id_ in enumerate(ids)}
    seen: set[str] = set()
    groups = []
    for first in ids:
        if first in seen:
            continue
        group, waiting = {first}, [first]
        while waiting:
            new = {id_ for id_ in alike.get(waiting.pop(), ()) if id_ in place} - group
            group |= new
            waiting += new
        seen |= group
        groups.append(tuple(sorted(group, key=place.__getitem__)))
    return groups


class _Place(NamedTuple):
    """Where a term stands in a set that is sorted from the rarest term on."""

    id_: str
    position: int


def _alike(sets: Mapping[str, frozenset[str]], similarity: float) -> Iterator[tuple[str, str]]:
    """Give every pair that is alike once; each set is held against those that are no larger."""
    texts_with = Counter(term for held in sets.values() for term in held)
    places: dict[str, list[_Place]] = defaultdict(list)
    for id_ in sorted(sets, key=lambda id_: (len(sets[id_]), id_)):
        held = sets[id_]
        rarest = sorted(held, key=lambda term: (texts_with[term], term))
        met = set()
        for position, term in enumerate(_prefix(rarest, similarity)):
            for other, other_position in places[term]:
                if other in met:
                    continue
                met.add(other)
                # What both hold stands behind the first term that they share, in either.
                smaller = sets[other]
                most = min(len(held) - position, len(smaller) - other_position)
                needed = similarity / (1 + similarity) * (len(held) + len(smaller))
                if most >= needed - _ROUNDING and jaccard(held, smaller) >= similarity:
                    yield other, id_
        # A set that is no larger than the other shares a larger part of its terms with it.
        for position, term in enumerate(_prefix(rarest, 2 * similarity / (1 + similarity))):
            places[term].append(_Place(id_, position))


def _prefix(rarest: Sequence[str], share: float) -> Sequence[str]:
    """The terms of which one is shared where at least this share of all is."""
    return rarest[: len(rarest) - math.ceil(share * len(rarest) - _ROUNDING) + 1]
