"""What is explained of one query and one chunk, on the collection of `small.py`."""

import dataclasses
from pathlib import Path

import pytest

from freshstack_dspy import Collection, explain
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.lm.reply import receive
from freshstack_dspy.lm.request import ChatMessage, ChatRequest
from freshstack_dspy.records import Candidate, Vote
from tests.lm.recording import Listed

from .small import CONTENTS, A, D, judgment, write_small

REPLY = receive(
    ChatRequest(
        model="openai/some-model",
        endpoint="",
        messages=(ChatMessage(role="user", content="Does it?"),),
        parameters={"response_format": {"name": "JudgeSupport"}},
    ),
    text="yes",
    finish_reason="stop",
    input_tokens=7,
    output_tokens=1,
    origin="live",
    price=None,
)


@pytest.fixture
def collection(tmp_path: Path) -> Collection:
    return write_small(tmp_path / "small")


def test_every_nugget_of_the_query_has_its_judgment(collection: Collection, tmp_path: Path) -> None:
    found = explain(tmp_path / "small", "12", A)

    assert [(each.nugget.nugget_id, each.number, each.supports) for each in found.nuggets] == [
        ("12_0", 1, True),
        ("12_1", 2, False),
    ]
    assert found.candidate == next(each for each in CONTENTS.pool if each.chunk_id == A)
    assert (found.chunk.text, found.slice.slice) == ("alpha", "answerable")
    (call,) = found.calls
    assert (call.call_id, call.judgments, call.reply) == ("k2", 4, None)


def test_what_a_call_says_of_a_chunk_is_of_all_its_nuggets(tmp_path: Path) -> None:
    """Under a nugget it could be read as a reason for another's label."""
    alone = judgment("12_1", A, 0).model_copy(update={"call_id": "k9"})
    contents = dataclasses.replace(CONTENTS, judgments=(judgment("12_0", A, 1), alone))

    together = explain(write_small(tmp_path / "one"), "12", A).reasons
    apart = explain(write_small(tmp_path / "two", contents), "12", A).reasons

    assert [(one.call_id, one.nugget_ids) for one in together] == [("k2", ("12_0", "12_1"))]
    assert [one.nugget_ids for one in apart] == [("12_0",), ("12_1",)]


def test_a_failed_judgment_has_its_failure(collection: Collection) -> None:
    """Chunk d was judged for query 123 without being a candidate."""
    found = explain(collection, "123", D)

    assert found.candidate is None
    assert [each.supports for each in found.nuggets] == [None]
    assert [failure.status for failure in found.failures] == ["refused"]


def test_each_call_is_there_once_with_its_reply(tmp_path: Path) -> None:
    votes = tuple(
        Vote(vote=number, label=1, status="ok", reason="so", call_id=call)
        for number, call in ((1, REPLY.key), (2, "k9"))
    )
    voted = judgment("12_0", A, 1).model_copy(update={"call_id": REPLY.key, "votes": votes})
    contents = dataclasses.replace(CONTENTS, judgments=(voted, *CONTENTS.judgments[1:]))
    found = explain(write_small(tmp_path, contents), "12", A, replies=[Listed([REPLY])])

    assert [(call.call_id, call.judgments, call.reply) for call in found.calls] == [
        (REPLY.key, 1, REPLY),
        ("k9", 1, None),
        ("k2", 3, None),
    ]


def test_a_candidate_may_have_no_judgment(tmp_path: Path) -> None:
    pool = (*CONTENTS.pool, Candidate(query_id="12", chunk_id=D, origin="seed"))
    contents = dataclasses.replace(CONTENTS, pool=pool)

    found = explain(write_small(tmp_path, contents), "12", D)

    assert [each.judgment for each in found.nuggets] == [None, None]


@pytest.mark.parametrize(
    ("query_id", "chunk_id", "message"),
    [
        ("1234", A, "there is no query '1234' among its 4; the nearest are '123', '12'"),
        (
            "12",
            "docs/a.md_0_50",
            "there is no chunk 'docs/a.md_0_50'; the nearest are",
        ),
        ("12", A[2:-2], f"the nearest is {A!r}"),
        ("12", D, f"chunk {D!r} was neither pooled nor judged for query '12'; none"),
        ("zzzz", A, "none is like it; freshstack show lists them"),
    ],
)
def test_wrong_ids_are_answered_with_the_nearest(
    collection: Collection, query_id: str, chunk_id: str, message: str
) -> None:
    with pytest.raises(CollectionError) as caught:
        explain(collection, query_id, chunk_id)

    assert message in str(caught.value)
