"""How well a judge agrees with people, people with each other, and a judge with itself.

Every function gives a value or the reason why it is undefined. A pair is the label of the judge and
that of the person for one item; an item without one of them is no 0: leave it out.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import Literal

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.statistics import Estimate
from freshstack_dspy.records import Record

LabelPair = tuple[int, int]
"""The label of the judge and that of the person for one item."""
Weights = Literal["linear", "quadratic"]
"""How much worse a larger difference is: by its size, or by the square of it."""
Level = Literal["nominal", "ordinal", "interval"]
"""What labels are: names; ranks; numbers whose differences mean something."""
Ratings = Iterable[Sequence[int | None]]
"""The labels of each item, in any order within an item."""

_NO_PAIRS = Estimate(reason="there are no pairs of labels")


# A judge and a person


class Confusion(Record):
    """How often each pair of labels occurs."""

    labels: tuple[int, ...]
    """Those that occur, ascending: the names of the rows and columns."""
    counts: tuple[tuple[int, ...], ...]
    """A row is a label of the judge, a column one of the person."""


class ClassAgreement(Record):
    """How the judge does on one label."""

    label: int
    by_judge: int
    """How many items the judge gave it."""
    by_person: int
    precision: Estimate
    recall: Estimate


def exact_match(pairs: Sequence[LabelPair]) -> Estimate:
    """Compute the share of items on which both labels are the same."""
    if not pairs:
        return _NO_PAIRS
    return Estimate(value=sum(judge == person for judge, person in pairs) / len(pairs))


def cohen_kappa(pairs: Sequence[LabelPair]) -> Estimate:
    """Compute Cohen's kappa: agreement beyond what the raters' label shares give by chance.

    Undefined where both raters gave one and the same label to all, as chance alone then gives full
    agreement. Where only one of them did so, it is 0 by its formula.

    Source: Cohen, A Coefficient of Agreement for Nominal Scales, 1960.
    """
    return _kappa(pairs, lambda one, other: int(one != other))


def weighted_kappa(pairs: Sequence[LabelPair], weights: Weights) -> Estimate:
    """Compute Cohen's weighted kappa, for which 3 against 2 is a smaller error than 3 against 0.

        kappa = 1 - n * sum of d(a, b) over all pairs
                    / sum over labels i, j of d(i, j) * judge(i) * person(j)

    where n is the number of pairs, judge(i) and person(j) how often each gave the label, and
    d(a, b) is |a - b| (linear) or (a - b)² (quadratic) of the labels themselves. Undefined where
    `cohen_kappa` is.

    Source: Cohen, Weighted Kappa, 1968, formula 4.
    """
    power = {"linear": 1, "quadratic": 2}[weights]
    return _kappa(pairs, lambda one, other: abs(one - other) ** power)


def _kappa(pairs: Sequence[LabelPair], distance: Callable[[int, int], int]) -> Estimate:
    if not pairs:
        return _NO_PAIRS
    by_judge = Counter(judge for judge, _ in pairs)
    by_person = Counter(person for _, person in pairs)
    if by_judge.keys() == by_person.keys() == {pairs[0][0]}:
        return Estimate(reason=f"both raters gave the label {pairs[0][0]} to every item")
    # Whole numbers until the last division, so that chance agreement is exactly 0.
    found = sum(distance(judge, person) for judge, person in pairs) * len(pairs)
    chance = sum(
        distance(one, other) * count * times
        for one, count in by_judge.items()
        for other, times in by_person.items()
    )
    return Estimate(value=(chance - found) / chance)


def binarised_kappa(pairs: Sequence[LabelPair], threshold: int) -> Estimate:
    """Compute Cohen's kappa of labels made two: 1 from the threshold on, 0 below it.

    Source: Upadhyay et al., UMBRELA, 2024, section 4, with `threshold=2`.
    """
    return cohen_kappa(
        [(int(judge >= threshold), int(person >= threshold)) for judge, person in pairs]
    )


def class_precision(pairs: Sequence[LabelPair], label: int) -> Estimate:
    """Compute the share of the judge's items of a label that the person gave the same label."""
    return _class_share([person for judge, person in pairs if judge == label], label, "judge")


def class_recall(pairs: Sequence[LabelPair], label: int) -> Estimate:
    """Compute the share of the person's items of a label that the judge gave the same label."""
    return _class_share([judge for judge, person in pairs if person == label], label, "person")


def _class_share(others: list[int], label: int, whose: str) -> Estimate:
    if not others:
        return Estimate(reason=f"the {whose} never gave the label {label}")
    return Estimate(value=others.count(label) / len(others))


def by_class(pairs: Sequence[LabelPair]) -> tuple[ClassAgreement, ...]:
    """Compute precision and recall of the judge for each label that occurs, ascending."""
    by_judge = Counter(judge for judge, _ in pairs)
    by_person = Counter(person for _, person in pairs)
    return tuple(
        ClassAgreement(
            label=label,
            by_judge=by_judge[label],
            by_person=by_person[label],
            precision=class_precision(pairs, label),
            recall=class_recall(pairs, label),
        )
        for label in sorted(by_judge.keys() | by_person.keys())
    )


def confusion(pairs: Sequence[LabelPair]) -> Confusion:
    """Count how often each pair of labels occurs."""
    counts = Counter(pairs)
    labels = tuple(sorted({label for pair in pairs for label in pair}))
    rows = tuple(tuple(counts[judge, person] for person in labels) for judge in labels)
    return Confusion(labels=labels, counts=rows)


