"""How far a judge that voted several times agrees with itself."""

from collections.abc import Iterable

from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.measures.agreement import (
    ClassAgreement,
    Confusion,
    by_class,
    cohen_kappa,
    confusion,
    exact_match,
    vote_agreement,
)
from freshstack_dspy.measures.statistics import Estimate
from freshstack_dspy.records import Judgment, Record


class BatchAgreement(Record):
    """Judgments of a collection against those of the same chunks alone, which are the reference."""

    pairs: int
    """Of nugget and chunk, with a label both ways."""
    queries: int
    chunks: int
    """Pairs of query and chunk that these are of."""
    failed: int
    """Pairs of the sample without a label one way or the other; they are in no figure, as are none
    that one and the same call judged both ways."""
    exact: Estimate
    """The share of pairs with the same label."""
    kappa: Estimate
    """Cohen's, on the labels of the scale."""
    classes: tuple[ClassAgreement, ...]
    """For each label; `judge` is the batch, `person` the chunk alone."""
    confusion: Confusion
    """A row is a label in the batch, a column one alone."""
    support_exact: Estimate
    """As `exact`, with labels read as support or no support by the collection's threshold."""
    support_kappa: Estimate


def batch_agreement(contents: Contents) -> BatchAgreement:
    """Compare the judgments of a collection with those of the sample that was judged alone.

    Precision is the share of a label's pairs in batches that have it alone too, recall the share
    of its pairs alone that have it in batches. A pair whose chunk was alone in its batch, or in that
    of a vote, may have been judged by one call for both, and would agree with itself: it is left
    out. A collection without such a sample has no figures, and each says so.

    Args:
        contents: A collection, or its records.
    """
    together = {(one.nugget_id, one.chunk_id): one for one in contents.judgments}
    compared = [
        (single, batch)
        for single in contents.single_judgments
        if (batch := together.get((single.nugget_id, single.chunk_id))) is None
        or single.call_id is None
        or single.call_id not in calls_of(batch)
    ]
    both = [
        (single, (batch.label, single.label))
        for single, batch in compared
        if batch is not None and batch.label is not None and single.label is not None
    ]
    pairs = [(batch, alone) for _, (batch, alone) in both]
    support = [
        (int(batch >= contents.threshold), int(alone >= contents.threshold))
        for batch, alone in pairs
    ]
    return BatchAgreement(
        pairs=len(pairs),
        queries=len({single.query_id for single, _ in both}),
        chunks=len({(single.query_id, single.chunk_id) for single, _ in both}),
        failed=len(compared) - len(pairs),
        exact=exact_match(pairs),
        kappa=cohen_kappa(pairs),
        classes=by_class(pairs),
        confusion=confusion(pairs),
        support_exact=exact_match(support),
        support_kappa=cohen_kappa(support),
    )


def calls_of(judgment: Judgment) -> set[str]:
    """The ids of all calls that a judgment goes back to, its own and those of its votes."""
    ids = (judgment.call_id, *(vote.call_id for vote in judgment.votes))
    return {call_id for call_id in ids if call_id is not None}


class SelfAgreement(Record):
    """The votes of a collection's judge, in other orders of the chunks."""

    pairs: int
    """Of nugget and chunk, with at least two labels."""
    agreement: Estimate
    """The mean over these of the share of agreeing pairs of votes; see `vote_agreement`."""
    unanimous: Estimate
    """The share of these on which all votes with a label agree."""
    failed_votes: int
    """Votes without a label; they are in no figure."""


def self_agreement(judgments: Iterable[Judgment]) -> SelfAgreement:
    """Compute how often the votes on a pair agree.

    Args:
        judgments: Of a collection; those with fewer than two votes do not count.
    """
    votes = [votes_of(judgment) for judgment in judgments]
    labels = [[label for label in each if label is not None] for each in votes]
    several = [each for each in labels if len(each) > 1]
    return SelfAgreement(
        pairs=len(several),
        agreement=vote_agreement(several),
        unanimous=(
            Estimate(value=sum(len(set(each)) == 1 for each in several) / len(several))
            if several
            else Estimate(reason="nothing was judged twice")
        ),
        failed_votes=sum(each.count(None) for each in votes if len(each) > 1),
    )


def votes_of(judgment: Judgment) -> list[int | None]:
    """The label of each vote, in order: the highest of its parts, None where one of them failed."""
    by_vote: dict[int, list[int | None]] = {}
    for vote in judgment.votes:
        by_vote.setdefault(vote.vote, []).append(vote.label)
    return [
        None if None in parts else max(label for label in parts if label is not None)
        for _, parts in sorted(by_vote.items())
    ]
