"""Agreement: worked examples of the papers, and other implementations."""

import krippendorff
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import binomtest
from sklearn.metrics import (
    cohen_kappa_score,
    confusion_matrix,
    precision_recall_fscore_support,
)

from freshstack_dspy.measures.kappa import (
    Level,
    Tables,
    Weights,
    alpha,
    coincidences_of,
    confusion,
    disagreement_bound,
    fleiss,
    kappa,
    least_kappa,
    precision,
    recall,
    table_of,
    vote_agreement,
)

pair_lists = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1)


@given(pair_lists, st.sampled_from([None, "linear", "quadratic"]))
def test_kappa_is_that_of_sklearn(pairs: list[tuple[int, int]], weights: Weights | None) -> None:
    judge, person = zip(*pairs, strict=True)
    found = kappa(table_of(pairs, 4), weights)

    if np.isnan(found):
        assert {judge[0]} == set(judge) == set(person)
    else:
        theirs = cohen_kappa_score(judge, person, weights=weights, labels=range(4))
        assert theirs == pytest.approx(found, abs=1e-12)


@given(pair_lists)
def test_confusion_precision_and_recall_are_those_of_sklearn(pairs: list[tuple[int, int]]) -> None:
    judge, person = zip(*pairs, strict=True)
    counts, table = confusion(pairs), table_of(pairs, 4)

    theirs = confusion_matrix(judge, person, labels=range(4)).tolist()
    assert table.tolist() == theirs
    assert [[theirs[row][column] for column in counts.labels] for row in counts.labels] == [
        list(row) for row in counts.counts
    ]
    precisions, recalls, *_ = precision_recall_fscore_support(
        person, judge, labels=range(4), zero_division=np.nan
    )
    assert [precision(table, label) for label in range(4)] == pytest.approx(precisions, nan_ok=True)
    assert [recall(table, label) for label in range(4)] == pytest.approx(recalls, nan_ok=True)


def test_what_is_undefined_is_nan() -> None:
    assert np.isnan(kappa(table_of([], 2), "linear"))
    assert np.isnan(kappa(table_of([(2, 2)] * 3, 3)))
    assert kappa(table_of([(2, 1)] * 3, 3), "quadratic") == 0
    assert np.isnan(fleiss_kappa([[2, 2], [2, 2, 2], [0]]))


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
labels = st.one_of(st.none(), st.integers(0, 3))
item_lists = st.lists(st.lists(labels, max_size=5), max_size=12)


def coincidences(items: Items) -> list[tuple[Tables, int]]:
    """Those of each item that several labelled, and its number of labels."""
    given = ([label for label in item if label is not None] for item in items)
    return [(coincidences_of(labels, 5), len(labels)) for labels in given if len(labels) > 1]


def krippendorff_alpha(items: Items, level: Level) -> float:
    return float(alpha(sum((one for one, _ in coincidences(items)), np.zeros((6, 6))), level))


def fleiss_kappa(items: Items) -> float:
    return float(fleiss(sum(one / number for one, number in coincidences(items))))


def of_observers() -> Items:
    rows = [line.split() for line in OBSERVERS.splitlines()]
    return [
        [None if value == "." else int(value) for value in unit] for unit in zip(*rows, strict=True)
    ]


@pytest.mark.parametrize(
    ("level", "value"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_krippendorffs_example(level: Level, value: float) -> None:
    assert krippendorff_alpha(of_observers(), level) == pytest.approx(value, abs=5e-4)


def test_fleiss_example() -> None:
    """The paper prints .430; R's irr gives 0.4302445 of the same table."""
    assert {sum(map(int, row)) for row in DIAGNOSES.split()} == {6}
    assert fleiss_kappa(PSYCHIATRISTS) == pytest.approx(0.4302445, abs=5e-8)


@given(item_lists, st.sampled_from(LEVELS))
def test_alpha_is_that_of_the_package_krippendorff(items: Items, level: Level) -> None:
    found = krippendorff_alpha(items, level)

    if not np.isnan(found):
        raters = max(map(len, items))
        rows = [[*item, *[None] * (raters - len(item))] for item in items]
        table = np.array(rows, dtype=float).T
        theirs = krippendorff.alpha(reliability_data=table, level_of_measurement=level)
        assert theirs == pytest.approx(found, abs=1e-9)


@pytest.mark.parametrize("number", [1, 2, 12, 35, 200])
def test_without_a_disagreement_the_bound_is_that_of_clopper_and_pearson(number: int) -> None:
    theirs = binomtest(number, number).proportion_ci(0.95, method="exact")

    assert 1 - disagreement_bound([3.0] * number) == pytest.approx(theirs.low, abs=1e-12)


@pytest.mark.parametrize(("number", "some"), [(200, 1), (1000, 7), (400, 15)])
def test_with_few_disagreements_it_is_about_that_of_clopper_and_pearson(
    number: int, some: int
) -> None:
    """The Poisson distribution in place of the binomial one, so a little more."""
    theirs = binomtest(some, number).proportion_ci(0.95, method="exact").high

    assert theirs < disagreement_bound([3.0] * number, [3.0] * some) < 1.05 * theirs
    assert least_kappa(0.3, 0.1, 1) < least_kappa(0.3, 0.1, 0.5)


@given(st.lists(st.floats(0.1, 20), min_size=2, max_size=6))
def test_units_of_other_weights_have_the_largest_share_that_is_likely_enough(
    weights: list[float],
) -> None:
    """Against a general optimizer, over the chances of a disagreement of each unit."""
    shares = np.array(weights) / sum(weights)
    logs = minimize(
        lambda one: float(shares @ np.exp(-one)),
        np.full(len(weights), -np.log(0.025) / len(weights)),
        bounds=[(0, None)] * len(weights),
        constraints={"type": "eq", "fun": lambda one: one.sum() + np.log(0.025)},
        options={"ftol": 1e-12, "maxiter": 500},
    )

    found = disagreement_bound(weights)

    assert 0 < found <= 1
    assert found >= 1 - logs.fun - 1e-6
    if logs.success:
        assert found == pytest.approx(1 - logs.fun, abs=1e-4)


@given(st.integers(1, 39), st.integers(0, 40))
def test_the_least_kappa_is_that_of_the_worst_table(support: int, disagreements: int) -> None:
    """Of 40 pairs, over all ways to divide the disagreements."""
    tables = [
        kappa(np.array([[40 - support - no, no], [yes, support - yes]], float))
        for yes in range(min(support, disagreements) + 1)
        if 0 <= (no := disagreements - yes) <= 40 - support
    ]

    assert least_kappa(support / 40, disagreements / 40) == pytest.approx(min(tables), abs=1e-9)
