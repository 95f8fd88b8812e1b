"""The human-human ceiling: how well people agree with each other on the items they share.

A judge cannot be expected to agree with people better than they do among themselves.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import Literal, NamedTuple, get_args

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.statistics import Estimate
from freshstack_dspy.records import Record

LabelPair = tuple[int, int]
"""What the judge said of an item, and what the person said of it."""

_NO_PAIRS = Estimate(reason="there are no pairs of labels")


class Confusion(Record):
    """How often each pair of labels occurs.

    Attributes:
        labels: The labels that occur, ascending: the names of the rows and columns.
        counts: Labels x labels; a row is a label of the judge, a column one of the person.
    """

    labels: tuple[int, ...]
    counts: tuple[tuple[int, ...], ...]


class ClassAgreement(Record):
    """How the judge does on one label.

    Attributes:
        label: The label.
        by_judge: How many items the judge gave it.
        by_person: How many items the person gave it.
        precision: The share of the judge's that are the person's too.
        recall: The share of the person's that are the judge's too.
    """

    label: int
    by_judge: int
    by_person: int
    precision: Estimate
    recall: Estimate


def exact_match(pairs: Sequence[LabelPair]) -> Estimate:
    """Compute the share of items on which both labels are the same; undefined without items."""
    if not pairs:
        return _NO_PAIRS
    return Estimate(value=sum(judge == person for judge, person in pairs) / len(pairs))


def cohen_kappa(pairs: Sequence[LabelPair]) -> Estimate:
    """Compute Cohen's kappa: agreement beyond what the raters' label shares give by chance.

    Source: Cohen, A Coefficient of Agreement for Nominal Scales, 1960.

    Args:
        pairs: The two labels of each item; the measure is symmetric.

    Returns:
        Kappa, at most 1. Undefined without items, and where both raters gave one and the same
        label to all, as chance alone then gives full agreement. Where only one of them did so,
        it is 0 by its formula.
    """
    if not pairs:
        return _NO_PAIRS
    # Whole numbers until the last division, so that chance agreement is exactly 0.
    items = len(pairs)
    agreed = sum(judge == person for judge, person in pairs)
    by_judge = Counter(judge for judge, _ in pairs)
    by_person = Counter(person for _, person in pairs)
    chance = sum(count * by_person[label] for label, count in by_judge.items())
    if chance == items**2:
        only = pairs[0][0]
        return Estimate(reason=f"both raters gave the label {only} to every item")
    return Estimate(value=(items * agreed - chance) / (items**2 - chance))


def class_precision(pairs: Sequence[LabelPair], label: int) -> Estimate:
    """Compute the share of the judge's items of a label that the person gave the same label."""
    theirs = [person for judge, person in pairs if judge == label]
    if not theirs:
        return Estimate(reason=f"the judge never gave the label {label}")
    return Estimate(value=theirs.count(label) / len(theirs))


def class_recall(pairs: Sequence[LabelPair], label: int) -> Estimate:
    """Compute the share of the person's items of a label that the judge gave the same label."""
    given = [judge for judge, person in pairs if person == label]
    if not given:
        return Estimate(reason=f"the person never gave the label {label}")
    return Estimate(value=given.count(label) / len(given))


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


def vote_agreement(votes: Iterable[Sequence[int]]) -> Estimate:
    """Compute self-agreement: the share of pairs of votes on one item that give the same label.

    With `n` votes on an item, of which `c(l)` give the label `l`:

        P = sum over l of c(l) * (c(l) - 1) / (n * (n - 1))

    and the mean of `P` over all items, each weighing the same. It is the observed agreement of
    Fleiss' kappa (Fleiss, Measuring nominal scale agreement among many raters, 1971, formula 2),
    with no chance taken off: a judge that says no to everything agrees with itself fully.

    Args:
        votes: The labels of each item, at least two for an item to count.

    Returns:
        A share from 0 to 1; undefined where no item has two labels.
    """
    shares = [_share(labels) for labels in votes if len(labels) > 1]
    if not shares:
        return Estimate(reason="nothing was judged twice")
    return Estimate(value=fmean(shares))


def _share(labels: Sequence[int]) -> float:
    agreeing = sum(count * (count - 1) for count in Counter(labels).values())
    return agreeing / (len(labels) * (len(labels) - 1))


Level = Literal["nominal", "ordinal", "interval"]
"""What labels are: names; ranks; numbers whose differences mean something."""

Ratings = Iterable[Sequence[int | None]]
"""The labels of each item, in any order within an item."""

_NOT_SHARED = Estimate(reason="no item was labelled by two raters")


