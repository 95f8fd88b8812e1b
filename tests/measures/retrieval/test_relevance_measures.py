"""Precision, reciprocal rank, average precision and the like, by hand on five chunks."""

import pytest
from hypothesis import given

from freshstack_dspy.measures.qrels import Judged
from freshstack_dspy.measures.ranking import (
    average_precision,
    f1,
    judged_share,
    ndcg,
    precision,
    r_precision,
    recall,
    reciprocal_rank,
    success,
)
from tests.measures.five import LABELS
from tests.measures.strategies import NuggetLabels, cutoffs, labels, rankings, untimed

# a, b and d are relevant, c is not, e has no label.


@pytest.mark.parametrize(
    ("ranking", "k", "value"),
    [("abcde", 2, 1.0), ("abcde", 4, 3 / 4), ("ab", 10, 2 / 10), ("cea", 2, 0.0), ("", 5, 0.0)],
)
def test_precision_divides_by_k_however_few_were_found(ranking: str, k: int, value: float) -> None:
    assert value == precision(list(ranking), Judged(LABELS), k)


def test_precision_without_a_cut_off_divides_by_what_was_found() -> None:
    assert precision(list("abce"), Judged(LABELS)) == 1 / 2
    assert precision([], Judged(LABELS)) == 0


@pytest.mark.parametrize(
    ("ranking", "k", "value"),
    [("ceb", None, 1 / 3), ("ceb", 3, 1 / 3), ("ceb", 2, 0.0), ("dab", 1, 1.0), ("", None, 0.0)],
)
def test_reciprocal_rank_is_that_of_the_first_relevant_chunk(
    ranking: str, k: int | None, value: float
) -> None:
    assert value == reciprocal_rank(list(ranking), Judged(LABELS), k)


@pytest.mark.parametrize(
    ("ranking", "k", "value"),
    [
        ("acbed", None, (1 + 2 / 3 + 3 / 5) / 3),
        ("acbed", 3, (1 + 2 / 3) / 3),
        ("abd", None, 1.0),
        ("abd", 1, 1 / 3),
        ("ce", None, 0.0),
        ("", None, 0.0),
    ],
)
def test_average_precision_is_over_all_relevant_chunks(
    ranking: str, k: int | None, value: float
) -> None:
    assert value == pytest.approx(average_precision(list(ranking), Judged(LABELS), k), abs=1e-15)


@pytest.mark.parametrize(
    ("ranking", "k", "value"),
    [("cea", None, 1.0), ("cea", 3, 1.0), ("cea", 2, 0.0), ("", None, 0.0)],
)
def test_success_is_one_or_none_at_all(ranking: str, k: int | None, value: float) -> None:
    assert value == success(list(ranking), Judged(LABELS), k)


@pytest.mark.parametrize(
    ("ranking", "value"), [("acbed", 2 / 3), ("ab", 2 / 3), ("ceabd", 1 / 3), ("", 0.0)]
)
def test_r_precision_looks_at_as_many_as_are_relevant(ranking: str, value: float) -> None:
    assert value == r_precision(list(ranking), Judged(LABELS))


@pytest.mark.parametrize(
    ("ranking", "k", "value"),
    [("abd", 3, 1.0), ("abcde", 5, 2 * 3 / (5 + 3)), ("ab", 2, 2 * 2 / 5), ("ce", 2, 0.0)],
)
def test_f1_by_hand(ranking: str, k: int, value: float) -> None:
    assert value == f1(list(ranking), Judged(LABELS), k)


@untimed
@given(labels(), rankings, cutoffs)
def test_f1_is_the_harmonic_mean_of_precision_and_recall(
    labels: NuggetLabels, ranking: list[str], k: int
) -> None:
    judged = Judged(labels)
    both = precision(ranking, judged, k), recall(ranking, judged, k)
    value = f1(ranking, judged, k)

    if both[0] and both[1]:
        assert value == pytest.approx(2 / (1 / both[0] + 1 / both[1]))
    else:
        assert not value


@pytest.mark.parametrize(
    ("ranking", "k", "value"),
    [("abcde", None, 4 / 5), ("abcde", 4, 1.0), ("e", 10, 0.0), ("ae", 10, 1 / 2), ("", 5, None)],
)
def test_the_judged_share_is_of_those_found(
    ranking: str, k: int | None, value: float | None
) -> None:
    assert value == judged_share(list(ranking), Judged(LABELS), k)


def test_a_query_without_a_relevant_chunk_has_no_value() -> None:
    """Not 0 in one measure and none in another: they are then means over the same queries."""
    unsupported = Judged({"n": {"a": 0, "b": -1}, "m": {}})

    for measure in (
        average_precision,
        f1,
        ndcg,
        precision,
        r_precision,
        recall,
        reciprocal_rank,
        success,
    ):
        assert measure(["a"], unsupported, 5) is None
        assert measure([], Judged({}), 5) is None
    assert judged_share(["a", "x"], unsupported, 5) == 1 / 2


@untimed
@given(labels(max_label=3), rankings, cutoffs)
def test_unjudged_chunks_at_the_end_change_nothing(
    labels: NuggetLabels, ranking: list[str], k: int
) -> None:
    longer = [*ranking, "new 1", "new 2"]

    for measure in (average_precision, f1, ndcg, precision, reciprocal_rank, success):
        assert measure(ranking, Judged(labels), k) == measure(longer, Judged(labels), k)


@untimed
@given(labels(max_label=3), rankings, cutoffs)
def test_values_are_from_zero_to_one(labels: NuggetLabels, ranking: list[str], k: int) -> None:
    for measure in (
        average_precision,
        f1,
        judged_share,
        ndcg,
        precision,
        r_precision,
        reciprocal_rank,
        success,
    ):
        value = measure(ranking, Judged(labels), k)
        assert value is None or 0 <= value <= 1 + 1e-15
