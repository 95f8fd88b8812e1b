import random
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap

from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.statistics import bootstrap_interval, mean_interval, mean_intervals
from tests.measures.five import QRELS, run

VALUES = {f"q{number}": random.Random(number).random() for number in range(60)}
finite = st.floats(-100, 100)


@given(
    st.dictionaries(st.text(), finite, min_size=2, max_size=30),
    st.sampled_from([0.5, 0.9, 0.95]),
    st.integers(0, 5),
)
@settings(max_examples=40)
def test_it_is_the_cluster_bootstrap_of_single_items(
    values: dict[str, float], level: float, seed: int
) -> None:
    fast = mean_interval(values, level=level, resamples=60, seed=seed)
    slow = bootstrap_interval(
        {query: [value] for query, value in values.items()},
        fmean,
        level=level,
        resamples=60,
        seed=seed,
    )

    assert (fast.low is None) == (slow.low is None) == (fast.reason is not None)
    if fast.low is not None:
        assert fast.low == pytest.approx(slow.low, rel=1e-9, abs=1e-9)
        assert fast.high == pytest.approx(slow.high, rel=1e-9, abs=1e-9)
    assert fast.value == slow.value
    assert (fast.level, fast.groups, fast.resamples, fast.undefined, fast.reason) == (
        slow.level, slow.groups, slow.resamples, slow.undefined, slow.reason,
    )  # fmt: skip


def test_many_blocks_are_drawn_as_one_would_be() -> None:
    """500 queries and 600 resamples are more than a block."""
    values = {f"q{number:03}": random.Random(number).random() for number in range(500)}

    fast = mean_interval(values, resamples=600)
    slow = bootstrap_interval({query: [of] for query, of in values.items()}, fmean, resamples=600)

    assert (fast.low, fast.high) == pytest.approx((slow.low, slow.high), rel=1e-12)


def test_the_same_seed_gives_the_same_bytes_whatever_the_order() -> None:
    first = mean_interval(VALUES, seed=3)
    again = mean_interval(dict(reversed(VALUES.items())), seed=3)

    assert first.model_dump_json() == again.model_dump_json()
    assert first == mean_interval([VALUES[query] for query in sorted(VALUES)], seed=3)
    assert first != mean_interval(VALUES, seed=4)


def test_it_is_the_percentile_bootstrap_of_scipy() -> None:
    ours = mean_interval(VALUES)
    theirs = bootstrap(
        (list(VALUES.values()),), fmean, n_resamples=4000, method="percentile", vectorized=False,
        rng=0,
    ).confidence_interval  # fmt: skip

    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.006)


def test_the_intervals_of_an_evaluation_are_those_of_its_means() -> None:
    rankings = {"q": {"a": 1.0}}
    one = evaluate(QRELS, run(rankings), ["Coverage@20", "Recall@50"])
    per_query = {
        query: {"Coverage@20": value, "Recall@50": 1 - value} for query, value in VALUES.items()
    }
    del per_query["q7"]["Recall@50"]
    many = one.model_copy(update={"per_query": per_query})

    assert mean_intervals(many, level=0.9, seed=1) == {
        name: mean_interval(many.values(name), level=0.9, seed=1) for name in many.measures
    }
    assert mean_intervals(many)["Recall@50"].groups == 59
    assert mean_intervals(one)["Coverage@20"].reason == (
        "an interval over queries needs two with a value, not 1"
    )


def test_below_two_values_there_is_no_interval() -> None:
    none, one = mean_interval({}), mean_interval([0.25])

    assert (none.value, none.low, none.high, none.groups, none.resamples) == (
        None, None, None, 0, 0,
    )  # fmt: skip
    assert (one.value, one.low, one.high, one.groups) == (0.25, None, None, 1)
    assert one.reason == "an interval over queries needs two with a value, not 1"


@pytest.mark.parametrize("values", [[1.0] * 50, [0.0] * 50, [0.1, 0.3 - 0.2] * 8])
def test_of_equal_values_it_can_not_be_told_how_sure_they_are(values: list[float]) -> None:
    """50 of 50 do not say that the next is one too; and 0.3 - 0.2 is 0.1 but for rounding."""
    interval = mean_interval(values, resamples=200)

    assert interval.value == pytest.approx(values[0])
    assert (interval.low, interval.high) == (None, None)
    assert interval.reason == "all resamples give the same figure: they cannot tell how sure it is"


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="a value is a finite number"):
        mean_interval([0.5, value])


def test_level_and_resamples_are_checked() -> None:
    with pytest.raises(ValueError, match="level is between 0 and 1, not 95"):
        mean_interval(VALUES, level=95)
    with pytest.raises(ValueError, match="resamples is at least 1, not 0"):
        mean_interval(VALUES, resamples=0)
