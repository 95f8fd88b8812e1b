"""How well a judge agrees with people, people with each other, and a judge with itself.

A pair is the judge's label and the person's for one item; leave out an item that lacks either
(it is not a 0). Measures take tables, many at once for resamples: arrays whose last two axes are
the judge's labels, from 0, and the person's, with the weight of the pairs in the cells. The value is
`nan` where a measure is undefined.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any, Literal

from freshstack_dspy.measures.statistics import LEVEL, Estimate, rare_sum
from freshstack_dspy.records import Record

KAPPA_HALF_WIDTH = 1.6
"""To be multiplied by 1 / √n: the half width of kappa's interval from n labels of a stratified sample,
with a judge like one on TREC RAG 2024 (benchmarks/LOG.md, 2026-11-23)."""
LabelPair = tuple[int, int]
"""The judge's label and the person's for one item."""
Weights = Literal["linear", "quadratic"]
"""How a difference counts: by its size, or by its square."""
Level = Literal["nominal", "ordinal", "interval"]
"""What labels are: names; ranks; numbers whose differences mean something."""
Tables = Any
"""An array of numpy, … x labels x labels."""
Values = Any
"""An array of numpy with a value for each table."""


def table_of(pairs: Iterable[LabelPair], labels: int) -> Tables:
    """Count the pairs of labels from 0 to below `labels`."""
    import numpy as np

    table = np.zeros((labels, labels))
    for pair, number in Counter(pairs).items():
        table[pair] = number
    return table


def on_support(tables: Tables, threshold: int) -> Tables:
    """Read labels as support, 1, from the threshold on, or none, 0."""
    import numpy as np

    above = np.arange(tables.shape[-1]) >= threshold
    classes = np.stack([~above, above]).astype(float)
    return classes @ tables @ classes.T


def same_label(tables: Tables) -> Values:
    """Compute the share of pairs with the same label twice."""
    return share_of(tables.trace(axis1=-2, axis2=-1), tables.sum((-1, -2)))


def kappa(tables: Tables, weights: Weights | None = None) -> Values:
    """Compute Cohen's kappa: agreement beyond what the raters' label shares give by chance.

        kappa = 1 - n * sum of d(a, b) over all pairs
                    / sum over labels i, j of d(i, j) * judge(i) * person(j)

    where n is the number of pairs, judge(i) and person(j) how often each gave the label, and
    d(a, b) is 1 for two labels (plain), |a - b| (linear) or (a - b)² (quadratic), so that 3 against
    2 is a smaller error than 3 against 0. Undefined if both raters gave the same single label to
    all items, because chance alone then gives full agreement; 0 if only one of them did so.

    Source: Cohen, A Coefficient of Agreement for Nominal Scales, 1960; Weighted Kappa, 1968,
    formula 4.
    """
    import numpy as np

    ranks = np.arange(tables.shape[-1])
    differences = np.abs(ranks[:, None] - ranks)
    distance = differences ** {None: 0, "linear": 1, "quadratic": 2}[weights] * (differences > 0)
    # Counts are whole numbers until the division, so that chance agreement is exactly 0.
    observed = (tables * distance).sum((-1, -2)) * tables.sum((-1, -2))
    expected = tables.sum(-1)[..., :, None] * tables.sum(-2)[..., None, :]
    chance = (expected * distance).sum((-1, -2))
    return share_of(chance - observed, chance)


def precision(tables: Tables, label: int) -> Values:
    """Compute the share of the items the judge gave a label to which the person gave it too."""
    return share_of(tables[..., label, label], tables[..., label, :].sum(-1))


def recall(tables: Tables, label: int) -> Values:
    """Compute the share of the items the person gave a label to which the judge gave it too."""
    return precision(tables.swapaxes(-1, -2), label)


def alpha(coincidences: Tables, level: Level = "nominal") -> Values:
    """Compute Krippendorff's alpha, for any number of raters, missing labels and graded labels.

        alpha = 1 - (n - 1) * sum over c < k of o(c, k) * d(c, k)
                    / sum over c < k of n(c) * n(k) * d(c, k)

    o(c, k) is the coincidence of two labels, the sum of `coincidences_of` the items with two labels
    or more; n(c) is how often a label occurs in these, n how many there are in all. The difference d
    is 1 for names; (c - k)² for numbers; for ranks, the square of the number of labels between the
    two, where both ends count half.

    Source: Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011, sections C and D.
    """
    import numpy as np

    occurs = coincidences.sum(-1)
    ranks = np.arange(occurs.shape[-1])
    if level == "ordinal":  # how many labels are below the middle of each
        ranks = occurs.cumsum(-1) - occurs / 2
    squared = (ranks[..., :, None] - ranks[..., None, :]) ** 2
    if level == "nominal":
        squared = squared > 0
    observed = (coincidences * squared).sum((-1, -2)) * (occurs.sum(-1) - 1)
    chance = (occurs[..., :, None] * occurs[..., None, :] * squared).sum((-1, -2))
    return share_of(chance - observed, chance)


def fleiss(coincidences: Tables) -> Values:
    """Compute Fleiss' kappa from coincidences, each item's divided by its number of labels.

        kappa = (P - Pe) / (1 - Pe),    Pe = sum over labels of p(l)²

    P is `vote_agreement`, p(l) the mean over items of the share of their labels that are l. Items
    weigh the same, however many raters they have; those with fewer than two labels are left out.

    Source: Fleiss, Measuring nominal scale agreement among many raters, 1971, formulas 2 to 7. For
    differing numbers of raters as in Gwet, Handbook of Inter-Rater Reliability, 2014, who however
    takes the items with a single label into p.
    """
    total = coincidences.sum((-1, -2))
    chance = share_of((coincidences.sum(-1) ** 2).sum(-1), total**2)
    return share_of(same_label(coincidences) - chance, 1 - chance)


def coincidences_of(labels: Sequence[int], highest: int) -> Tables:
    """Count the ordered pairs of labels of one item, divided by its number of labels less 1."""
    import numpy as np

    counts = np.bincount(labels, minlength=highest + 1).astype(float)
    return (np.outer(counts, counts) - np.diag(counts)) / (len(labels) - 1)


def share_of(part: Values, whole: Values) -> Values:
    """Divide one by the other; `nan` where that is 0."""
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(whole == 0, np.nan, part / whole)


class Confusion(Record):
    """How often each pair of labels occurs."""

    labels: tuple[int, ...]
    """Those that occur, ascending: the names of the rows and columns."""
    counts: tuple[tuple[int, ...], ...]
    """A row is a label of the judge, a column one of the person."""


FEW_DISAGREEMENTS = 20
"""With fewer disagreements, resamples of single pairs hold too few of them (for 100 to 400 pairs the
lower end of kappa was too high up to 10 times in 100), and `disagreement_bound` gives that end."""


def disagreement_bound(weights: Sequence[float], disagreeing: Sequence[float] = ()) -> float:
    """Bound the share of disagreements from above, at 97.5 %, where none or few were seen.

    If none of the units disagrees, which are drawn independently and have weights w, it is the
    largest (sum of w d) / (sum of w) over all chances d of a disagreement for which the probability
    of seeing none, the product of 1 - d, is still .025. For n equal weights this is Clopper and
    Pearson's 1 - .025^(1/n), about 3.7 / n. If some units disagree, it is the upper end of `rare_sum`.

    Source: Clopper and Pearson, Biometrika 1934; Hanley and Lippman-Hand, If Nothing Goes Wrong, Is
    Everything All Right?, JAMA 1983; the largest over strata: Buehler, JASA 1957.

    Args:
        weights: The weights of all units.
        disagreeing: How much of its weight disagrees, for each unit that disagrees at all.
    """
    if disagreeing:
        return min(1.0, rare_sum(disagreeing, max(weights)).high / sum(weights))
    ordered = sorted(weights, reverse=True)
    left, logs = math.log((1 - LEVEL) / 2), 0.0
    for number, weight in enumerate(ordered, 1):  # the heaviest ones have a chance, 1 - floor / w
        logs += math.log(weight)
        floor = math.exp((left + logs) / number)
        if number == len(ordered) or floor >= ordered[number]:
            return (sum(ordered[:number]) - number * floor) / sum(ordered)
    return 1.0


def least_kappa(support: float, disagreement: float, part: float | None = None) -> float:
    """Give the least kappa, yes or no, at a share of disagreements.

    With p the judge's share of support, D that of disagreements, and a that of the disagreements
    where the judge says support:

        kappa = 1 - D / (p (1 - q) + q (1 - p)),    q = p - a + (D - a)

    It is least where a is as small or as large as possible, unless `part` says which share of D it is.
    """

    def kappa_at(only_judge: float) -> float:
        person = support + disagreement - 2 * only_judge
        return 1 - disagreement / (support * (1 - person) + person * (1 - support))

    if part is not None:
        return kappa_at(min(support, part * disagreement))
    return min(kappa_at(max(0.0, disagreement + support - 1)), kappa_at(min(support, disagreement)))


def confusion(pairs: Sequence[LabelPair]) -> Confusion:
    """Count how often each pair of labels occurs."""
    counts = Counter(pairs)
    labels = tuple(sorted({label for pair in pairs for label in pair}))
    rows = tuple(tuple(counts[judge, person] for person in labels) for judge in labels)
    return Confusion(labels=labels, counts=rows)


def vote_agreement(votes: Iterable[Sequence[int]]) -> Estimate:
    """Compute self-agreement: the share of pairs of votes on one item that give the same label.

    With n votes on an item, of which c(l) give the label l, it is the mean over all items with two
    votes or more of

        P = sum over l of c(l) * (c(l) - 1) / (n * (n - 1))

    the observed agreement of Fleiss' kappa (formula 2), not corrected for chance.
    """
    shares = [
        sum(count * (count - 1) for count in Counter(labels).values())
        / (len(labels) * (len(labels) - 1))
        for labels in votes
        if len(labels) > 1
    ]
    return Estimate(value=fmean(shares)) if shares else Estimate(reason="nothing was judged twice")
