"""Optimizing a reranker on the nuggets of a collection: its examples, its metric and its report."""

import json
from collections.abc import Callable, Iterator
from math import log2
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import ModelConfig, ReplyStore, connect, evaluate, optimize
from freshstack_dspy.calibration.examples import split_by_query
from freshstack_dspy.calibration.reranking import RankingMetric, ranking_examples
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.lm.client import RecordedLM
from freshstack_dspy.measures.run import Run
from freshstack_dspy.programs.reranking import (
    ListwiseReranker,
    PointwiseReranker,
    SetwiseReranker,
)
from freshstack_dspy.programs.saved import load_program, save_program
from tests.recipes.scripted import Said

from .people import Taught
from .ranked import GIVEN, IDEAL, collection, ranked, run

Connect = Callable[..., RecordedLM]
PLAIN = 1 / log2(4) + 0.5 / log2(5) + 1 / log2(6)
"""DCG of the order of a model that was not taught: the first fact at rank 3."""


@pytest.fixture
def lm_to(tmp_path: Path) -> Iterator[Connect]:
    store = ReplyStore(tmp_path / "cache")
    model = ModelConfig(name="openai/scripted", retries=0, concurrency=2)
    yield lambda provider, mode="live": connect(model, mode=mode, store=store, provider=provider)
    store.close()


def test_demonstrations_of_the_best_order_teach_a_model_and_the_gain_is_that_of_runs(
    lm_to: Connect, tmp_path: Path
) -> None:
    minerals, given, model = collection(), run(), Taught(RankPassages=ranked)
    examples = ranking_examples(minerals, given, ListwiseReranker())
    metric = RankingMetric(minerals, "alpha_nDCG@10", against="given")

    found = optimize(
        examples, lm_to(model), program=ListwiseReranker(), metric=metric, optimizer="labeled"
    )

    report = found.report
    assert report.queries == {"train": 10, "dev": 5, "test": 10}
    assert report.labels_by == minerals.labels_by
    assert report.demonstrations == 2
    gain, against = report.test["alpha_nDCG@10"], report.test["alpha_nDCG@10 against given"]
    assert gain.before.value == pytest.approx(PLAIN / IDEAL)
    assert gain.after.value == against.after.value == pytest.approx(1)
    assert gain.difference.value == pytest.approx(1 - PLAIN / IDEAL)
    assert against.before.value == pytest.approx(GIVEN / IDEAL)
    assert against.difference.value == pytest.approx(1 - GIVEN / IDEAL)
    assert gain.difference.groups == 10
    best = report.test["alpha_nDCG@10 against the best order"]
    assert best.before.value == pytest.approx(1)
    assert best.difference.value == pytest.approx(0)
    assert metric.reachable(examples) == pytest.approx((GIVEN / IDEAL, 1))
    assert report.test["Coverage@20"].difference.value == 0
    assert report.calls == model.calls["RankPassages"] == 10 + 5 + 10 + 5 + 10

    # The values are those of evaluated runs.
    test = {example.query.query_id for example in split_by_query(examples).test}
    evaluated = evaluate(minerals, given, ["alpha_nDCG@10"]).only(test).means
    assert evaluated["alpha_nDCG@10"] == pytest.approx(against.before.value)

    # The program is one that reranks elsewhere.
    save_program(found.program, tmp_path / "reranker.json", report)
    loaded = load_program(ListwiseReranker(), tmp_path / "reranker.json")
    assert len(loaded.predict.demos) == 2

    replayed = optimize(
        examples,
        lm_to(None, "replay"),
        program=ListwiseReranker(),
        metric=metric,
        optimizer="labeled",
    )
    assert replayed.report == report


def test_a_model_learns_from_its_own_good_orders_and_from_feedback(lm_to: Connect) -> None:
    """Without demonstrations it is right about some questions, or where it is told what counts."""

    def rank(inputs: Any, *, shown: bool) -> Any:
        return ranked(inputs, shown=shown or inputs["question"]["title"] < "What does k")

    minerals = collection()
    examples = ranking_examples(minerals, run(), ListwiseReranker())
    report = optimize(
        examples,
        lm_to(Taught(RankPassages=rank)),
        program=ListwiseReranker(),
        metric=RankingMetric(minerals, "AP", against="given"),
        optimizer="bootstrap",
    ).report
    assert 0 < report.demonstrations <= 2
    assert list(report.test)[:3] == ["AP", "alpha_nDCG@10", "Coverage@20"]
    assert report.test["alpha_nDCG@10"].after.value == pytest.approx(1)

    metric, example = RankingMetric(minerals), examples[0]
    answer = ListwiseReranker()(query="q", passages=[])
    answer.order = (0, 2, 1, 3, 4)
    said = metric.feedback(example, answer)
    assert said.score == pytest.approx(PLAIN / IDEAL)
    assert "“melts at once” is in the passages at rank 3, 4" in said.feedback
    assert "Rank 1 holds nothing of the answer: Sample 0 of" in said.feedback
    assert metric.feedback(example, answer, trace=[]) is False
    answer.order = (1,)  # the others follow as given
    assert metric.feedback(example, answer, trace=[]) is True


def test_a_query_with_a_call_that_failed_has_no_value(lm_to: Connect) -> None:
    minerals = collection()
    examples = ranking_examples(minerals, run(), ListwiseReranker())
    title = split_by_query(examples).test[0].query.title

    def rank(inputs: Any, *, shown: bool) -> Any:
        refused = inputs["question"]["title"] == title and not shown
        return Said("No.", "content_filter") if refused else ranked(inputs, shown=shown)

    report = optimize(
        examples,
        lm_to(Taught(RankPassages=rank)),
        program=ListwiseReranker(),
        metric=RankingMetric(minerals),
        optimizer="labeled",
    ).report

    assert report.failures == ({"failed": 1}, {})
    assert report.test["alpha_nDCG@10"].difference.groups == 9
    assert report.test["answered"].before.value == 0.9


@pytest.mark.parametrize("program", [SetwiseReranker(), PointwiseReranker()])
def test_what_cannot_be_tuned_is_said_before_anything_is_asked(
    lm_to: Connect, program: Any
) -> None:
    minerals, model = collection(6), Taught()

    with pytest.raises(ConfigError, match="labeled shows examples as they are"):
        optimize(
            ranking_examples(minerals, run(6), program),
            lm_to(model),
            program=program,
            metric=RankingMetric(minerals),
            optimizer="labeled",
        )
    with pytest.raises(ConfigError, match="there is no measure 'alpha_NDGC@10'; did you mean"):
        RankingMetric(minerals, "alpha_NDGC@10")
    other = Run.from_scores({"amber": {"elsewhere": 1.0}}, name="other")
    with pytest.raises(CollectionError, match="1 candidates of run 'other' have no text"):
        ranking_examples(minerals, other, program)
    assert not model.calls


def test_what_optimizers_show_of_an_example_is_short() -> None:
    minerals = collection(6)
    example = ranking_examples(minerals, run(6), ListwiseReranker())[0]

    shown = repr(example)

    assert "melts at once" in shown
    assert "cave" not in shown
    assert example.people["ranking"] == [2, 5, 4, 1, 3]
    assert json.dumps(example.people)
