import pytest

from freshstack_dspy import Judgment
from freshstack_dspy.records import Vote
from freshstack_dspy.stored.diagnose import self_agreement
from tests.collection.small import CONTENTS


def voted(*labels: int | None, parts: int = 1) -> Judgment:
    votes = tuple(
        Vote(
            vote=number // parts + 1,
            part=number % parts + 1,
            label=label,
            status="failed" if label is None else "ok",
            reason="",
            call_id=None,
        )
        for number, label in enumerate(labels)
    )
    return CONTENTS.judgments[0].model_copy(update={"votes": votes})


def test_the_agreement_of_votes_by_hand() -> None:
    found = self_agreement(
        [voted(1, 1, 0), voted(1, 1, 1), voted(1, None, 1), voted(None, 0, None), voted()]
    )

    assert found.pairs == 3
    assert found.agreement.value == pytest.approx((1 / 3 + 1 + 1) / 3)
    assert (found.unanimous.value, found.failed_votes) == (2 / 3, 3)


def test_a_vote_on_parts_is_the_highest_of_them() -> None:
    two = self_agreement([voted(0, 1, 0, 0, 1, None, parts=2)])
    one = self_agreement([voted(0, 1, parts=2), voted(1, None, parts=2)])

    assert (two.pairs, two.agreement.value, two.failed_votes) == (1, 0, 1)
    assert (one.pairs, one.failed_votes) == (0, 0)
    assert one.agreement.reason == "nothing was judged twice"
