import pytest

from freshstack_dspy.measures.statistics import pair


def test_only_queries_with_a_value_in_both_are_paired_and_the_others_counted() -> None:
    pairs = pair({"b": 0.5, "a": 1.0, "only": 0.0}, {"a": 0.25, "b": 0.5, "x": 1.0, "y": 1.0})

    assert pairs.queries == ("a", "b")
    assert (pairs.values, pairs.against) == ((1.0, 0.5), (0.25, 0.5))
    assert pairs.differences == (0.75, 0.0)
    assert pairs.left_out == 3


def test_values_that_differ_by_rounding_are_tied() -> None:
    assert pair({"q": 0.1 + 0.2}, {"q": 0.3}).differences == (0.0,)
    assert pair({"q": 1e-15}, {"q": 0.0}).differences == (1e-15,), "a small value is a value"


def test_without_a_common_query_there_are_no_pairs() -> None:
    pairs = pair({"a": 1.0}, {"b": 1.0})

    assert (pairs.queries, pairs.differences, pairs.left_out) == ((), (), 2)


def test_a_value_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="a value is a finite number, not nan"):
        pair({"a": float("nan")}, {"a": 1.0})
