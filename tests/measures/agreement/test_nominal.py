import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from sklearn.metrics import cohen_kappa_score, confusion_matrix, precision_score, recall_score

from freshstack_dspy.measures.agreement import (
    by_class,
    class_precision,
    class_recall,
    cohen_kappa,
    confusion,
    exact_match,
)
from freshstack_dspy.measures.statistics import Estimate
from tests.measures.strategies import untimed

# Judge down, person across:  0 1
#                          0  4 1
#                          1  2 3
TEN = [(0, 0)] * 4 + [(0, 1)] + [(1, 0)] * 2 + [(1, 1)] * 3
pair_lists = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1)


def test_ten_pairs_by_hand() -> None:
    assert exact_match(TEN).value == 0.7
    assert pytest.approx(cohen_kappa(TEN).value) == (0.7 - 0.5) / (1 - 0.5)
    assert class_precision(TEN, 1).value == 3 / 5
    assert class_recall(TEN, 1).value == 3 / 4
    assert class_precision(TEN, 0).value == 4 / 5
    assert class_recall(TEN, 0).value == 4 / 6


def test_a_confusion_has_the_judge_down_and_the_person_across() -> None:
    table = confusion(TEN)

    assert table.labels == (0, 1)
    assert table.counts == ((4, 1), (2, 3))


def test_each_label_has_its_counts_precision_and_recall() -> None:
    zero, one = by_class(TEN)

    assert (zero.label, zero.by_judge, zero.by_person, zero.precision.value) == (0, 5, 6, 0.8)
    assert (one.label, one.by_judge, one.by_person, one.recall.value) == (1, 5, 4, 0.75)


def test_kappa_is_undefined_where_both_raters_gave_one_label_to_all() -> None:
    kappa = cohen_kappa([(1, 1)] * 5)

    assert kappa.value is None
    assert kappa.reason == "both raters gave the label 1 to every item"


def test_kappa_is_zero_where_only_one_rater_gave_one_label_to_all() -> None:
    assert cohen_kappa([(1, 1), (1, 0), (1, 1)]).value == 0
    assert cohen_kappa([(0, 1), (0, 1)]).value == 0


def test_raters_who_never_agree_have_a_negative_kappa() -> None:
    assert cohen_kappa([(0, 1), (1, 0)]).value == -1


def test_without_pairs_nothing_is_defined() -> None:
    reason = Estimate(reason="there are no pairs of labels")

    assert reason == cohen_kappa([]) == exact_match([])
    assert by_class([]) == ()
    assert confusion([]).labels == ()


def test_precision_and_recall_of_a_label_that_was_not_given_are_undefined() -> None:
    assert class_precision([(1, 2)], 2).reason == "the judge never gave the label 2"
    assert class_recall([(1, 2)], 2).value == 0
    assert class_recall([(1, 2)], 1).reason == "the person never gave the label 1"


def test_an_estimate_has_a_value_or_a_reason() -> None:
    with pytest.raises(ValidationError, match="a value or the reason"):
        Estimate()
    with pytest.raises(ValidationError, match="a value or the reason"):
        Estimate(value=0.5, reason="both")


@untimed
@given(pair_lists)
def test_kappa_is_that_of_sklearn(pairs: list[tuple[int, int]]) -> None:
    judge, person = zip(*pairs, strict=True)
    kappa = cohen_kappa(pairs)

    if kappa.value is None:
        assert {judge[0]} == set(judge) == set(person)
    else:
        assert cohen_kappa_score(judge, person) == pytest.approx(kappa.value, abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(pair_lists)
def test_confusion_precision_and_recall_are_those_of_sklearn(pairs: list[tuple[int, int]]) -> None:
    judge, person = zip(*pairs, strict=True)
    table = confusion(pairs)

    theirs = confusion_matrix(judge, person, labels=range(4)).tolist()
    assert [[theirs[row][column] for column in table.labels] for row in table.labels] == [
        list(row) for row in table.counts
    ]
    for row in by_class(pairs):
        only = {"labels": [row.label], "average": "micro", "zero_division": 0}
        if row.by_judge:
            assert precision_score(person, judge, **only) == pytest.approx(row.precision.value)
        if row.by_person:
            assert recall_score(person, judge, **only) == pytest.approx(row.recall.value)


@untimed
@given(pair_lists)
def test_kappa_is_symmetric_and_at_most_one(pairs: list[tuple[int, int]]) -> None:
    kappa = cohen_kappa(pairs)

    assert kappa == cohen_kappa([(person, judge) for judge, person in pairs])
    assert kappa.value is None or -1 <= kappa.value <= 1
    assert (kappa.value == 1) == (exact_match(pairs).value == 1 and kappa.value is not None)
