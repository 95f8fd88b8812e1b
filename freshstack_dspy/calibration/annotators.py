"""Who labelled: how many of the tasks, and whether at random."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from freshstack_dspy.calibration.labels import AnyLabel, PairId, TaskId, pair_of, task_id
from freshstack_dspy.measures.kappa import LabelPair, kappa_interval
from freshstack_dspy.records import HumanLabel, LabelTask

_FEWEST = 10
"""Pairs on which two must have labelled for their agreement to say something."""
_ByQuery = defaultdict[str, list[LabelPair]]


class _Kappa(NamedTuple):
    value: float
    low: float
    high: float


def labelled(labels: Iterable[AnyLabel], tasks: Sequence[LabelTask]) -> dict[str, int]:
    """Count how many of the tasks each annotator has labelled, by name; 0 for those of none."""
    asked = set(map(task_id, tasks))
    done: defaultdict[str, set[TaskId]] = defaultdict(set)
    for label in labels:
        done[label.annotator].add(task_id(label))
    return {name: len(asked & of) for name, of in sorted(done.items())}


def random_annotators(
    labels: Sequence[HumanLabel], judged: Mapping[PairId, int | None], threshold: int = 1
) -> dict[str, str]:
    """Find annotators whose labels say no more than chance, with the reason, by name.

    Labels are read as support from the threshold on. An annotator is compared with the judge and
    with the majority of the others, and each of the two with what the others reach: with the
    judge, and among themselves. Named is one whose kappa's interval begins at 0 or below and ends
    below the others' kappa, in each comparison in which the others' interval begins above 0. So a
    bad judge, or too few labels, make no one suspect.
    """
    given: defaultdict[str, dict[PairId, int]] = defaultdict(dict)
    for label in labels:
        given[label.annotator][pair_of(label)] = int(label.label >= threshold)
    judge = {pair: int(one >= threshold) for pair, one in judged.items() if one is not None}
    found = {}
    for name, own in sorted(given.items()):
        others = [of for other, of in sorted(given.items()) if other != name]
        others_with_judge = _kappa(_shared([(judge, of) for of in others]))
        among = _kappa(_shared(list(combinations(others, 2)))) or others_with_judge
        reasons = [
            _by_chance(_kappa(_shared([(whose, own)])), reached, what)
            for whose, reached, what in (
                (judge, others_with_judge, "the judge"),
                (_majority(others), among, "the other annotators"),
            )
        ]
        said = [reason for reason in reasons if reason is not None]
        if said and all(said):
            found[name] = "; ".join(said)
    return found


def _by_chance(own: _Kappa | None, reached: _Kappa | None, with_whom: str) -> str | None:
    """Say that a kappa is no better than chance; empty where it is, None where it cannot be known."""
    if own is None or reached is None or reached.low <= 0:
        return None
    if own.low > 0 or own.high >= reached.value:
        return ""
    interval = f" [{own.low:.2f}, {own.high:.2f}]" if own.low < own.high else ""
    return f"kappa with {with_whom} {own.value:.2f}{interval}, the others' {reached.value:.2f}"


def _kappa(pairs: _ByQuery) -> _Kappa | None:
    """Cohen's kappa with its interval over queries; None where it is unknown."""
    if sum(map(len, pairs.values())) < _FEWEST or len(pairs) < 2:
        return None
    found = kappa_interval(pairs)
    if found.value is None:
        return None
    if found.low is None or found.high is None:  # it does not vary: all or none agree
        return _Kappa(found.value, found.value, found.value)
    return _Kappa(found.value, found.low, found.high)


def _shared(raters: Sequence[tuple[Mapping[PairId, int], Mapping[PairId, int]]]) -> _ByQuery:
    """The labels of each two raters on the pairs that both labelled, by query."""
    pairs: _ByQuery = defaultdict(list)
    for one, other in raters:
        for pair in sorted(one.keys() & other.keys()):
            pairs[pair[0]].append((one[pair], other[pair]))
    return pairs


def _majority(raters: Sequence[Mapping[PairId, int]]) -> dict[PairId, int]:
    """What most say of a pair; those of which as many say one as the other are left out."""
    votes: defaultdict[PairId, list[int]] = defaultdict(list)
    for rater in raters:
        for pair, label in rater.items():
            votes[pair].append(label)
    return {
        pair: int(2 * sum(cast) > len(cast))
        for pair, cast in votes.items()
        if 2 * sum(cast) != len(cast)
    }
