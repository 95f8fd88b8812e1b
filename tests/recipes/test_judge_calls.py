"""Which calls judge the chunks of a query, and what their votes and parts make of a pair."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshstack_dspy import BuildConfig, Chunk, Judgment, ModelConfig, Nugget, Query, SupportJudge
from freshstack_dspy.corpus.shown_chunks import ChunkPart
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.programs.support_judge import judge_inputs
from freshstack_dspy.recipes.judge import (
    MARGIN,
    JudgeCall,
    JudgedBatch,
    ToJudge,
    Window,
    judge_calls,
    merged,
    prompt_tokens,
    split_text,
)
from freshstack_dspy.records import Status


def settings_of(judge: dict[str, Any], model: dict[str, Any] | None = None) -> BuildConfig:
    return BuildConfig.model_validate(
        {
            "name": "small",
            "out": Path("out"),
            "queries": {"path": "q.jsonl"},
            "corpus": [{"name": "c", "path": "c"}],
            "judge": judge,
            "model": model or {},
        }
    )


def chunk(number: int, text: str = "t") -> Chunk:
    return Chunk(
        chunk_id=f"s/p_{number:03}",
        source="s",
        path="p",
        start_byte=0,
        end_byte=1,
        text=text,
        tokens=1,
    )


def to_judge(nuggets: int, chunks: int, query_id: str = "q", text: str = "t") -> ToJudge:
    return ToJudge(
        Query(query_id=query_id, title="How?", body="", answer="So."),
        [
            Nugget(query_id=query_id, nugget_id=f"{query_id}_{n}", text=f"Fact {n}.", call_id="k")
            for n in range(nuggets)
        ],
        [chunk(number, text) for number in range(chunks)],
    )


def calls_of(judge: dict[str, Any], *pairs: ToJudge, **model: Any) -> list[JudgeCall]:
    config = settings_of(judge, model)
    return judge_calls(config, SupportJudge(config.judge.scale), pairs)


def pairs_in(calls: list[JudgeCall]) -> list[tuple[str, str, int]]:
    return sorted(
        (nugget.nugget_id, passage.chunk.chunk_id, call.vote)
        for call in calls
        for nugget in call.nuggets
        for passage in call.passages
    )


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(["batch", "windowed", "pairwise"]),
    st.integers(0, 7),
    st.integers(0, 9),
    st.integers(1, 4),
    st.sampled_from([1, 3]),
    st.sampled_from([None, 0, 7]),
)
def test_every_pair_is_in_exactly_one_call_of_each_vote(
    shape: str, nuggets: int, chunks: int, most: int, votes: int, shuffle: int | None
) -> None:
    judge = {
        "shape": shape,
        "batch": most,
        "window": most,
        "votes": votes,
        "shuffle": shuffle,
        "scale": "graded_3",
    }
    pair = to_judge(nuggets, chunks)

    calls = calls_of(judge, pair)

    assert pairs_in(calls) == sorted(
        (nugget.nugget_id, one.chunk_id, vote)
        for nugget in pair.nuggets
        for one in pair.chunks
        for vote in range(1, votes + 1)
    )
    for call in calls:
        assert len(call.passages) <= (most if shape == "batch" else 1)
        assert len(call.nuggets) <= {"batch": nuggets, "windowed": most, "pairwise": 1}[shape]


def test_the_first_vote_is_in_the_order_of_ids_and_the_others_are_not() -> None:
    calls = calls_of({"batch": 50, "votes": 3}, to_judge(1, 40))
    orders = [[passage.chunk.chunk_id for passage in call.passages] for call in calls]

    assert orders[0] == sorted(orders[0])
    assert len({tuple(order) for order in orders}) == 3


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 900), min_size=1, max_size=12), st.integers(2400, 9000))
def test_a_prompt_and_its_reply_fit_into_the_window(lengths: list[int], context: int) -> None:
    pair = to_judge(3, 0)._replace(
        chunks=[chunk(number, "word and\n" * length) for number, length in enumerate(lengths)]
    )
    model = ModelConfig(context=context, max_tokens=256)
    judge = SupportJudge()

    calls = judge_calls(settings_of({}, {"context": context, "max_tokens": 256}), judge, [pair])

    shown: dict[str, str] = {}
    for call in calls:
        assert call.unfit is None
        inputs = judge_inputs(call.query, call.nuggets, call.passages)
        assert MARGIN * prompt_tokens(model, judge.predict, inputs) + 256 <= context + 8
        for passage in call.passages:
            chunk_id = passage.chunk.chunk_id
            shown[chunk_id] = shown.get(chunk_id, "") + passage.text
    assert shown == {one.chunk_id: one.passage for one in pair.chunks}


def test_a_frame_without_room_is_said_once_and_asked_never() -> None:
    calls = calls_of({"votes": 3}, to_judge(50, 2), context=2048, max_tokens=700)

    [call] = calls
    assert call.unfit is not None
    assert "with 50 nuggets leaves no room" in call.unfit


def test_a_reply_as_long_as_the_window_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"lower \[model\] max_tokens"):
        Window(ModelConfig(context=4096, max_tokens=4096), SupportJudge())


@settings(deadline=None)
@given(st.text(alphabet="ab\n é", max_size=300), st.integers(1, 40))
def test_every_character_is_in_exactly_one_part_that_fits(text: str, most: int) -> None:
    parts = split_text(text, lambda part: len(part) <= most)

    assert "".join(parts) == text
    assert all(0 < len(part) <= most for part in parts) or text == ""


def test_a_text_is_cut_at_line_ends() -> None:
    text = "".join(f"line {number}\n" for number in range(100))

    parts = split_text(text, lambda part: len(part) <= 300)

    assert len(parts) == 4
    assert all(part.endswith("\n") for part in parts)


# Votes and parts, by hand

Said = int | Status


def batch(vote: int, said: Said, part: int = 1, parts: int = 1) -> JudgedBatch:
    is_label = isinstance(said, int)
    judgment = Judgment(
        query_id="q",
        nugget_id="q_0",
        chunk_id=chunk(0).chunk_id,
        label=said if is_label else None,
        status="ok" if is_label else said,
        reason=f"{vote}/{part}",
        call_id=f"key {vote}/{part}",
    )
    query, nuggets, (one,) = to_judge(1, 1)
    call = JudgeCall(query, nuggets, [ChunkPart(one, 0, 1, part, parts)], vote)
    return JudgedBatch((judgment,), None, call)


def of_votes(*said: Said) -> Judgment:
    [judgment] = merged([batch(vote, one) for vote, one in enumerate(said, 1)], len(said))
    return judgment


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
