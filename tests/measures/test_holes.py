import pytest

from freshstack_dspy.measures.evaluation import find_holes
from freshstack_dspy.measures.qrels import NuggetQrels

from .five import QRELS, in_order, run


def test_a_hole_is_a_chunk_of_the_top_without_a_label() -> None:
    holes = find_holes(QRELS, run({"q": in_order("e", "a", "f", "c")}), 3)

    assert holes.unjudged == {"q": 2 / 3}
    assert holes.mean_unjudged == 2 / 3
    assert holes.failed == {}


def test_a_short_ranking_is_divided_by_its_own_length() -> None:
    assert find_holes(QRELS, run({"q": in_order("a", "e")}), 10).unjudged == {"q": 1 / 2}


def test_a_chunk_judged_for_another_query_only_is_a_hole() -> None:
    qrels = NuggetQrels({"1": ("n",), "2": ("m",)}, {"n": {"a": 1}, "m": {"b": 1}})

    holes = find_holes(qrels, run({"1": in_order("a", "b"), "2": in_order("b")}), 2)

    assert holes.unjudged == {"1": 0.5, "2": 0.0}
    assert holes.mean_unjudged == 0.25


def test_queries_without_results_are_not_in_the_mean() -> None:
    qrels = NuggetQrels({"1": ("n",), "2": ("m",), "3": ("o",)}, {"n": {"a": 1}})

    holes = find_holes(qrels, run({"1": in_order("a", "b"), "2": {}, "x": in_order("b")}), 2)

    assert holes.unjudged == {"1": 0.5}
    assert holes.mean_unjudged == 0.5


def test_without_any_result_there_is_no_mean() -> None:
    assert find_holes(QRELS, run({}), 2).mean_unjudged is None


def test_failed_judgments_of_the_top_are_counted_by_pair() -> None:
    """A chunk whose every judgment failed has no label, so it is a hole as well."""
    qrels = NuggetQrels(
        {"1": ("n", "m"), "2": ("o",)},
        {"n": {"a": 1}, "o": {"a": 0}},
        {"n": frozenset({"b", "deep"}), "m": frozenset({"a", "b"}), "o": frozenset({"z"})},
    )

    holes = find_holes(qrels, run({"1": in_order("a", "b", "deep"), "2": in_order("a")}), 2)

    assert holes.failed == {"1": 3}
    assert holes.unjudged == {"1": 0.5, "2": 0.0}


def test_a_cut_off_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1, not 0"):
        find_holes(QRELS, run({}), 0)
