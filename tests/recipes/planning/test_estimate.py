"""What is estimated of a build from its questions and chunks, and how far off it is."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.collection.manifest import StepEstimate, estimate_errors
from freshstack_dspy.config import PoolConfig, load_config
from freshstack_dspy.errors import SourceError
from freshstack_dspy.lm.usage import StepLedger
from freshstack_dspy.questions.reading import read_queries
from freshstack_dspy.recipes.build import build
from freshstack_dspy.recipes.corpus import cut_corpora
from freshstack_dspy.recipes.freshstack import FreshStack
from freshstack_dspy.recipes.planning.estimate import dollars, estimate, measure_chunks, spread
from freshstack_dspy.recipes.planning.expected import pool_sizes
from freshstack_dspy.recipes.planning.expected_judging import Load
from freshstack_dspy.recipes.planning.plan import plan
from freshstack_dspy.recipes.planning.planned import Plan, PlannedStep
from freshstack_dspy.recipes.planning.sample import sample_corpus
from freshstack_dspy.recipes.session import Silence
from freshstack_dspy.records import TECHNIQUES
from tests.recipes.domain import domain
from tests.recipes.scripted import ScriptedProvider

QUICKSTART = Path(__file__).parents[3] / "examples/quickstart"
PRICES = {"input": 10.0, "output": 100.0, "batch_input": 5.0, "batch_output": 50.0}


def steps_of(found: Plan) -> dict[str, PlannedStep]:
    return {step.step: step for step in found.steps}


def test_a_small_corpus_is_sampled_whole(tmp_path: Path) -> None:
    config = domain(tmp_path)
    chunks = cut_corpora(config, Silence()).chunks

    assert sample_corpus(config, Silence()) == measure_chunks(chunks)
    assert measure_chunks(chunks).chunks == 5


def test_a_corpus_without_text_is_an_error(tmp_path: Path) -> None:
    config = domain(tmp_path)
    only_pictures = config.corpus[0].model_copy(update={"include": ("*.png",)})

    with pytest.raises(SourceError, match="can be indexed"):
        sample_corpus(config.model_copy(update={"corpus": (only_pictures,)}), Silence())


def test_the_manifest_estimate_is_the_plan_of_an_empty_store(tmp_path: Path) -> None:
    """Up to rounding, whatever is recorded: so that a replay comes to the same manifest."""
    config = domain(tmp_path, prices=PRICES)
    queries = read_queries(config.queries).queries
    chunks = cut_corpora(config, Silence()).chunks
    before = estimate(config, FreshStack(config), queries, chunks)

    planned = steps_of(plan(config))
    build(config, provider=ScriptedProvider())

    assert estimate(config, FreshStack(config), queries, chunks) == before
    for name, step in planned.items():
        assert before[name].requests == step.requests
        assert before[name].input_tokens == pytest.approx(step.input_tokens, abs=step.requests / 2)
        assert before[name].output_tokens == step.output_tokens
        assert before[name].cost == pytest.approx(step.cost, rel=0.01)


def test_the_estimate_of_the_sample_is_within_a_third(tmp_path: Path) -> None:
    """Its replies are recorded, so what a build takes is known."""
    config = load_config(QUICKSTART / "build.toml")
    folders = {
        "index": config.index.model_copy(update={"path": tmp_path / "index"}),
        "cache": config.cache.model_copy(update={"path": tmp_path / "cache", "bundles": ()}),
    }
    unrecorded = config.model_copy(update=folders)
    bundles = {"cache": folders["cache"].model_copy(update={"bundles": config.cache.bundles})}

    estimated = plan(unrecorded).total
    actual = plan(unrecorded.model_copy(update=bundles)).total

    assert actual.recorded == actual.requests == 90
    assert abs(estimated.requests / actual.requests - 1) < 1 / 3


@given(
    top_k=st.integers(1, 50),
    techniques=st.integers(1, 5),
    chunks=st.integers(1, 200_000),
    more=st.integers(0, 100_000),
)
def test_pools_hold_what_one_technique_finds_and_at_most_what_all_find(
    top_k: int, techniques: int, chunks: int, more: int
) -> None:
    config = PoolConfig(top_k=top_k, techniques=TECHNIQUES[:techniques])
    sizes = pool_sizes(config, chunks)
    larger = pool_sizes(config, chunks + more)

    assert min(sizes) >= min(top_k, chunks)
    assert max(sizes) <= min(top_k * techniques, chunks)
    assert sizes == sorted(sizes)
    assert all(one <= other + 1e-9 for one, other in zip(sizes, larger, strict=True))
    if techniques == 1:
        assert set(sizes) == {min(top_k, chunks)}


def test_the_pool_of_a_large_corpus_is_what_was_measured() -> None:
    """66.5 chunks of 63,536, with the embedded baseline."""
    sizes = pool_sizes(PoolConfig(), 63_536)

    assert sum(sizes) / len(sizes) == pytest.approx(66.5, rel=0.1)


@given(st.lists(st.integers(), max_size=300), st.integers(1, 20))
def test_a_sample_is_spread_in_order(items: list[int], most: int) -> None:
    sample = spread(items, most)

    assert len(sample) <= most
    assert bool(sample) == bool(items)
    if len(items) <= most:
        assert sample == items


def test_no_requests_cost_nothing_without_a_price() -> None:
    assert dollars([], None) == 0
    assert dollars([Load(1, 1, 1)], None) is None


def test_errors_count_recorded_replies_and_new_ones_alike() -> None:
    estimated = StepEstimate(requests=110, input_tokens=900, output_tokens=100, cost=3.0)
    account = StepLedger(calls=60, cached=40, tokens=500, cached_tokens=300, cost=1, cached_cost=1)

    (error,) = estimate_errors(
        {"support": estimated, "nuggets": estimated}, {"support": account, "other": account}
    )

    assert (error.step, error.requests, error.made) == ("support", 110, 100)
    assert (error.tokens, error.used) == (1000, 800)
    assert (error.cost, error.paid) == (3.0, 2.0)
    assert error.requests_off == pytest.approx(0.1)
    assert error.tokens_off == pytest.approx(0.25)


def test_there_is_no_error_where_nothing_was_counted() -> None:
    estimated = StepEstimate(requests=1, input_tokens=1, output_tokens=1)

    (error,) = estimate_errors({"support": estimated}, {"support": StepLedger()})

    assert (error.requests_off, error.tokens_off) == (None, None)
