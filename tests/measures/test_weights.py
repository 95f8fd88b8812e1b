"""Means per question that users asked: a question counts as often as it was asked."""

import math
from random import Random
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy import Collection, compare, evaluate, export_collection
from freshstack_dspy.measures.decision import decide
from freshstack_dspy.measures.evaluation import QueryGroups, grouped
from freshstack_dspy.measures.statistics import (
    deviation,
    macro_interval,
    mean_interval,
    weighted,
    weighted_mean,
)
from freshstack_dspy.pages.terminal import page_text
from freshstack_dspy.records import Query

ASKED = st.lists(st.tuples(st.floats(0, 1), st.integers(1, 9)), min_size=2, max_size=12).map(
    lambda pairs: {f"q{n}": pair for n, pair in enumerate(pairs)}
)


@given(ASKED)
def test_a_weight_counts_as_so_many_equal_questions(asked: dict[str, tuple[float, int]]) -> None:
    values = {query: value for query, (value, _) in asked.items()}
    weights = {query: float(number) for query, (_, number) in asked.items()}
    repeated = [value for value, number in asked.values() for _ in range(number)]
    mean = weighted_mean(values, weights)
    assert mean == pytest.approx(fmean(repeated))
    prepared = weighted(list(values.values()), list(weights.values()))
    assert fmean(prepared.terms) == pytest.approx(mean)
    assert fmean(prepared.linearized) == pytest.approx(mean)
    # The standard error by leaving out one question at a time.
    n = len(values)
    without = [weighted_mean({o: v for o, v in values.items() if o != q}, weights) for q in values]
    by_hand = math.sqrt((n - 1) / n * sum((each - fmean(without)) ** 2 for each in without))
    assert deviation(prepared.linearized) / math.sqrt(n) == pytest.approx(by_hand, abs=1e-9)


@pytest.mark.parametrize(
    ("weight", "blocked"), [(1e4, "few questions"), (1e20, "few questions"), (2, None)]
)
def test_one_question_of_great_weight_decides_nothing(weight: float, blocked: str | None) -> None:
    differences = [0.3] + [0.1, -0.1] * 10

    decision = decide("m", ("a", "b"), differences, weights=[weight] + [1.0] * 20)

    assert decision.blocked == blocked
    assert decision.outcome != "ship"


def test_decisions_by_skewed_weights_are_as_seldom_wrong_as_others() -> None:
    """The weights of words in a text, of rank ** -1.2; the two runs are equal."""
    chance, weights = Random(5), [rank**-1.2 for rank in range(1, 201)]
    columns = [[chance.gauss(0, 0.3) for _ in weights] for _ in range(300)]
    decisions = [decide("m", ("a", "b"), column, weights=weights) for column in columns]
    assert sum(each.outcome == "ship" for each in decisions) <= 0.05 * len(columns)


@given(ASKED, st.floats(0.1, 50))
def test_equal_weights_change_nothing(asked: dict[str, tuple[float, int]], weight: float) -> None:
    values = {query: value for query, (value, _) in asked.items()}
    weights = dict.fromkeys(values, weight)
    topics = {query: (str(number % 3),) for query, (_, number) in asked.items()}
    for with_weights, without in (
        (mean_interval(values, 200, weights), mean_interval(values, 200)),
        (macro_interval(values, topics, 200, weights), macro_interval(values, topics, 200)),
    ):
        for end in ("value", "low", "high"):
            expected = getattr(without, end)
            assert getattr(with_weights, end) == (
                None if expected is None else pytest.approx(expected, abs=1e-9)
            )
    column = list(values.values())
    equal, plain = (
        decide("m", ("a", "b"), column, weights=each) for each in ([weight] * len(column), ())
    )
    assert [equal.low, equal.high] == pytest.approx([plain.low, plain.high], abs=1e-9)


def asked_collection(**weights: float) -> Collection:
    return Collection.of(
        queries=[
            Query(query_id=q, title=f"How to {q}?", body="", weight=w) for q, w in weights.items()
        ],
        nuggets=[{"nugget_id": f"{q}_0", "query_id": q, "text": "yes"} for q in weights],
        judgments=[
            {"nugget_id": f"{q}_0", "chunk_id": chunk, "query_id": q, "label": int(chunk == q)}
            for q in weights
            for chunk in (q, "none")
        ],
        chunks=[{"id": chunk, "text": f"About {chunk}."} for chunk in (*weights, "none")],
    )


def test_every_mean_of_a_collection_is_per_question_asked() -> None:
    collection = asked_collection(often=30, seldom=6, rare=1.5)
    finds: dict[str, Any] = {q: {q: 2.0, "none": 1.0} for q in ("often", "rare")}
    run = finds | {"seldom": {"none": 1.0}}
    other = {q: {"none": 1.0} for q in ("often", "seldom", "rare")}
    evaluation = evaluate(collection, run, ["Recall@1"])
    assert evaluation.means["Recall@1"] == pytest.approx(31.5 / 37.5)
    assert evaluation.intervals["Recall@1"].value == pytest.approx(31.5 / 37.5)
    comparison = compare(collection, {"other": other, "mine": run}, ["Recall@1"])
    (difference,) = comparison.differences
    assert difference.interval.value == pytest.approx(31.5 / 37.5)
    assert comparison.means["mine"]["Recall@1"] == pytest.approx(31.5 / 37.5)
    assert comparison.decisions[0].difference == pytest.approx(31.5 / 37.5)
    groups = QueryGroups(by="x", rule="by hand", members={"a": ("often", "seldom"), "b": ("rare",)})
    by_group = grouped(evaluation, groups)
    assert by_group.groups["a"].means["Recall@1"] == pytest.approx(30 / 36)
    assert by_group.macro["Recall@1"].value == pytest.approx((30 / 36 + 1) / 2)
    assert "as often as asked" in page_text(comparison.page())
    assert "as often as asked" not in page_text(
        compare(asked_collection_plain(), [run, other]).page()
    )


def asked_collection_plain() -> Collection:
    collection = asked_collection(often=1, seldom=1, rare=1)
    queries = [query.model_copy(update={"weight": None}) for query in collection.queries]
    return Collection.of(
        queries=queries,
        nuggets=collection.nuggets,
        judgments=collection.judgments,
        chunks=[{"id": chunk, "text": "text"} for chunk in ("often", "seldom", "rare", "none")],
    )


def test_a_weight_is_written_and_read(tmp_path: Any) -> None:
    asked_collection(often=30, rare=1.5).save(tmp_path / "asked")
    read = Collection.load(tmp_path / "asked")
    assert {query.query_id: query.weight for query in read.queries} == {"often": 30, "rare": 1.5}
    assert "weight" not in asked_collection_plain().queries[0].model_dump()
    lost = export_collection(read, "beir", tmp_path / "beir").left_out
    assert any("how often each question was asked" in line for line in lost)
