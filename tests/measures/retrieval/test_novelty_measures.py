"""Measures for which a nugget told again is worth less, and those of one nugget at a time."""

from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.measures.diversity import (
    alpha_dcg,
    alpha_ndcg,
    average_precision_ia,
    coverage,
    err_ia,
    nerr_ia,
    nnrbp,
    nrbp,
    precision_ia,
    subtopic_recall,
)
from freshstack_dspy.measures.measure import FAMILIES, parse_measure
from freshstack_dspy.measures.qrels import Judged
from freshstack_dspy.measures.ranking import average_precision, precision
from tests.measures.five import LABELS
from tests.measures.strategies import NuggetLabels, cutoffs, labels, rankings, untimed

# By hand, alpha 1/2: b gains 1; a then 1/2 + 1; d then 1/2. The ideal, a d b, gains 2, 1/2, 1/2.
# n3 is supported by no chunk, so that n is 2.
BAD = list("bad")


def test_alpha_dcg_by_hand() -> None:
    reached = 1 + 1.5 / log2(3) + 0.5 / log2(4)
    all_told = 2 * (1 + 0.5 / log2(3) + 0.25 / log2(4))

    assert alpha_dcg(BAD, Judged(LABELS), 3) == pytest.approx(reached / all_told, abs=1e-15)
    assert alpha_dcg(BAD, Judged(LABELS)) == alpha_dcg(BAD, Judged(LABELS), 3)
    assert alpha_dcg(["a"], Judged(LABELS), 1) == 1


def test_err_ia_by_hand() -> None:
    reached, all_told = 1 + 1.5 / 2 + 0.5 / 3, 2 * (1 + 0.5 / 2 + 0.25 / 3)

    assert err_ia(BAD, Judged(LABELS), 3) == pytest.approx(reached / all_told, abs=1e-15)
    assert err_ia(BAD, Judged(LABELS)) == err_ia(BAD, Judged(LABELS), 3)
    assert err_ia(["a"], Judged(LABELS), 1) == 1


def test_nerr_ia_by_hand() -> None:
    reached, ideal = 1 + 1.5 / 2 + 0.5 / 3, 2 + 0.5 / 2 + 0.5 / 3

    assert nerr_ia(BAD, Judged(LABELS), 3) == pytest.approx(reached / ideal, abs=1e-15)
    assert nerr_ia(list("adb"), Judged(LABELS)) == 1


def test_nrbp_and_nnrbp_by_hand() -> None:
    """With alpha = 1/2 and beta = 1/4 a reader of everything, always, would reach 1 / (7/8)."""
    reached, ideal = 1 + 1.5 / 4 + 0.5 / 16, 2 + 0.5 / 4 + 0.5 / 16

    assert nrbp(BAD, Judged(LABELS), beta=0.25) == pytest.approx(7 / 8 / 2 * reached, abs=1e-15)
    assert nnrbp(BAD, Judged(LABELS), beta=0.25) == pytest.approx(reached / ideal, abs=1e-15)


@pytest.mark.parametrize(("alpha", "beta"), [(0, 1), (1, 1), (0, 0), (1, 0)])
def test_nrbp_at_the_ends_of_its_parameters(alpha: float, beta: float) -> None:
    """With alpha 0 and beta 1 a reader goes on for ever, and no ranking is long enough."""
    assert 0 <= (nrbp(BAD, Judged(LABELS), alpha=alpha, beta=beta) or 0) <= 1
    assert nnrbp(list("adb"), Judged(LABELS), alpha=alpha, beta=beta) == 1


def test_intent_aware_precision_is_the_mean_over_the_answerable_nuggets() -> None:
    """Of the top three of b a c, n1 has two chunks and n2 one."""
    assert precision_ia(list("bac"), Judged(LABELS), 3) == pytest.approx((2 / 3 + 1 / 3) / 2)
    assert precision_ia(list("ba"), Judged(LABELS), 3) == pytest.approx((2 / 3 + 1 / 3) / 2)
    assert precision_ia(list("ba"), Judged(LABELS)) == pytest.approx((2 / 2 + 1 / 2) / 2)
    assert precision_ia([], Judged(LABELS)) == 0


def test_intent_aware_average_precision_by_hand() -> None:
    """n1 (a, b): 1/1 and 2/2. n2 (a, d): 1/2 and 2/4."""
    value = average_precision_ia(list("baed"), Judged(LABELS))

    assert value == pytest.approx((1 + (1 / 2 + 2 / 4) / 2) / 2)
    assert average_precision_ia(list("baed"), Judged(LABELS), 2) == pytest.approx(
        (1 + (1 / 2) / 2) / 2
    )


def test_three_nuggets_of_which_the_last_is_missed() -> None:
    """a tells one nugget, b that and a second, c the third: .6756 by hand and by pyndeval."""
    labels = {"n1": {"a": 1, "b": 1}, "n2": {"b": 1}, "n3": {"c": 1}}
    ideal = 2 + 1 / log2(3) + 0.5 / log2(4)
    value = alpha_ndcg(["a", "b"], Judged(labels), 10)

    assert value == pytest.approx((1 + 1.5 / log2(3)) / ideal, abs=1e-15)
    assert round(value or 0, 4) == 0.6756