def fleiss_kappa(items: Ratings) -> Estimate:
    """Compute Fleiss' kappa: agreement of many raters beyond what the shares of labels give.

        kappa = (P - Pe) / (1 - Pe),    Pe = sum over labels of p(l)²

    `P` is the mean over items of the share of pairs of labels that agree (`vote_agreement`), `p(l)`
    the mean over items of the share of their labels that are `l`.

    Items may have differing numbers of raters. Then each item weighs the same in `P` and in `p`,
    however many labels it has, and an item with fewer than two labels is left out. Where all have
    as many, this is Fleiss' own formula. The raters of one item need not be those of another.

    Source: Fleiss, Measuring nominal scale agreement among many raters, 1971, formulas 2 to 7. For
    differing numbers as in Gwet, Handbook of Inter-Rater Reliability, 2014, who however takes the
    items with a single label into `p`.

    Returns:
        Kappa, at most 1. Undefined where no item has two labels, and where these items have one
        and the same label only, as chance alone then gives full agreement.
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

    `o(c, k)` is the coincidence of two labels: of each item with `m` labels, the number of its
    ordered pairs (c, k) divided by `m - 1`. `n(c)` is how often a label occurs in items with two or
    more labels, `n` how many there are in all. The difference `d` is 1 for names; (c - k)² for
    numbers; for ranks the square of the number of labels between the two, the two ends half.

    Source: Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011, sections C and D.

    Args:
        items: The labels of each item; an item with fewer than two is left out.
        level: What the labels are.

    Returns:
        Alpha, at most 1. Undefined where no item has two labels, and where these items have one
        and the same label only: without variation there is nothing to be reliable about.

    Raises:
        ValueError: There is no such level.
    """
    if level not in get_args(Level):
        raise ValueError(f"level is one of {', '.join(get_args(Level))}, not {level!r}")
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
        return _NOT_SHARED
    occurring = {label for labels in shared for label in labels}
    if len(occurring) == 1:
        return Estimate(reason=f"all raters gave the label {occurring.pop()} to every item")
    return None


def _coincidences(shared: Sequence[Sequence[int]]) -> dict[tuple[int, int], float]:
    """How much of each pair of labels, the lower first, stands together in an item."""
    # Items with as many labels are counted in whole numbers, and the few sums added in order.
    by_size: defaultdict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    for labels in shared:
        counts = sorted(Counter(labels).items())
        for place, (lower, count) in enumerate(counts):
            for higher, times in counts[place + 1 :]:
                by_size[lower, higher][len(labels)] += count * times
    return {
        pair: sum(number / (size - 1) for size, number in sorted(sizes.items()))
        for pair, sizes in by_size.items()
    }


def _differences(occurs: Mapping[int, int], level: Level) -> dict[tuple[int, int], float]:
    """The squared difference of each two labels, the lower first."""
    labels = sorted(occurs)
    differences: dict[tuple[int, int], float] = {}
    for place, lower in enumerate(labels):
        between = occurs[lower] / 2
        for higher in labels[place + 1 :]:
            ends = between + occurs[higher] / 2
            by_level = {"nominal": 1, "ordinal": ends**2, "interval": (higher - lower) ** 2}
            differences[lower, higher] = by_level[level]
            between += occurs[higher]
    return differences


Weights = Literal["linear", "quadratic"]
"""How much worse a larger difference is: by its size, or by the square of it."""


def weighted_kappa(pairs: Sequence[LabelPair], weights: Weights) -> Estimate:
    """Compute Cohen's weighted kappa, for which 3 against 2 is a smaller error than 3 against 0.

        kappa = 1 - n * sum of d(a, b) over all pairs
                    / sum over labels i, j of d(i, j) * judge(i) * person(j)

    where `n` is the number of pairs, `judge(i)` and `person(j)` how often each gave the label, and
    `d(a, b)` is |a - b| (linear) or (a - b)² (quadratic). The distance is of the labels
    themselves: a grade between two others counts although nobody gave it. (scikit-learn takes the
    places among the labels that occur, unless it is told all of them.)

    Source: Cohen, Weighted Kappa, 1968, formula 4.

    Args:
        pairs: The two labels of each item; the measure is symmetric.
        weights: How a difference counts.

    Returns:
        Kappa, at most 1. Undefined where `cohen_kappa` is.

    Raises:
        ValueError: The weights are neither linear nor quadratic.
    """
    if weights not in ("linear", "quadratic"):
        raise ValueError(f"weights are 'linear' or 'quadratic', not {weights!r}")
    if (plain := cohen_kappa(pairs)).value is None:
        return plain
    power = 1 if weights == "linear" else 2
    by_judge = Counter(judge for judge, _ in pairs)
    by_person = Counter(person for _, person in pairs)
    # Whole numbers until the last division, so that chance agreement is exactly 0.
    found = sum(abs(judge - person) ** power for judge, person in pairs) * len(pairs)
    chance = sum(
        abs(one - other) ** power * count * times
        for one, count in by_judge.items()
        for other, times in by_person.items()
    )
    return Estimate(value=(chance - found) / chance)


def binarised(pairs: Sequence[LabelPair], threshold: int) -> list[LabelPair]:
    """Make labels two: 1 from the threshold on, 0 below it."""
    return [(int(judge >= threshold), int(person >= threshold)) for judge, person in pairs]


def binarised_kappa(pairs: Sequence[LabelPair], threshold: int) -> Estimate:
    """Compute Cohen's kappa of labels made two: 1 from the threshold on, 0 below it.

    UMBRELA reports it beside the plain one, binarised at "> 1", which is `threshold=2` (Upadhyay et
    al., UMBRELA, 2024, section 4).

    Args:
        pairs: The two labels of each item. An item without one of them is no 0: leave it out.
        threshold: The lowest label that is read as 1.
    """
    return cohen_kappa(binarised(pairs, threshold))
