"""Near-duplicates: which questions ask nearly the same, by the terms that they share."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from freshstack_dspy.text import jaccard, terms

MOST_LISTED = 20
"""Ids for each text; a thousand that say the same would have a thousand lists of all."""
_ROUNDING = 1e-9
"""A product of floats may end just above a whole number; to look at more loses nothing."""


def near_duplicates(texts: Mapping[str, str], similarity: float) -> dict[str, tuple[str, ...]]:
    """Find the texts whose terms are alike; the arguments are those of `alike_pairs`.

    Returns:
        For each id the others that are alike, ascending, and of more than 20 the first 20 by id;
        an id without any is left out.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for one, other in alike_pairs(texts, similarity):
        found[one].append(other)
        found[other].append(one)
    return {id_: tuple(sorted(found[id_])[:MOST_LISTED]) for id_ in sorted(found)}


def alike_pairs(texts: Mapping[str, str], similarity: float) -> Iterator[tuple[str, str]]:
    """Give every pair of texts that are alike, once.

    Args:
        texts: By id; those without terms are like no other.
        similarity: From which Jaccard similarity of their sets of terms on two are alike,
            above 0.

    Source:
        The pairs are found by prefix (C. Xiao, W. Wang, X. Lin and J. X. Yu, Efficient Similarity
        Joins for Near Duplicate Detection, WWW 2008): with all terms in one order, from the rarest
        on, two sets of a similarity of at least t share one of the first n - ceil(t n) + 1 terms
        of each, where n is its size.
    """
    sets = {id_: frozenset(terms(text)) for id_, text in texts.items()}
    texts_with = Counter(term for held in sets.values() for term in held)
    ids_with: dict[str, list[str]] = defaultdict(list)
    for id_ in sorted(sets, key=lambda id_: (len(sets[id_]), id_)):
        held = sets[id_]
        rarest = sorted(held, key=lambda term: (texts_with[term], term))
        met = {other for term in _prefix(rarest, similarity) for other in ids_with[term]}
        for other in sorted(met):
            if jaccard(held, sets[other]) >= similarity:
                yield other, id_
        # A set that is no larger than the other shares a larger part of its terms with it.
        for term in _prefix(rarest, 2 * similarity / (1 + similarity)):
            ids_with[term].append(id_)


def clusters(ids: Sequence[str], alike: Iterable[tuple[str, str]]) -> list[tuple[str, ...]]:
    """Group ids that are alike, or alike to one that is; pairs of other ids are passed over.

    Returns:
        Every id once; each group in the order given, and the groups by their first ids.
    """
    group_of = {id_: [id_] for id_ in ids}
    for one, other in alike:
        if one not in group_of or other not in group_of or group_of[one] is group_of[other]:
            continue
        smaller, larger = sorted((group_of[one], group_of[other]), key=len)
        larger += smaller
        group_of.update(dict.fromkeys(smaller, larger))
    place = {id_: number for number, id_ in enumerate(ids)}
    groups = {id(group): group for group in group_of.values()}
    return [tuple(sorted(group, key=place.__getitem__)) for group in groups.values()]


def _prefix(rarest: Sequence[str], share: float) -> Sequence[str]:
    """The terms of which one is shared where at least this share of all is."""
    return rarest[: len(rarest) - math.ceil(share * len(rarest) - _ROUNDING) + 1]
