"""Which calls judge the chunks of a query."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshstack_dspy.config import BuildConfig, ModelConfig
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.programs.support_judge import SupportJudge, judge_inputs, whole
from freshstack_dspy.recipes.judge import (
    MARGIN,
    JudgeCall,
    ToJudge,
    Window,
    context_of,
    judge_calls,
    prompt_tokens,
)
from freshstack_dspy.records import Chunk, Nugget, Query


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


def test_a_seed_shuffles_each_query_by_itself() -> None:
    one, two = calls_of({"batch": 50, "shuffle": 3}, to_judge(1, 40), to_judge(1, 40, "r"))

    assert [p.chunk.chunk_id for p in one.passages] != [p.chunk.chunk_id for p in two.passages]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 900), min_size=1, max_size=12), st.integers(1400, 9000))
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


def test_batches_are_as_without_a_window_where_all_fits() -> None:
    pair = to_judge(4, 43)

    assert calls_of({}, pair, context=1_000_000) == calls_of({}, pair)
    assert [len(call.passages) for call in calls_of({}, pair)] == [14, 14, 15]


def test_a_frame_without_room_is_said_once_and_asked_never() -> None:
    calls = calls_of({"votes": 3}, to_judge(50, 2), context=2048, max_tokens=700)

    [call] = calls
    assert call.unfit is not None
    assert "with 50 nuggets leaves no room" in call.unfit


def test_windows_of_nuggets_may_fit_where_all_do_not() -> None:
    judge = {"shape": "windowed", "window": 5}
    calls = calls_of(judge, to_judge(50, 2), context=2048, max_tokens=700)

    assert len(calls) == 20
    assert all(call.unfit is None for call in calls)


def test_the_window_is_the_configured_or_the_known_one() -> None:
    assert context_of(ModelConfig(name="openai/gpt-4o")) == 128_000
    assert context_of(ModelConfig(name="openai/gpt-4o", context=4096)) == 4096
    assert context_of(ModelConfig(name="openai/nobody-knows")) is None
    assert context_of(ModelConfig()) is None


def test_a_reply_as_long_as_the_window_is_refused() -> None:
    with pytest.raises(ConfigError, match="lower max_tokens"):
        Window(ModelConfig(context=4096, max_tokens=4096), SupportJudge().predict)


def test_chunks_of_one_id_are_each_measured() -> None:
    """Answers of a run are judged as chunks that all have the run's name."""
    window = Window(ModelConfig(context=4096, max_tokens=64), SupportJudge().predict)

    short, long = (window.size(whole(chunk(0, "word " * times))) for times in (1, 500))

    assert long > short + 400


def test_the_scale_does_not_size_the_batches() -> None:
    """How long replies are expected to be is an estimate, and no part of a request."""
    sizes = {
        scale: [len(call.passages) for call in calls_of({"scale": scale}, to_judge(9, 20))]
        for scale in ("binary", "graded_5")
    }
    assert sizes == {"binary": [20], "graded_5": [20]}
