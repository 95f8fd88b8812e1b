import pytest

from freshstack_dspy.measures.compare import measure_agreements, ranking_agreement
from freshstack_dspy.measures.evaluation import Evaluation
from freshstack_dspy.measures.statistics import kendall_tau

FIRST = {
    "a": {"q1": 0.9, "q2": 0.8, "q3": 0.5},
    "b": {"q1": 0.6, "q2": 0.9, "q3": 0.5},
    "c": {"q1": 0.1, "q2": 0.2, "q3": 0.5},
}


def evaluation(run: str, per_query: dict[str, dict[str, float]]) -> Evaluation:
    measures = tuple(next(iter(per_query.values())))
    means = {
        measure: sum(of[measure] for of in per_query.values()) / len(per_query)
        for measure in measures
    }
    return Evaluation(
        run=run, measures=measures, means=means, per_query=per_query, absent=(), empty=(),
        without_relevant=(), unknown=(), holes=(),
    )  # fmt: skip


def test_the_same_values_agree() -> None:
    """Within q3 all runs are tied, so two queries are left."""
    found = ranking_agreement(FIRST, FIRST)

    assert found.kendall.value == found.spearman.value == found.top.value == 1
    assert (found.within_queries.value, found.queries, found.undefined) == (1, 2, 1)
    assert found.all_pairs.value == 1


def test_by_hand_means_can_agree_where_no_query_does() -> None:
    """Means 2/3, 1/2, 1/3 both times; but q1 has the runs as abc here and as bca there."""
    one = {
        "a": {"q1": 1.0, "q2": 1 / 3},
        "b": {"q1": 0.5, "q2": 0.5},
        "c": {"q1": 0.0, "q2": 2 / 3},
    }
    other = {run: {"q1": of["q2"], "q2": of["q1"]} for run, of in one.items()}
    found = ranking_agreement(one, other)

    assert found.kendall.value == 1
    assert (found.within_queries.value, found.queries) == (-1, 2)


def test_on_two_collections_only_the_means_are_compared() -> None:
    there = {
        run: {f"other-{query}": value for query, value in of.items()} for run, of in FIRST.items()
    }
    found = ranking_agreement(FIRST, there)

    assert found.kendall.value == 1
    assert found.within_queries.reason == "no query has two runs that are not tied"
    assert (found.queries, found.undefined) == (0, 6)
    assert found.all_pairs.reason == "an order needs two, not 0"


def test_a_query_without_a_value_for_a_run_is_left_out_and_counted() -> None:
    holey = {**FIRST, "b": {"q1": 0.6, "q3": 0.5}}
    found = ranking_agreement(FIRST, holey)

    assert (found.queries, found.undefined) == (1, 2)


def test_names_that_run_into_each_other_stay_apart() -> None:
    """Run `a b` with query `c`, and run `a` with query `b c`."""
    table = {"a b": {"c": 1.0, "b c": 0.25}, "a": {"c": 0.5, "b c": 0.0}}
    flat = {"1": 1.0, "2": 0.25, "3": 0.5, "4": 0.0}
    other = {"a b": {"c": 1.0, "b c": 0.5}, "a": {"c": 0.0, "b c": 0.25}}
    expected = kendall_tau(flat, {"1": 1.0, "2": 0.5, "3": 0.0, "4": 0.25})

    assert ranking_agreement(table, other).all_pairs == expected


def test_what_can_not_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match="'c' has a value in only one"):
        ranking_agreement(FIRST, {run: FIRST[run] for run in "ab"})
    with pytest.raises(ValueError, match="run 'b' has no value for any query"):
        ranking_agreement(FIRST, {**FIRST, "b": {}})


def test_every_two_measures_are_compared() -> None:
    evaluations = {
        run: evaluation(
            run, {query: {"A@1": of, "B@1": -of, "C@1": of * of} for query, of in values.items()}
        )
        for run, values in FIRST.items()
    }
    found = measure_agreements(evaluations)

    assert [(each.first, each.second) for each in found] == [
        ("A@1", "B@1"), ("A@1", "C@1"), ("B@1", "C@1"),
    ]  # fmt: skip
    assert [each.kendall.value for each in found] == [-1, 1, -1]
    assert [each.within_queries.value for each in found] == [-1, 1, -1]
    assert measure_agreements({}) == ()


def test_a_measure_without_values_for_a_run_is_left_out() -> None:
    some = {
        run: evaluation(run, {q: {"A@1": v, "B@1": v} for q, v in of.items()})
        for run, of in FIRST.items()
    }
    some["b"] = some["b"].model_copy(
        update={"per_query": {q: {"A@1": v} for q, v in FIRST["b"].items()}}
    )

    assert measure_agreements(some) == ()