def mean_pairwise_kappa(labels: Iterable[tuple[Hashable, str, int]]) -> Estimate:
    """Compute the mean of Cohen's kappa of each two people: no judge can be expected to do better.

    Args:
        labels: (item, annotator, label); an item is any hashable, as (nugget_id, chunk_id).

    Raises:
        CollectionError: An annotator labelled an item twice.
    """
    by_item: defaultdict[Hashable, dict[str, int]] = defaultdict(dict)
    for item, annotator, label in labels:
        if annotator in by_item[item]:
            raise CollectionError(
                f"annotator {annotator!r} labelled item {item!r} twice; remove one of the labels"
            )
        by_item[item][annotator] = label
    by_pair: defaultdict[tuple[str, str], list[LabelPair]] = defaultdict(list)
    for given in by_item.values():
        for first, second in combinations(sorted(given), 2):
            by_pair[first, second].append((given[first], given[second]))
    if not by_pair:
        return Estimate(reason="no item was labelled by two annotators")
    kappas = [cohen_kappa(pairs).value for _, pairs in sorted(by_pair.items())]
    defined = [kappa for kappa in kappas if kappa is not None]
    if not defined:
        return Estimate(reason="no two annotators have a defined kappa: each two gave one label")
    return Estimate(value=fmean(defined))


# Many raters


def vote_agreement(votes: Iterable[Sequence[int]]) -> Estimate:
    """Compute self-agreement: the share of pairs of votes on one item that give the same label.

    With n votes on an item, of which c(l) give the label l, it is the mean over all items with two
    votes or more of

        P = sum over l of c(l) * (c(l) - 1) / (n * (n - 1))

    the observed agreement of Fleiss' kappa (formula 2), with no chance taken off.
    """
    shares = [
        sum(count * (count - 1) for count in Counter(labels).values())
        / (len(labels) * (len(labels) - 1))
        for labels in votes
        if len(labels) > 1
    ]
    return Estimate(value=fmean(shares)) if shares else Estimate(reason="nothing was judged twice")


def fleiss_kappa(items: Ratings) -> Estimate:
    """Compute Fleiss' kappa: agreement of many raters beyond what the shares of labels give.

        kappa = (P - Pe) / (1 - Pe),    Pe = sum over labels of p(l)²

    P is `vote_agreement`, p(l) the mean over items of the share of their labels that are l. Items
    weigh the same, however many raters they have, and one with fewer than two labels is left out.

    Source: Fleiss, Measuring nominal scale agreement among many raters, 1971, formulas 2 to 7. For
    differing numbers of raters as in Gwet, Handbook of Inter-Rater Reliability, 2014, who however
    takes the items with a single label into p.
    """
    shared = _shared(items)
    if (undefined := _undefined(shared)) is not None:
        return undefined
    shares: defaultdict[int, list[float]] = defaultdict(list)
    for labels in shared:
        for label, count in Counter(labels).items():
            shares[label].append(count / len(labels))
    chance = sum((sum(of_label) / len(shared)) ** 2 for _, of_label in sorted(shares.items()))
    agreed = vote_agreement(shared).value or 0.0
    return Estimate(value=(agreed - chance) / (1 - chance))


def krippendorff_alpha(items: Ratings, level: Level = "nominal") -> Estimate:
    """Compute Krippendorff's alpha, for any number of raters, labels missing, and graded labels.

        alpha = 1 - (n - 1) * sum over c < k of o(c, k) * d(c, k)
                    / sum over c < k of n(c) * n(k) * d(c, k)

    o(c, k) is the coincidence of two labels: of each item with m labels, the number of its
    ordered pairs (c, k) divided by m - 1. n(c) is how often a label occurs in items with two or
    more labels, n how many there are in all. The difference d is 1 for names; (c - k)² for
    numbers; for ranks the square of the number of labels between the two, the two ends half.

    Source: Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011, sections C and D.
    """
    shared = _shared(items)
    if (undefined := _undefined(shared)) is not None:
        return undefined
    occurs = Counter(label for labels in shared for label in labels)
    coincidences = _coincidences(shared)
    differences = _differences(occurs, level)
    found = sum(coincidences.get(pair, 0.0) * squared for pair, squared in differences.items())
    chance = sum(occurs[c] * occurs[k] * squared for (c, k), squared in differences.items())
    return Estimate(value=1 - (occurs.total() - 1) * found / chance)


def _shared(items: Ratings) -> list[list[int]]:
    given = ([label for label in labels if label is not None] for labels in items)
    return [labels for labels in given if len(labels) > 1]


def _undefined(shared: Sequence[Sequence[int]]) -> Estimate | None:
    if not shared:
        return Estimate(reason="no item was labelled by two raters")
    occurring = {label for labels in shared for label in labels}
    if len(occurring) == 1:
        return Estimate(reason=f"all raters gave the label {occurring.pop()} to every item")
    return None


def _coincidences(shared: Sequence[Sequence[int]]) -> dict[tuple[int, int], float]:
    """How much of each pair of labels, the lower first, is together in an item."""
    # Items with as many labels are counted in whole numbers, and the few sums added in order.
    by_size: defaultdict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    for labels in shared:
        for (lower, count), (higher, times) in combinations(sorted(Counter(labels).items()), 2):
            by_size[lower, higher][len(labels)] += count * times
    return {
        pair: sum(number / (size - 1) for size, number in sorted(sizes.items()))
        for pair, sizes in by_size.items()
    }


def _differences(occurs: Mapping[int, int], level: Level) -> dict[tuple[int, int], float]:
    """The squared difference of each two labels, the lower first."""
    differences: dict[tuple[int, int], float] = {}
    for lower, higher in combinations(sorted(occurs), 2):
        between = sum(count for label, count in occurs.items() if lower < label < higher)
        ends = between + (occurs[lower] + occurs[higher]) / 2
        by_level = {"nominal": 1, "ordinal": ends**2, "interval": (higher - lower) ** 2}
        differences[lower, higher] = by_level[level]
    return differences
