"""Agreement of any number of raters: Fleiss' kappa and Krippendorff's alpha.

Items are lists of labels, of whichever raters labelled them. `None` is a rater who gave none, and is
as if it were not there: a missing label is no label, above all no 0.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, get_args

from freshstack_dspy.measures.agreement.votes import vote_agreement
from freshstack_dspy.measures.estimate import Estimate

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
