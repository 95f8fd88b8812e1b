"""EXAM-Cover and RUBRIC's qrels are measures that there are: `Coverage`, `StRecall` and grades."""

from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.measures.measure import parse_measure
from freshstack_dspy.measures.qrels import Judged
from tests.measures import strategies
from tests.measures.strategies import NuggetLabels, untimed

BANK = {"q1": {"a": 4, "b": 5}, "q2": {"a": 3, "b": 0}, "q3": {"a": 1, "b": 2}, "q4": {"c": 4}}
"""Four questions and the self-ratings of three passages."""


def exam_cover(ranking: list[str], bank: NuggetLabels, k: int, m: int) -> float:
    """The share of the question bank with a rating of at least m in the top k passages."""
    right = [q for q in bank if any(bank[q].get(passage, 0) >= m for passage in ranking[:k])]
    return len(right) / len(bank)


def normalised(ranking: list[str], bank: NuggetLabels, k: int, m: int) -> float | None:
    """The same of the questions that any passage of the pool answers."""
    possible = {q: ratings for q, ratings in bank.items() if max(ratings.values(), default=0) >= m}
    return exam_cover(ranking, possible, k, m) if possible else None


@untimed
@given(strategies.labels(5), strategies.rankings, strategies.cutoffs, st.integers(1, 5))
def test_exam_cover_is_coverage_and_normalised_it_is_subtopic_recall(
    bank: NuggetLabels, ranking: list[str], k: int, m: int
) -> None:
    judged = Judged(bank, m)

    plain = parse_measure(f"Coverage(rel={m})@{k}")
    assert plain(ranking, judged) == exam_cover(ranking, bank, k, m)
    for name in (f"StRecall(rel={m})@{k}", f"Coverage(of='answerable',rel={m})@{k}"):
        assert parse_measure(name)(ranking, judged) == normalised(ranking, bank, k, m)


def test_by_hand() -> None:
    assert parse_measure("Coverage(rel=4)@2")(["a", "b", "c"], Judged(BANK, 4)) == 1 / 4
    assert parse_measure("StRecall(rel=4)@2")(["a", "b", "c"], Judged(BANK, 4)) == 1 / 2


def test_the_qrels_of_rubric_are_grades() -> None:
    """Of a passage its highest rating, or how many questions it answers with at least m."""
    judged = Judged(BANK, 3)

    assert judged.grades("max") == {"a": 4, "b": 5, "c": 4}
    assert judged.grades("count") == {"a": 2, "b": 1, "c": 1}


def test_the_measures_of_trec_eval_take_these_grades() -> None:
    """Log-discounted, by hand: the ideal of the highest ratings is b, a, c, of the counts a, b, c."""
    judged = Judged(BANK, 3)
    discounts = [1 / log2(rank + 1) for rank in (1, 2, 3)]

    def dcg(*grades: int) -> float:
        return sum(grade * discount for grade, discount in zip(grades, discounts, strict=False))

    highest = parse_measure("nDCG(grade='max',rel=3)@3")(["c", "a", "b"], judged)
    assert highest == pytest.approx(dcg(4, 4, 5) / dcg(5, 4, 4))
    counted = parse_measure("nDCG(grade='count',rel=3)@3")(["c", "a", "b"], judged)
    assert counted == pytest.approx(dcg(1, 2, 1) / dcg(2, 1, 1))


@untimed
@given(strategies.labels(5), st.integers(1, 5))
def test_grades_are_those_of_rubric(bank: NuggetLabels, m: int) -> None:
    passages = {passage for ratings in bank.values() for passage in ratings}
    rows = {p: [ratings[p] for ratings in bank.values() if p in ratings] for p in passages}
    judged = Judged(bank, m)

    assert judged.grades("max") == {p: max(row) for p, row in rows.items() if max(row) >= m}
    counts = {p: sum(rating >= m for rating in row) for p, row in rows.items()}
    assert judged.grades("count") == {p: count for p, count in counts.items() if count}
