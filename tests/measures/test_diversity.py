"""Diversity measures: by hand, their bounds, and what changes nothing."""

from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.measures.diversity import (
    alpha_dcg,
    alpha_ndcg,
    coverage,
    err_ia,
    nerr_ia,
    nnrbp,
    nrbp,
)
from freshstack_dspy.measures.measure import parse_measure
from freshstack_dspy.measures.qrels import Judged
from freshstack_dspy.measures.ranking import recall
from tests.measures.five import LABELS
from tests.measures.strategies import (
    NuggetLabels,
    cutoffs,
    labels,
    rankings,
)

# By hand: the ideal is a (gain 2), then d and b (gain 1/2 each; d is the larger id), then nothing.
IDEAL_3 = 2 + 0.5 / log2(3) + 0.5 / log2(4)


@pytest.mark.parametrize(
    ("ranking", "k", "value"),
    [
        ("adb", 3, 1.0),
        ("abd", 3, 1.0),
        ("a", 1, 1.0),
        ("b", 1, 1 / 2),
        ("ecb", 3, (1 / log2(4)) / IDEAL_3),
        ("bad", 3, (1 + 1.5 / log2(3) + 0.5 / log2(4)) / IDEAL_3),
        ("bad", 2, (1 + 1.5 / log2(3)) / (2 + 0.5 / log2(3))),
        ("bdeca", 100, (1 + 1 / log2(3) + 1 / log2(6)) / IDEAL_3),
        ("ec", 10, 0.0),
        ("", 10, 0.0),
    ],
)
def test_alpha_ndcg_by_hand(ranking: str, k: int, value: float) -> None:
    assert value == pytest.approx(alpha_ndcg(list(ranking), Judged(LABELS), k), abs=1e-15)


def test_a_greedy_ideal_can_be_beaten() -> None:
    """The ideal takes z first (a tie, the largest id) and cannot make up for it; pyndeval agrees."""
    pairs = {"1": {"x": 1, "z": 1}, "2": {"x": 1}, "3": {"y": 1, "z": 1}, "4": {"y": 1}}
    ideal = 2 + 1.5 / log2(3) + 1.5 / log2(4)

    value = alpha_ndcg(["x", "y", "z"], Judged(pairs), 3)

    assert (2 + 2 / log2(3) + 1 / log2(4)) / ideal == pytest.approx(value, abs=1e-15)
    assert value is not None
    assert value > 1


def test_ties_in_the_ideal_go_to_the_largest_id_that_is_left() -> None:
    """After z all three kinds are worth 2; m is next, and leaves 2 for 0, as a would not."""
    supported = {"z": "1256", "a": "1256", "m": "123", "0": "569"}
    labels = {
        nugget: {chunk: 1 for chunk, nuggets in supported.items() if nugget in nuggets}
        for nugget in "123569"
    }
    ideal = 4 + 2 / log2(3) + 2 / log2(4)

    assert alpha_ndcg(["z"], Judged(labels), 3) == pytest.approx(4 / ideal, abs=1e-15)


@pytest.mark.parametrize(
    ("ranking", "k", "of_all", "of_answerable"),
    [
        ("abcde", 1, 2 / 3, 1.0),
        ("bcdea", 1, 1 / 3, 1 / 2),
        ("bcdea", 2, 1 / 3, 1 / 2),
        ("bcdea", 3, 2 / 3, 1.0),
        ("ce", 2, 0.0, 0.0),
        ("", 2, 0.0, 0.0),
    ],
)
def test_coverage_by_hand(ranking: str, k: int, of_all: float, of_answerable: float) -> None:
    assert of_all == coverage(list(ranking), Judged(LABELS), k)
    assert of_answerable == coverage(list(ranking), Judged(LABELS), k, of="answerable")


def test_a_query_without_a_relevant_chunk_has_no_value() -> None:
    """Coverage of all nuggets has one: none of them can be covered, and none is."""
    unsupported = {"n": {"a": 0}, "m": {}}

    assert alpha_ndcg(["a"], Judged(unsupported), 5) is None
    assert recall(["a"], Judged(unsupported), 5) is None
    assert coverage(["a"], Judged(unsupported), 5, of="answerable") is None
    assert coverage(["a"], Judged(unsupported), 5) == 0.0
    assert coverage(["a"], Judged({}), 5) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("ERR-IA@5", 0.3933), ("ERR-IA@20", 0.3907), ("nERR-IA@10", 0.8297),
     ("alpha-DCG@5", 0.4052), ("alpha-DCG@10", 0.3998), ("alpha-DCG@20", 0.3997),
     ("alpha-nDCG@5", 0.7868), ("NRBP", 0.3906), ("nNRBP", 0.8620), ("MAP-IA", 0.5),
     ("P-IA@5", 0.2), ("P-IA@20", 0.05), ("strec@20", 2 / 3)],
)  # fmt: skip
def test_the_values_that_pyndeval_documents(name: str, value: float) -> None:
    labels = {"a": {"A": 1}, "b": {"B": 1, "D": 1}, "c": {"C": 1}}

    assert parse_measure(name)(list("ADEB"), Judged(labels)) == pytest.approx(value, abs=1e-4)


@given(labels(), rankings, cutoffs, st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_the_order_of_nuggets_changes_no_digit(
    labels: NuggetLabels, ranking: list[str], k: int, alpha: float
) -> None:
    shuffled = {nugget: labels[nugget] for nugget in reversed(labels)}

    for measure in (alpha_dcg, alpha_ndcg, err_ia, nerr_ia, nrbp, nnrbp):
        assert measure(ranking, Judged(labels), k, alpha=alpha) == measure(
            ranking, Judged(shuffled), k, alpha=alpha
        )
