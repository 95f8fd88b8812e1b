"""The measures of one query, by hand on five chunks and by property."""

from math import e, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.measures.diversity import alpha_ndcg, coverage
from freshstack_dspy.measures.qrels import Judged
from freshstack_dspy.measures.ranking import recall
from tests.measures.five import LABELS
from tests.measures.strategies import (
    CHUNKS,
    UNJUDGED,
    NuggetLabels,
    cutoffs,
    labels,
    rankings,
    untimed,
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


@pytest.mark.parametrize(
    ("alpha", "value"),
    [
        (0.0, (1 + 2 / log2(3)) / (2 + 1 / log2(3))),
        (0.25, (1 + 1.75 / log2(3)) / (2 + 0.75 / log2(3))),
        (1.0, (1 + 1 / log2(3)) / 2),
    ],
)
def test_alpha_is_what_a_repetition_takes_away(alpha: float, value: float) -> None:
    assert value == pytest.approx(alpha_ndcg(["b", "a"], Judged(LABELS), 2, alpha=alpha), abs=1e-15)


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


def test_the_order_of_nuggets_does_not_show_in_the_last_digit() -> None:
    """With plain sums it does here: 1 + 1 + 0.49 is not 0.49 + 1 + 1."""
    labels = {"n1": {"a": 1, "b": 1, "c": 1}, "n2": {"c": 1}, "n3": {"c": 1}}
    other_way = dict(reversed(labels.items()))

    assert alpha_ndcg(list("abc"), Judged(labels), 3, alpha=0.3) == alpha_ndcg(
        list("abc"), Judged(other_way), 3, alpha=0.3
    )


def test_the_ideal_is_as_deep_as_the_cut_off() -> None:
    """Pyndeval ends at 20."""
    labels = {f"n{number}": {f"c{number}": 1} for number in range(100)}
    ranking = [f"c{number}" for number in range(100)]
    gains = [1 / log2(rank + 1) for rank in range(1, 101)]

    assert alpha_ndcg(ranking, Judged(labels), 50) == 1.0
    assert alpha_ndcg(ranking[:30], Judged(labels), 50) == pytest.approx(
        sum(gains[:30]) / sum(gains[:50])
    )


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


@pytest.mark.parametrize(
    ("ranking", "k", "value"),
    [("abcde", 1, 1 / 3), ("abcde", 2, 2 / 3), ("abcde", 4, 1.0), ("ceb", 2, 0.0), ("", 5, 0.0)],
)
def test_recall_by_hand(ranking: str, k: int, value: float) -> None:
    assert value == recall(list(ranking), Judged(LABELS), k)


def test_a_query_without_a_relevant_chunk_has_no_value() -> None:
    """Coverage of all nuggets has one: none of them can be covered, and none is."""
    unsupported = {"n": {"a": 0}, "m": {}}

    assert alpha_ndcg(["a"], Judged(unsupported), 5) is None
    assert recall(["a"], Judged(unsupported), 5) is None
    assert coverage(["a"], Judged(unsupported), 5, of="answerable") is None
    assert coverage(["a"], Judged(unsupported), 5) == 0.0
    assert coverage(["a"], Judged({}), 5) is None


def test_labels_above_one_support_and_those_below_do_not() -> None:
    graded = {"n": {"a": 4, "b": 0, "c": -2}}

    assert recall(["a"], Judged(graded), 1) == alpha_ndcg(["a"], Judged(graded), 1) == 1.0
    assert (
        coverage(["b", "c"], Judged(graded), 2) == alpha_ndcg(["b", "c"], Judged(graded), 2) == 0.0
    )


@pytest.mark.parametrize("measure", [alpha_ndcg, coverage, recall])
@pytest.mark.parametrize("k", [0, -1])
def test_a_cut_off_below_one_is_refused(measure: type, k: int) -> None:
    with pytest.raises(ValueError, match=f"at least 1, not {k}"):
        measure(["a"], Judged(LABELS), k)


def test_unknown_choices_are_refused() -> None:
    with pytest.raises(ValueError, match=r"alpha is between 0 and 1, not 1.5"):
        alpha_ndcg(["a"], Judged(LABELS), 1, alpha=1.5)
    with pytest.raises(ValueError, match="'all' or 'answerable', not 'some'"):
        coverage(["a"], Judged(LABELS), 1, of="some")  # type: ignore[arg-type]


@untimed
@given(labels(), rankings, cutoffs)
def test_coverage_and_recall_are_shares(labels: NuggetLabels, ranking: list[str], k: int) -> None:
    for value in (coverage(ranking, Judged(labels), k), recall(ranking, Judged(labels), k)):
        assert value is None or 0 <= value <= 1


@untimed
@given(labels(), rankings, cutoffs)
def test_alpha_ndcg_is_bounded_as_greedy_cover_is(
    labels: NuggetLabels, ranking: list[str], k: int
) -> None:
    """Greedy choice reaches at least 1 - 1/e of the best gain at every depth."""
    value = alpha_ndcg(ranking, Judged(labels), k)

    assert value is None or 0 <= value <= 1 / (1 - 1 / e)


@untimed
@given(st.dictionaries(st.sampled_from(CHUNKS), st.integers(0, 3), min_size=1), rankings, cutoffs)
def test_alpha_ndcg_is_at_most_one_where_chunks_support_one_nugget_each(
    nugget_of: dict[str, int], ranking: list[str], k: int
) -> None:
    """There the greedy ideal is the best ranking."""
    labels = {
        f"n{number}": {chunk: 1 for chunk, mine in nugget_of.items() if mine == number}
        for number in range(4)
    }

    value = alpha_ndcg(ranking, Judged(labels), k)

    assert value is not None
    assert 0 <= value <= 1 + 1e-12


@untimed
@given(labels(), rankings, cutoffs)
def test_coverage_and_recall_do_not_fall_with_depth(
    labels: NuggetLabels, ranking: list[str], k: int
) -> None:
    for measure in (coverage, recall):
        shallow, deep = measure(ranking, Judged(labels), k), measure(ranking, Judged(labels), k + 1)
        assert (shallow is None) == (deep is None)
        assert shallow is None or deep is None or shallow <= deep


@untimed
@given(labels(), rankings, cutoffs)
def test_unjudged_chunks_at_the_end_change_nothing(
    labels: NuggetLabels, ranking: list[str], k: int
) -> None:
    longer = [*ranking, "new 1", "new 2"]

    for measure in (alpha_ndcg, coverage, recall):
        assert measure(ranking, Judged(labels), k) == measure(longer, Judged(labels), k)


@untimed
@given(labels(), rankings, cutoffs, st.sampled_from([0.0, 0.3, 0.5, 0.9, 1.0]))
def test_the_order_of_nuggets_and_labels_changes_nothing(
    labels: NuggetLabels, ranking: list[str], k: int, alpha: float
) -> None:
    shuffled = {nugget: dict(reversed(labels[nugget].items())) for nugget in reversed(labels)}

    assert alpha_ndcg(ranking, Judged(labels), k, alpha=alpha) == alpha_ndcg(
        ranking, Judged(shuffled), k, alpha=alpha
    )
    assert coverage(ranking, Judged(labels), k) == coverage(ranking, Judged(shuffled), k)
    assert recall(ranking, Judged(labels), k) == recall(ranking, Judged(shuffled), k)


@untimed
@given(labels(), rankings, cutoffs)
def test_a_label_of_not_supporting_scores_as_no_label(
    labels: NuggetLabels, ranking: list[str], k: int
) -> None:
    positive = {
        nugget: {chunk: label for chunk, label in judged.items() if label}
        for nugget, judged in labels.items()
    }

    for measure in (alpha_ndcg, coverage, recall):
        assert measure(ranking, Judged(positive), k) == measure(ranking, Judged(labels), k)


@untimed
@given(labels())
def test_a_ranking_of_all_chunks_has_full_recall_and_answerable_coverage(
    labels: NuggetLabels,
) -> None:
    everything = sorted(CHUNKS + UNJUDGED)

    assert recall(everything, Judged(labels), 1000) in (None, 1.0)
    assert coverage(everything, Judged(labels), 1000, of="answerable") in (None, 1.0)
