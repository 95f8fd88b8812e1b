"""Nugget quality: whether people find the nuggets of a query right, complete and to the point."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from freshstack_dspy.measures.answers.scores import (
    Sampling,
    Scores,
    answer_score,
    summarise,
)
from freshstack_dspy.measures.estimate import Estimate


class NuggetVerdict(NamedTuple):
    """What a person said of one nugget; None where the question was not answered.

    Attributes:
        hallucinated: Whether it says what is not in the answer (the paper's A).
        redundant: Whether it is minor, or repeats another (the paper's B).
    """

    hallucinated: bool | None
    redundant: bool | None


class ReadNuggets(NamedTuple):
    """The nuggets of a query, as one person read them.

    Attributes:
        annotator: Who.
        query_id: Of which query.
        nuggets: The verdicts, one for each nugget.
        additional: How many more nuggets all key ideas would take (the paper's C); None where
            the question was not answered.
    """

    annotator: str
    query_id: str
    nuggets: tuple[NuggetVerdict, ...]
    additional: int | None


class NuggetQuality(Protocol):
    """A measure of the nuggets of one or more queries."""

    def __call__(self, read: Sequence[ReadNuggets]) -> Estimate:
        """Compute it of all nuggets together."""
        ...


def nugget_precision(read: Sequence[ReadNuggets]) -> Estimate:
    """Compute the share of nuggets that are neither minor nor redundant.

        (|nuggets| - sum(B)) / |nuggets|

    Source: Thakur et al., FreshStack, 2025 (arXiv 2504.13128), section 5.2.1, equation 2.
    """
    redundant = [each.redundant for one in read for each in one.nuggets]
    return _unanswered(redundant, "redundant") or _share(redundant)


def nugget_completeness(read: Sequence[ReadNuggets]) -> Estimate:
    """Compute the share of the nuggets needed that are there: the paper's recall.

        (|nuggets| - sum(B)) / (|nuggets| - sum(B) + C)

    Source: FreshStack, section 5.2.1, equation 3.
    """
    redundant = [each.redundant for one in read for each in one.nuggets]
    if fault := _unanswered(redundant, "redundant"):
        return fault
    additional = [one.additional for one in read]
    if None in additional:
        return Estimate(reason="how many nuggets are missing was not answered")
    good = redundant.count(False)
    needed = good + sum(number or 0 for number in additional)
    if not needed:
        return Estimate(reason="no nugget is to the point, and none is missing")
    return Estimate(value=good / needed)


def nugget_groundedness(read: Sequence[ReadNuggets]) -> Estimate:
    """Compute the share of nuggets that say nothing beyond the answer.

        (|nuggets| - sum(A)) / |nuggets|

    Source: FreshStack, section 5.2.1, equation 4.
    """
    hallucinated = [each.hallucinated for one in read for each in one.nuggets]
    return _unanswered(hallucinated, "hallucinated") or _share(hallucinated)


NUGGET_QUALITIES: Mapping[str, NuggetQuality] = MappingProxyType(
    {
        "precision": nugget_precision,
        "recall": nugget_completeness,
        "groundedness": nugget_groundedness,
    }
)
"""As in Table 5 of the paper."""


def score_nuggets(
    read: Iterable[ReadNuggets],
    *,
    sampling: Sampling = Sampling(),  # noqa: B008  it cannot change
) -> Scores:
    """Compute the quality of each query's nuggets, and the means of each annotator.

    Raises:
        CollectionError: There are no nuggets, or an annotator read a query's twice.
    """
    scored = (
        answer_score(
            one.annotator,
            one.query_id,
            {name: measure([one]) for name, measure in NUGGET_QUALITIES.items()},
            {
                "nuggets": len(one.nuggets),
                "hallucinated": sum(each.hallucinated is True for each in one.nuggets),
                "redundant": sum(each.redundant is True for each in one.nuggets),
                "additional": one.additional or 0,
                "unanswered": sum(value is None for each in one.nuggets for value in each)
                + (one.additional is None),
            },
        )
        for one in read
    )
    return summarise(tuple(NUGGET_QUALITIES), scored, choices={}, sampling=sampling)


def pooled_nugget_quality(read: Sequence[ReadNuggets]) -> dict[str, Estimate]:
    """Compute the three figures over the nuggets of all queries together, each the same weight."""
    return {name: measure(read) for name, measure in NUGGET_QUALITIES.items()}


def _unanswered(verdicts: Sequence[bool | None], question: str) -> Estimate | None:
    if not verdicts:
        return Estimate(reason="there are no nuggets")
    if open_ := verdicts.count(None):
        return Estimate(reason=f"{open_} of {len(verdicts)} nuggets have no verdict: {question}")
    return None


def _share(faults: Sequence[bool | None]) -> Estimate:
    return Estimate(value=faults.count(False) / len(faults))
