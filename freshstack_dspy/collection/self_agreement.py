"""How far a judge that voted several times agrees with itself."""

from collections.abc import Iterable

from freshstack_dspy.measures.agreement import vote_agreement
from freshstack_dspy.measures.statistics import Estimate
from freshstack_dspy.records import Judgment, Record


class SelfAgreement(Record):
    """The votes of a collection's judge, in other orders of the chunks."""

    pairs: int
    """Of nugget and chunk, with at least two labels."""
    agreement: Estimate
    """The mean over these of the share of agreeing pairs of votes; see `vote_agreement`."""
    unanimous: Estimate
    """The share of these on which all votes with a label agree."""
    failed_votes: int
    """Votes without a label; they are in no value."""


def self_agreement(judgments: Iterable[Judgment]) -> SelfAgreement:
    """Compute how often the votes on a pair agree; pairs with fewer than two votes do not count."""
    votes = [each for judgment in judgments if len(each := _votes_of(judgment)) > 1]
    labels = [[label for label in each if label is not None] for each in votes]
    several = [each for each in labels if len(each) > 1]
    unanimous = Estimate(reason="nothing was judged twice")
    if several:
        unanimous = Estimate(value=sum(len(set(each)) == 1 for each in several) / len(several))
    return SelfAgreement(
        pairs=len(several),
        agreement=vote_agreement(several),
        unanimous=unanimous,
        failed_votes=sum(each.count(None) for each in votes),
    )


def _votes_of(judgment: Judgment) -> list[int | None]:
    """The label of each vote: the highest of its parts, None where one of them failed."""
    by_vote: dict[int, list[int | None]] = {}
    for vote in judgment.votes:
        by_vote.setdefault(vote.vote, []).append(vote.label)
    return [
        None if None in parts else max(label for label in parts if label is not None)
        for _, parts in sorted(by_vote.items())
    ]
