"""Agreement of two raters on the same items: kappa, precision and recall by class, confusion.

Items are pairs of labels, the judge's first and the person's (the reference) second.
What is undefined has no value and says why.
"""

from collections import Counter
from collections.abc import Sequence

from freshstack_dspy.measures.estimate import Estimate
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
