"""Which judgments people are asked to label: a stratified sample whose probabilities are known."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from freshstack_dspy.calibration.labels import PairId, pair_of
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.records import HumanLabel, Judgment

WHOLE_QUERIES = "whole queries"
"""The stratum of pairs that were drawn with all other judged pairs of their query."""


def strata(collection: Collection, against: Collection | None = None) -> dict[PairId, str]:
    """Give the stratum of every judged pair: the judge's label, and whether it is unsure.

    `label 1, unsure`: the votes differ; or the label is above 0 and has no evidence, in a
    collection whose judge quotes evidence. `label 1, judges differ`: another judge gave another
    label. A pair whose judgment failed has no label, and so no stratum.

    Args:
        collection: What was judged.
        against: The same pairs, judged by another model or prompt.
    """
    other = {pair_of(one): one.label for one in against.judgments} if against else {}
    quotes = any(one.evidence for one in collection.judgments)
    found = {}
    for one in collection.judgments:
        if one.label is None:
            continue
        why = ", unsure" if _is_unsure(one, quotes=quotes) else ""
        if other.get(pair_of(one), one.label) not in (one.label, None):
            why = ", judges differ"
        found[pair_of(one)] = f"label {one.label}{why}"
    return found


def _is_unsure(judgment: Judgment, *, quotes: bool) -> bool:
    votes: dict[int, int] = {}  # one on a chunk in parts is the highest label of its parts
    for vote in judgment.votes:
        if vote.label is not None:
            votes[vote.vote] = max(votes.get(vote.vote, 0), vote.label)
    without = quotes and bool(judgment.label) and not judgment.evidence
    return without or len(set(votes.values())) > 1


def weights(labels: Sequence[HumanLabel], strata: Mapping[PairId, str]) -> dict[PairId, float]:
    """Say for how many judged pairs each labelled pair counts; 1 where it was not sampled.

    In each stratum it is the number of judged pairs divided by that of labelled ones, so that it
    is right however many tasks of a sample were added later, or not labelled. Of `WHOLE_QUERIES`
    it is the number of queries divided by that of labelled ones. Where the strata are not those
    that were sampled (of a rejudged collection, or drawn against another judge), it is 1 /
    probability, the largest of the stratum.

    Args:
        labels: Of one kind; those of several people of a pair are one pair.
        strata: Those of the collection, as `strata` gives them.
    """
    pairs: defaultdict[str, set[PairId]] = defaultdict(set)
    highest: defaultdict[str, float] = defaultdict(float)
    for label in labels:
        name = label.stratum or ""
        pairs[name].add(pair_of(label))
        highest[name] = max(highest[name], label.probability or 1)
    whole, unsampled = pairs.pop(WHOLE_QUERIES, set()), pairs.pop("", set())
    found = dict.fromkeys(unsampled, 1.0)
    if whole:
        queries = len({query for query, _, _ in strata})
        found.update(dict.fromkeys(whole, queries / len({query for query, _, _ in whole})))
    same = all(strata.get(pair) == name for name, group in pairs.items() for pair in group)
    sizes = Counter(strata.values())
    for name, group in pairs.items():
        weight = sizes[name] / len(group) if same else 1 / highest[name]
        found.update(dict.fromkeys(group, weight))
    return found
