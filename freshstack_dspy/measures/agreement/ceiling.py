"""The human-human ceiling: how well people agree with each other on the items they share.

A judge cannot be expected to agree with people better than they do among themselves.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import combinations
from statistics import fmean
from typing import NamedTuple

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.agreement.nominal import cohen_kappa
from freshstack_dspy.measures.estimate import Estimate
from freshstack_dspy.records import Record


class SharedLabel(NamedTuple):
    """What two annotators, in alphabetical order, said of one item."""

    item: Hashable
    first: str
    second: str
    first_label: int
    second_label: int


class PairKappa(Record):
    """How well two annotators agree on the items they share."""

    first: str
    second: str
    items: int
    kappa: Estimate


def shared_labels(labels: Iterable[tuple[Hashable, str, int]]) -> list[SharedLabel]:
    """Pair up what annotators said of the same item.

    Args:
        labels: (item, annotator, label); an item is any hashable, as (nugget_id, chunk_id).

    Returns:
        One entry for each item and each two annotators of it, items in the order given.

    Raises:
        CollectionError: An annotator labelled an item twice.
    """
    by_item: defaultdict[Hashable, dict[str, int]] = defaultdict(dict)
    for item, annotator, label in labels:
        if annotator in by_item[item]:
            raise CollectionError(
                f"annotator {annotator!r} labelled item {item!r} twice; keep one of the labels"
            )
        by_item[item][annotator] = label
    return [
        SharedLabel(item, first, second, given[first], given[second])
        for item, given in by_item.items()
        for first, second in combinations(sorted(given), 2)
    ]


def pairwise_kappa(shared: Sequence[SharedLabel]) -> tuple[PairKappa, ...]:
    """Compute Cohen's kappa of each two annotators who share items, by their names."""
    by_pair: defaultdict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for entry in shared:
        by_pair[entry.first, entry.second].append((entry.first_label, entry.second_label))
    return tuple(
        PairKappa(first=first, second=second, items=len(pairs), kappa=cohen_kappa(pairs))
        for (first, second), pairs in sorted(by_pair.items())
    )


def mean_pairwise_kappa(shared: Sequence[SharedLabel]) -> Estimate:
    """Compute the ceiling: the plain mean of the pairwise kappas that are defined.

    It takes entries, not labels, so that a bootstrap may hand it an entry more than once.
    """
    if not shared:
        return Estimate(reason="no item was labelled by two annotators")
    kappas = [pair.kappa.value for pair in pairwise_kappa(shared) if pair.kappa.value is not None]
    if not kappas:
        return Estimate(reason="no two annotators have a defined kappa: each two gave one label")
    return Estimate(value=fmean(kappas))
