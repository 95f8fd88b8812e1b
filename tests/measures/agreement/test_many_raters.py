"""Any number of raters: the papers' examples, by property, and against the package krippendorff."""

import random

import krippendorff
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.measures.agreement import Level, fleiss_kappa, krippendorff_alpha
from freshstack_dspy.measures.statistics import Estimate
from tests.measures.strategies import untimed

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


def test_fleiss_kappa_by_hand() -> None:
    """Three raters of 4 items: agreement (1 + 1 + 1/3 + 1/3) / 4, shares 7/12 and 5/12."""
    kappa = fleiss_kappa([(1, 1, 1), (0, 0, 0), (1, 1, 0), (1, 1, 0)])

    chance = (7 / 12) ** 2 + (5 / 12) ** 2
    assert kappa.value == pytest.approx((2 / 3 - chance) / (1 - chance))


def test_an_item_weighs_the_same_however_many_raters_it_has() -> None:
    """Agreement (1 + 0 + 1) / 3, share of 1: (1 + 1/2 + 0) / 3 = 1/2; the lone label is left out."""
    kappa = fleiss_kappa([(1, 1, 1, 1, 1), (1, 0), (0, 0), (1,), ()])

    assert kappa.value == pytest.approx((2 / 3 - 1 / 2) / (1 - 1 / 2))


def test_a_missing_label_is_no_zero() -> None:
    there: Items = [[1, 1, None], [0, 0, None], [1, None, None], [1, 0, 1]]
    not_there: Items = [[1, 1], [0, 0], [1, 0, 1]]
    zeros = [[label or 0 for label in item] for item in there]

    assert fleiss_kappa(there) == fleiss_kappa(not_there) != fleiss_kappa(zeros)
    for level in LEVELS:
        found = krippendorff_alpha(there, level)
        assert found == krippendorff_alpha(not_there, level) != krippendorff_alpha(zeros, level)


def test_what_is_undefined_says_why() -> None:
    nobody = Estimate(reason="no item was labelled by two raters")
    no_variation = Estimate(reason="all raters gave the label 2 to every item")

    for items in NOT_SHARED:
        assert fleiss_kappa(items) == nobody == krippendorff_alpha(items)
    assert fleiss_kappa([(2, 2), (2, 2, 2), (0,)]) == no_variation
    assert krippendorff_alpha([(2, 2), (2, 2, 2), (0,)], "interval") == no_variation


def test_a_level_of_another_name_is_refused() -> None:
    with pytest.raises(ValueError, match="nominal, ordinal, interval, not 'ratio'"):
        krippendorff_alpha([(1, 2)], "ratio")  # type: ignore[arg-type]


@untimed
@given(item_lists, st.sampled_from(LEVELS))
def test_alpha_is_that_of_the_package_krippendorff(items: Items, level: Level) -> None:
    alpha = krippendorff_alpha(items, level)

    if alpha.value is not None:
        raters = max(map(len, items))
        rows = [[*item, *[None] * (raters - len(item))] for item in items]
        table = np.array(rows, dtype=float).T
        theirs = krippendorff.alpha(reliability_data=table, level_of_measurement=level)
        assert theirs == pytest.approx(alpha.value, abs=1e-9)


@untimed
@given(
    st.integers(2, 5).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, 3), min_size=n, max_size=n), min_size=1)
    )
)
def test_with_as_many_labels_each_fleiss_and_nominal_alpha_are_bound(
    items: list[list[int]],
) -> None:
    """1 - alpha = (1 - kappa) (n - 1) / n, of n labels: they differ in how chance is drawn."""
    kappa, alpha = fleiss_kappa(items), krippendorff_alpha(items)

    assert kappa.reason == alpha.reason
    if kappa.value is not None and alpha.value is not None:
        n = sum(map(len, items))
        assert 1 - alpha.value == pytest.approx((1 - kappa.value) * (n - 1) / n)


@untimed
@given(item_lists, st.sampled_from(LEVELS), st.randoms(use_true_random=False))
def test_neither_the_order_of_items_nor_that_of_raters_matters(
    items: Items, level: Level, order: random.Random
) -> None:
    shuffled = [order.sample(item, len(item)) for item in order.sample(items, len(items))]

    assert krippendorff_alpha(shuffled, level) == krippendorff_alpha(items, level)
    one, other = fleiss_kappa(shuffled), fleiss_kappa(items)
    assert one.reason == other.reason
    assert one.value == pytest.approx(other.value, abs=1e-12)


@untimed
@given(item_lists)
def test_full_agreement_is_one_and_nothing_is_more(items: Items) -> None:
    agreeing = [[label, label] for item in items for label in item[:1]]

    for figure in (fleiss_kappa, krippendorff_alpha):
        full = figure(agreeing).value
        assert full is None or full == 1
        found = figure(items).value
        assert found is None or found <= 1
