"""nDCG: worked examples, the rules of a chunk's grade, and what it does with large ones."""

from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.measures.measure import parse_measure
from freshstack_dspy.measures.qrels import Judged
from freshstack_dspy.measures.ranking import ndcg
from tests.measures.five import LABELS
from tests.measures.strategies import untimed

FIVE = ["d1", "d2", "d3", "d4", "d5"]
# A worked example of a chapter on benchmarks: grades 3, 2, 0, 0, 1 in the order retrieved.
GRADED = {"n": {"d1": 3, "d2": 2, "d3": 0, "d4": 0, "d5": 1}}


def test_the_worked_example_of_the_benchmarks_chapter() -> None:
    value = parse_measure("nDCG(dcg='exp-log2')@5")(FIVE, Judged(GRADED))
    dcg, ideal = 7 + 3 / log2(3) + 1 / log2(6), 7 + 3 / log2(3) + 1 / log2(4)

    assert (round(dcg, 3), round(ideal, 3)) == (9.280, 9.393)
    assert value == pytest.approx(dcg / ideal, abs=1e-15)
    assert value is not None
    assert round(value, 3) == 0.988


def test_the_default_gain_is_the_grade_itself_as_in_trec_eval() -> None:
    """What most people call nDCG@10; by Burges' gains the same ranking has another value."""
    linear = (3 + 2 / log2(3) + 1 / log2(6)) / (3 + 2 / log2(3) + 1 / log2(4))

    assert ndcg(FIVE, Judged(GRADED), 5) == pytest.approx(linear, abs=1e-15)
    assert ndcg(FIVE, Judged(GRADED), 5) != ndcg(FIVE, Judged(GRADED), 5, dcg="exp-log2")


def test_a_chunk_gains_as_many_as_the_nuggets_it_supports() -> None:
    """The qrels by query of the official package: a supports two nuggets, b and d one each."""
    ideal = 2 + 1 / log2(3) + 1 / log2(4)

    assert ndcg(list("bad"), Judged(LABELS), 3) == pytest.approx(
        (1 + 2 / log2(3) + 1 / log2(4)) / ideal, abs=1e-15
    )
    assert ndcg(list("bad"), Judged(LABELS), 3, grade="max") == 1


@pytest.mark.parametrize(
    ("grade", "first", "second"), [("sum", 4, 3), ("count", 2, 1), ("max", 3, 3)]
)
def test_the_rules_of_a_grade(grade: str, first: int, second: int) -> None:
    """Labels: a 1 and 3, b 3 and -2. Those below the least that supports never count."""
    labels = {"n": {"a": 1, "b": -2}, "m": {"a": 3, "b": 3}}
    value = parse_measure(f"nDCG(grade='{grade}')@1")(["b"], Judged(labels))

    assert value == pytest.approx(second / first)
    assert ndcg(["b"], Judged(labels, rel=2), 1) == 1


def test_the_ideal_has_all_relevant_chunks_and_is_cut_with_the_ranking() -> None:
    many = {"n": {f"d{number}": 1 for number in range(100)}}

    assert ndcg(["d5"], Judged(many), 1) == 1
    assert ndcg(["d5"], Judged(many), 2) == pytest.approx(1 / (1 + 1 / log2(3)))
    assert ndcg(["d5"], Judged(many)) == pytest.approx(
        1 / sum(1 / log2(rank + 1) for rank in range(1, 101))
    )


@pytest.mark.parametrize("high", [53, 1024, 10**6, 10**400])
def test_no_grade_is_too_large_for_exponential_gains(high: int) -> None:
    value = ndcg(["b", "a"], Judged({"n": {"a": high, "b": 1}}), 2, dcg="exp-log2")

    assert value == pytest.approx(1 / log2(3))


@untimed
@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(-3, 60), min_size=1), st.data())
def test_exponential_gains_are_what_their_definition_says(
    labels: dict[str, int], data: st.DataObject
) -> None:
    ranking = data.draw(st.lists(st.sampled_from("abcdefxyz"), unique=True))
    gains = [2 ** max(labels.get(chunk, 0), 0) - 1 for chunk in ranking]
    best = sorted((2 ** max(label, 0) - 1 for label in labels.values()), reverse=True)
    value = ndcg(ranking, Judged({"n": labels}), dcg="exp-log2")

    if value is not None:
        reached, ideal = (
            sum(gain / log2(rank + 2) for rank, gain in enumerate(each)) for each in (gains, best)
        )
        assert value == pytest.approx(reached / ideal)


def test_unknown_choices_are_refused() -> None:
    with pytest.raises(ValueError, match="dcg is 'log2' or 'exp-log2', not 'ln'"):
        ndcg(["a"], Judged(LABELS), 1, dcg="ln")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="grade is 'sum', 'count' or 'max', not 'mean'"):
        ndcg(["a"], Judged(LABELS), 1, grade="mean")  # type: ignore[arg-type]
