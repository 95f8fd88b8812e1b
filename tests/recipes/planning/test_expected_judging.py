"""What judging is expected to ask for, by shape, votes, window and sample."""

from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.recipes.planning.expected import NUGGET_TOKENS, NUGGETS, pool_sizes
from freshstack_dspy.recipes.planning.expected_judging import (
    ChunkSizes,
    Load,
    expected_singles,
    expected_support,
)

QUERIES, FRAME = 100, 700
SIZES = ChunkSizes(5_000, 500)


def settings(judge: dict[str, Any], model: dict[str, Any] | None = None) -> BuildConfig:
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


def load(judge: dict[str, Any], **model: Any) -> Load:
    return expected_support(settings(judge, model), QUERIES, FRAME, SIZES)


def pooled() -> float:
    sizes = pool_sizes(settings({}).pool, SIZES.chunks)
    return QUERIES * sum(sizes) / len(sizes)


def test_pairwise_judging_asks_once_for_every_pair() -> None:
    found = load({"shape": "pairwise", "batch": 7})

    assert found.requests == pytest.approx(pooled() * NUGGETS, rel=0.02)
    assert found.input_tokens == FRAME + NUGGET_TOKENS + SIZES.tokens


def test_windows_of_all_nuggets_ask_once_for_every_chunk() -> None:
    assert load({"shape": "windowed"}).requests == pytest.approx(pooled(), rel=0.02)
    assert load({"shape": "windowed", "window": 3}).requests == pytest.approx(
        2 * pooled(), rel=0.02
    )


def test_votes_multiply_the_requests() -> None:
    once, thrice = load({}), load({"votes": 3})

    assert thrice.requests == pytest.approx(3 * once.requests, abs=3)
    assert thrice.input_tokens == once.input_tokens


def test_a_small_window_takes_more_requests_that_fit() -> None:
    plain, small = load({}), load({}, context=8192, max_tokens=2048)
    tiny = load({}, context=2048, max_tokens=512)

    assert plain.requests < small.requests < tiny.requests
    assert small.input_tokens * 1.3 + 2048 <= 8192
    assert load({}, context=1_000_000) == plain


def test_grades_make_longer_replies() -> None:
    assert load({"scale": "graded_3"}).output_tokens > load({}).output_tokens
    assert load({"scale": "graded_3"}, max_tokens=600).requests > load({}, max_tokens=600).requests


@pytest.mark.parametrize(("compare", "requests"), [(0, 0), (30, 30), (10**6, round(pooled()))])
def test_the_sample_is_at_most_the_pool(compare: int, requests: int) -> None:
    found = expected_singles(settings({"compare": compare}), QUERIES, FRAME, SIZES)

    assert found.requests == requests


def test_an_empty_corpus_is_not_judged() -> None:
    assert expected_support(settings({}), QUERIES, FRAME, ChunkSizes(0, 0)).requests == 0
    assert expected_support(
        settings({"shape": "pairwise"}), QUERIES, FRAME, ChunkSizes(0, 0)
    ) == Load(0, 0, 0)
