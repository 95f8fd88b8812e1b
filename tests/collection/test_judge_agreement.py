"""Batches against single chunks, and votes against each other, by hand."""

import dataclasses

import pytest

from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.collection.self_agreement import batch_agreement, self_agreement, votes_of
from freshstack_dspy.records import Judgment, Vote

from .small import CONTENTS, A, B, D, judgment


def alone(nugget_id: str, chunk_id: str, label: int | None) -> Judgment:
    """By a call of its own."""
    return judgment(nugget_id, chunk_id, label).model_copy(update={"call_id": "of its own"})


def voted(*labels: int | None, parts: int = 1) -> Judgment:
    """Votes in order, those on the parts of a chunk one after another."""
    votes = tuple(
        Vote(
            vote=place // parts + 1,
            part=place % parts + 1,
            label=label,
            status="ok" if label is not None else "refused",
            reason="because",
            call_id=None,
        )
        for place, label in enumerate(labels)
    )
    return judgment("12_0", A, 1).model_copy(update={"votes": votes, "parts": parts})


def test_the_agreement_of_batches_by_hand() -> None:
    """In batches 1, 1, 0, 1 and 1; alone 1, 0, 0, failed and, of a failed one, 1."""
    single = (
        alone("12_0", A, 1),
        alone("12_0", B, 0),
        alone("12_1", A, 0),
        alone("12_1", B, None),
        alone("123_0", D, 1),
    )
    found = batch_agreement(dataclasses.replace(CONTENTS, single_judgments=single))

    assert (found.pairs, found.queries, found.chunks, found.failed) == (3, 1, 2, 2)
    assert found.exact.value == found.support_exact.value == 2 / 3
    assert found.kappa == found.support_kappa
    assert found.confusion.counts == ((1, 0), (1, 1))
    zero, one = found.classes
    assert (one.label, one.precision.value, one.recall.value) == (1, 1 / 2, 1)
    assert (zero.label, zero.precision.value, zero.recall.value) == (0, 1, 1 / 2)


def test_a_judgment_is_not_compared_with_itself() -> None:
    """The call that judged it alone may be the one that judged it anyway, or one of its votes."""
    first = judgment("12_0", A, 1).model_copy(update={"call_id": "alone"})
    votes = tuple(
        vote.model_copy(update={"call_id": f"vote {vote.vote}"}) for vote in voted(0, 1, 1).votes
    )
    second = judgment("12_0", B, 1).model_copy(update={"call_id": "vote 2", "votes": votes})
    other = judgment("12_1", A, 0).model_copy(update={"call_id": "batch"})
    single = (
        first,
        second.model_copy(update={"call_id": "vote 1", "votes": ()}),
        other.model_copy(update={"call_id": "another", "label": 1}),
    )
    found = batch_agreement(
        Contents(
            queries=CONTENTS.queries,
            judgments=(first, second, other),
            single_judgments=single,
        )
    )

    assert (found.pairs, found.chunks, found.failed) == (1, 1, 0)
    assert found.exact.value == 0


def test_support_is_read_by_the_threshold() -> None:
    graded = Contents(
        queries=CONTENTS.queries,
        judgments=(judgment("12_0", A, 2), judgment("12_0", B, 3), judgment("12_1", A, 1)),
        single_judgments=(alone("12_0", A, 3), alone("12_0", B, 3), alone("12_1", A, 0)),
        threshold=2,
    )
    found = batch_agreement(graded)

    assert found.exact.value == 1 / 3
    assert found.support_exact.value == 1
    assert found.support_kappa.value == 1


def test_without_a_sample_every_figure_says_so() -> None:
    found = batch_agreement(dataclasses.replace(CONTENTS, single_judgments=()))

    assert (found.pairs, found.failed) == (0, 0)
    assert found.exact.reason == found.kappa.reason == "there are no pairs of labels"


def test_the_agreement_of_votes_by_hand() -> None:
    found = self_agreement(
        [voted(1, 1, 0), voted(1, 1, 1), voted(1, None, 1), voted(None, 0, None), voted()]
    )

    assert found.pairs == 3
    assert found.agreement.value == pytest.approx((1 / 3 + 1 + 1) / 3)
    assert found.unanimous.value == 2 / 3
    assert found.failed_votes == 3


def test_a_vote_on_parts_is_the_highest_of_them() -> None:
    assert votes_of(voted(0, 1, 0, 0, 1, None, parts=2)) == [1, 0, None]


def test_one_vote_on_parts_is_no_agreement() -> None:
    found = self_agreement([voted(0, 1, parts=2), voted(1, None, parts=2)])

    assert (found.pairs, found.failed_votes) == (0, 0)
    assert found.agreement.reason == found.unanimous.reason == "nothing was judged twice"
