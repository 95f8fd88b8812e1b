"""Agreement: worked examples of the papers, and other implementations."""

import krippendorff
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import (
    cohen_kappa_score,
    confusion_matrix,
    precision_recall_fscore_support,
)

from freshstack_dspy.measures.agreement import (
    Level,
    Weights,
    by_class,
    cohen_kappa,
    confusion,
    fleiss_kappa,
    krippendorff_alpha,
    vote_agreement,
    weighted_kappa,
)
from freshstack_dspy.measures.statistics import Estimate

pair_lists = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1)


@given(pair_lists)
def test_kappa_is_that_of_sklearn(pairs: list[tuple[int, int]]) -> None:
    judge, person = zip(*pairs, strict=True)
    kappa = cohen_kappa(pairs)

    if kappa.value is None:
        assert {judge[0]} == set(judge) == set(person)
    else:
        assert cohen_kappa_score(judge, person) == pytest.approx(kappa.value, abs=1e-12)


@given(pair_lists)
def test_confusion_precision_and_recall_are_those_of_sklearn(pairs: list[tuple[int, int]]) -> None:
    judge, person = zip(*pairs, strict=True)
    table = confusion(pairs)

    theirs = confusion_matrix(judge, person, labels=range(4)).tolist()
    assert [[theirs[row][column] for column in table.labels] for row in table.labels] == [
        list(row) for row in table.counts
    ]
    precision, recall, *_ = precision_recall_fscore_support(
        person, judge, labels=range(4), zero_division=0
    )
    for row in by_class(pairs):
        if row.by_judge:
            assert precision[row.label] == pytest.approx(row.precision.value)
        if row.by_person:
            assert recall[row.label] == pytest.approx(row.recall.value)


KINDS: tuple[Weights, ...] = ("linear", "quadratic")


def test_what_is_undefined_says_why() -> None:
    no_pairs = Estimate(reason="there are no pairs of labels")

    assert weighted_kappa([], "linear") == cohen_kappa([]) == no_pairs
    one_label = cohen_kappa([(2, 2)] * 3)
    assert one_label == Estimate(reason="both raters gave the label 2 to every item")
    assert weighted_kappa([(2, 1)] * 3, "quadratic").value == 0
    assert fleiss_kappa([(2, 2), (2, 2, 2), (0,)]).reason == (
        "all raters gave the label 2 to every item"
    )
    unshared = Estimate(reason="no item was labelled by two raters")
    for items in NOT_SHARED:
        assert fleiss_kappa(items) == unshared == krippendorff_alpha(items)


@given(pair_lists, st.sampled_from(KINDS))
def test_weighted_kappa_is_that_of_sklearn(pairs: list[tuple[int, int]], weights: Weights) -> None:
    judge, person = zip(*pairs, strict=True)
    kappa = weighted_kappa(pairs, weights)

    if kappa.value is None:
        assert {judge[0]} == set(judge) == set(person)
    else:
        theirs = cohen_kappa_score(judge, person, weights=weights, labels=range(4))
        assert theirs == pytest.approx(kappa.value, abs=1e-12)


@pytest.mark.parametrize(
    ("votes", "share"),
    [
        ([[1, 1, 1]], 1),
        ([[1, 1, 0]], 1 / 3),
        ([[0, 1, 2]], 0),
        ([[1, 1, 0, 0, 0]], 4 / 10),
        ([[1, 1], [1, 0]], 1 / 2),
        ([[1, 1, 1], [1, 0], [1], []], 1 / 2),
    ],
)
def test_the_share_of_agreeing_pairs_by_hand(votes: list[list[int]], share: float) -> None:
    assert vote_agreement(votes).value == pytest.approx(share)


Items = list[list[int | None]]
LEVELS: tuple[Level, ...] = ("nominal", "ordinal", "interval")
OBSERVERS = """\
1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 ."""
"""Krippendorff 2011, section C: four observers, twelve units, a dot where there is no value."""
DIAGNOSES = """\
00060 03003 01401 00006 03030 20400 00402 20310 20040 00006 10050 11040 03300 10050 02031
00501 30012 51000 02040 10203 00006 01050 02013 20040 10041 05010 40002 02040 10500 00006"""
"""Fleiss 1971, table 1: how many of six psychiatrists gave each of five diagnoses, by patient."""
PSYCHIATRISTS: Items = [
    [place for place, count in enumerate(row) for _ in range(int(count))]
    for row in DIAGNOSES.split()
]
NOT_SHARED: list[Items] = [[], [[]], [[1], [0]], [[1, None], [None, None, 0]]]
labels = st.one_of(st.none(), st.integers(0, 3))
item_lists = st.lists(st.lists(labels, max_size=5), max_size=12)


def of_observers() -> Items:
    rows = [line.split() for line in OBSERVERS.splitlines()]
    return [
        [None if value == "." else int(value) for value in unit] for unit in zip(*rows, strict=True)
    ]


@pytest.mark.parametrize(
    ("level", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_krippendorffs_example(level: Level, alpha: float) -> None:
    assert krippendorff_alpha(of_observers(), level).value == pytest.approx(alpha, abs=5e-4)


def test_fleiss_example() -> None:
    """The paper prints .430; R's irr gives 0.4302445 of the same table."""
    assert {sum(map(int, row)) for row in DIAGNOSES.split()} == {6}
    assert fleiss_kappa(PSYCHIATRISTS).value == pytest.approx(0.4302445, abs=5e-8)


def test_a_missing_label_is_no_zero() -> None:
    there: Items = [[1, 1, None], [0, 0, None], [1, None, None], [1, 0, 1]]
    not_there: Items = [[1, 1], [0, 0], [1, 0, 1]]
    zeros = [[label or 0 for label in item] for item in there]

    assert fleiss_kappa(there) == fleiss_kappa(not_there) != fleiss_kappa(zeros)
    for level in LEVELS:
        found = krippendorff_alpha(there, level)
        assert found == krippendorff_alpha(not_there, level) != krippendorff_alpha(zeros, level)


@given(item_lists, st.sampled_from(LEVELS))
def test_alpha_is_that_of_the_package_krippendorff(items: Items, level: Level) -> None:
    alpha = krippendorff_alpha(items, level)

    if alpha.value is not None:
        raters = max(map(len, items))
        rows = [[*item, *[None] * (raters - len(item))] for item in items]
        table = np.array(rows, dtype=float).T
        theirs = krippendorff.alpha(reliability_data=table, level_of_measurement=level)
        assert theirs == pytest.approx(alpha.value, abs=1e-9)
