"""What votes and parts make of a pair, by hand."""

import pytest

from freshstack_dspy.programs.support_judge import Passage
from freshstack_dspy.recipes.judge import JudgeCall, JudgedBatch, merged
from freshstack_dspy.records import Chunk, Judgment, Nugget, Query, Status

QUERY = Query(query_id="q", title="How?", body="", answer="So.")
NUGGET = Nugget(query_id="q", nugget_id="n", text="So.", call_id="k")
CHUNK = Chunk(chunk_id="c", source="s", path="p", start_byte=0, end_byte=1, text="t", tokens=1)
Said = int | Status


def batch(vote: int, said: Said, part: int = 1, parts: int = 1) -> JudgedBatch:
    is_label = isinstance(said, int)
    judgment = Judgment(
        query_id="q",
        nugget_id="n",
        chunk_id="c",
        label=said if is_label else None,
        status="ok" if is_label else said,
        reason=f"{vote}/{part}",
        call_id=f"key {vote}/{part}",
    )
    call = JudgeCall(QUERY, [NUGGET], [Passage(CHUNK, "t", part, parts)], vote)
    return JudgedBatch((judgment,), None, call)


def of_votes(*said: Said) -> Judgment:
    [judgment] = merged([batch(vote, one) for vote, one in enumerate(said, 1)], len(said))
    return judgment


def test_one_vote_on_a_whole_chunk_is_the_judgment() -> None:
    judgment = of_votes(1)

    assert (judgment.label, judgment.parts, judgment.votes) == (1, 1, ())
    assert (judgment.reason, judgment.call_id) == ("1/1", "key 1/1")


@pytest.mark.parametrize(
    ("said", "label", "decided_by"),
    [
        ((1, 0, 1), 1, 1),
        ((0, 1, 1), 1, 2),
        ((3, 1, 2), 1, 2),  # each once: the lowest
        ((2, 2, 1, 1, 0), 1, 3),
        ((5, 5, 0, 3, 5), 5, 1),
        (("refused", 1, 1), 1, 2),
        (("refused", 1, 0), 0, 3),  # a tie of the valid ones
        ((1, "refused", "truncated"), None, 2),
        (("unparsed", "refused", 0), None, 1),
        ((0, "failed", 1, "failed", 1), 1, 3),
    ],
)
def test_the_label_of_most_valid_votes_wins(
    said: tuple[Said, ...], label: int | None, decided_by: int
) -> None:
    judgment = of_votes(*said)

    assert judgment.label == label
    assert judgment.call_id == f"key {decided_by}/1"
    assert [vote.label if vote.status == "ok" else vote.status for vote in judgment.votes] == [
        *said
    ]


@pytest.mark.parametrize(
    ("said", "label", "decided_by"),
    [((0, 2, 1), 2, 2), ((1, 1, 1), 1, 1), ((0, "truncated", 2), None, 2)],
)
def test_the_label_of_a_chunk_in_parts_is_the_highest(
    said: tuple[Said, ...], label: int | None, decided_by: int
) -> None:
    parts = [batch(1, one, part, len(said)) for part, one in enumerate(said, 1)]

    [judgment] = merged(reversed(parts), 1)

    assert (judgment.label, judgment.parts) == (label, 3)
    assert judgment.call_id == f"key 1/{decided_by}"
    assert [vote.part for vote in judgment.votes] == [1, 2, 3]


def test_votes_on_parts_are_merged_by_vote_first() -> None:
    batches = [
        batch(vote, label, part, 2)
        for vote, labels in enumerate([(0, 1), (0, 0), (1, 0)], 1)
        for part, label in enumerate(labels, 1)
    ]

    [judgment] = merged(batches, 3)

    assert judgment.label == 1
    assert len(judgment.votes) == 6


def test_what_was_put_off_is_no_judgment() -> None:
    assert merged([batch(1, 1)], 3) == ()
    assert merged([batch(1, 1, part=1, parts=2)], 1) == ()
    assert merged([], 1) == ()
