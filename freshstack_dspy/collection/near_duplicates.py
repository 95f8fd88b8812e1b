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
    """Find the texts whose terms are alike.

    Args:
        texts: By id.
        similarity: From which Jaccard similarity of their sets of terms on two are alike,
            above 0.

    Returns:
        For each id the others that are alike, ascending, and of more than 20 the first 20 by id;
        an id without any is left out.

    Source:
        The pairs are found by prefix (C. Xiao, W. Wang, X. Lin and J. X. Yu, Efficient Similarity
        Joins for Near Duplicate Detection, WWW 2008): with all terms in one order, from the rarest
        on, two sets of a similarity of at least t share one of the first n - ceil(t n) + 1 terms
        of each, where n is its size.
    """
    same = _same_terms(texts)
    # One more than is listed: a text is itself among those that are like it.
    first = {ids[0]: ids[: MOST_LISTED + 1] for ids in same.values()}
    found = dict(first)
    for one, other in _alike({ids[0]: held for held, ids in same.items()}, similarity):
        found[one] = _first_of(found[one], first[other])
        found[other] = _first_of(found[other], first[one])
    listed = {
        id_: tuple(other for other in found[ids[0]] if other != id_)[:MOST_LISTED]
        for ids in same.values()
        for id_ in ids
    }
    return {id_: listed[id_] for id_ in sorted(listed) if listed[id_]}


def alike_pairs(texts: Mapping[str, str], similarity: float) -> Iterator[tuple[str, str]]:
    """Give pairs that are alike, enough of them to lead from each text to all of its cluster."""
    same = _same_terms(texts)
    for first, *others in same.values():
        for other in others:
            yield first, other
    yield from _alike({ids[0]: held for held, ids in same.items()}, similarity)


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


def _same_terms(texts: Mapping[str, str]) -> dict[frozenset[str], list[str]]:
    """The ids of the texts of each set of terms, ascending; those without terms are left out."""
    same: dict[frozenset[str], list[str]] = defaultdict(list)
    for id_ in sorted(texts):
        held = frozenset(terms(texts[id_]))
        if held:
            same[held].append(id_)
    return same


def _first_of(ids: list[str], more: list[str]) -> list[str]:
    """The first of two ascending lists of ids."""
    if len(ids) > MOST_LISTED and more[0] > ids[-1]:
        return ids
    return sorted(ids + more)[: MOST_LISTED + 1]


def _alike(sets: Mapping[str, frozenset[str]], similarity: float) -> Iterator[tuple[str, str]]:
    """Give every pair that is alike once; each set is compared with those that are no larger."""
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


def _prefix(rarest: Sequence[str], share: float) -> Sequence[str]:
    """The terms of which one is shared where at least this share of all is."""
    return rarest[: len(rarest) - math.ceil(share * len(rarest) - _ROUNDING) + 1]