@pytest.mark.parametrize(
    ("name", "value"),
    [("ERR-IA@5", 0.3933), ("ERR-IA@20", 0.3907), ("nERR-IA@10", 0.8297),
     ("alpha-DCG@5", 0.4052), ("alpha-DCG@10", 0.3998), ("alpha-DCG@20", 0.3997),
     ("alpha-nDCG@5", 0.7868), ("NRBP", 0.3906), ("nNRBP", 0.8620), ("MAP-IA", 0.5),
     ("P-IA@5", 0.2), ("P-IA@20", 0.05), ("strec@20", 2 / 3)],
)  # fmt: skip
def test_the_figures_that_pyndeval_documents(name: str, value: float) -> None:
    labels = {"a": {"A": 1}, "b": {"B": 1, "D": 1}, "c": {"C": 1}}

    assert parse_measure(name)(list("ADEB"), Judged(labels)) == pytest.approx(value, abs=1e-4)


@untimed
@given(labels(), rankings, cutoffs)
def test_intent_aware_measures_are_means_over_the_nuggets_by_themselves(
    labels: NuggetLabels, ranking: list[str], k: int
) -> None:
    alone = [Judged({nugget: judged}) for nugget, judged in labels.items()]
    for measure, whole in (
        (precision, precision_ia),
        (average_precision, average_precision_ia),
    ):
        values = [value for each in alone if (value := measure(ranking, each, k)) is not None]
        value = whole(ranking, Judged(labels), k)

        assert (value is None) == (not values)
        assert value is None or value == pytest.approx(sum(values) / len(values))


@untimed
@given(labels(max_label=2), rankings, st.none() | cutoffs)
def test_subtopic_recall_is_coverage_of_the_answerable(
    labels: NuggetLabels, ranking: list[str], k: int | None
) -> None:
    assert subtopic_recall(ranking, Judged(labels), k) == coverage(
        ranking, Judged(labels), k, of="answerable"
    )


def test_a_nugget_without_support_counts_in_coverage_of_all_alone() -> None:
    """The official package mixes alpha-nDCG, which leaves it out, with Coverage, which does not."""
    told = Judged({"n1": {"a": 1}, "n2": {"b": 0}})
    names = ["alpha_nDCG@10", "StRecall@10", "nERR_IA@10", "alpha_DCG@1", "ERR_IA@1", "AP_IA"]

    assert {parse_measure(name)(["a"], told) for name in names} == {1.0}
    assert parse_measure("Coverage@10")(["a"], told) == 1 / 2
    assert parse_measure("Coverage(of='answerable')@10")(["a"], told) == 1


@pytest.mark.parametrize("family", ["alpha_nDCG", "alpha_DCG", "ERR_IA", "nERR_IA", "P_IA"])
@pytest.mark.parametrize("k", [21, 100, 10**6])
def test_no_cut_off_is_too_deep(family: str, k: int) -> None:
    """Those of ndeval end at 20."""
    shallow, deep = (
        parse_measure(f"{family}@{each}")([*"ec", *map(str, range(17)), "b", "a"], Judged(LABELS))
        for each in (20, k)
    )

    assert shallow is not None
    assert deep is not None
    assert 0 < deep != shallow > 0


@pytest.mark.parametrize(
    "measure",
    [alpha_dcg, alpha_ndcg, average_precision_ia, err_ia, nerr_ia, nnrbp, nrbp, precision_ia,
     subtopic_recall],
)  # fmt: skip
def test_a_query_without_a_relevant_chunk_has_no_value(measure: type) -> None:
    assert measure(["a"], Judged({"n": {"a": 0}, "m": {}}), 5) is None
    assert measure(["a"], Judged({}), 5) is None


@untimed
@given(labels(), rankings, st.sampled_from([0.0, 0.3, 0.5, 1.0]), st.sampled_from([0.0, 0.5, 1.0]))
def test_those_that_no_ranking_normalises_are_from_zero_to_one(
    labels: NuggetLabels, ranking: list[str], alpha: float, beta: float
) -> None:
    judged = Judged(labels)
    for value in (
        nrbp(ranking, judged, alpha=alpha, beta=beta),
        alpha_dcg(ranking, judged, 5, alpha=alpha),
        err_ia(ranking, judged, 5, alpha=alpha),
        precision_ia(ranking, judged, 5),
        average_precision_ia(ranking, judged),
    ):
        assert value is None or 0 <= value <= 1 + 1e-12


@untimed
@given(labels(), rankings, cutoffs, st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_the_order_of_nuggets_changes_no_digit(
    labels: NuggetLabels, ranking: list[str], k: int, alpha: float
) -> None:
    shuffled = {nugget: labels[nugget] for nugget in reversed(labels)}

    for measure in (alpha_dcg, alpha_ndcg, err_ia, nerr_ia, nrbp, nnrbp):
        assert measure(ranking, Judged(labels), k, alpha=alpha) == measure(
            ranking, Judged(shuffled), k, alpha=alpha
        )


@pytest.mark.parametrize("measure", [alpha_dcg, alpha_ndcg, err_ia, nerr_ia, nrbp, nnrbp])
@pytest.mark.parametrize("alpha", [-0.1, 1.5, float("nan")])
def test_an_alpha_outside_is_refused(measure: type, alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha is between 0 and 1, not"):
        measure(["a"], Judged(LABELS), 1, alpha=alpha)


@pytest.mark.parametrize("measure", [nrbp, nnrbp])
def test_a_beta_outside_is_refused(measure: type) -> None:
    with pytest.raises(ValueError, match=r"beta is between 0 and 1, not 1\.5"):
        measure(["a"], Judged(LABELS), beta=1.5)


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"Density"}))
@pytest.mark.parametrize("k", [0, -1])
def test_a_cut_off_below_one_is_refused_by_every_function(family: str, k: int) -> None:
    with pytest.raises(ValueError, match=f"at least 1, not {k}"):
        FAMILIES[family].function(["a"], Judged(LABELS), k)
