import random
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshstack_dspy.measures.statistics import Interval, macro_interval, mean_interval

VALUES = {f"q{number}": random.Random(number).random() for number in range(60)}
queries = st.sampled_from("abcdefgh")


def width(interval: Interval) -> float:
    assert interval.low is not None
    assert interval.high is not None
    return interval.high - interval.low


def test_topics_weigh_alike() -> None:
    values = {"a": 1.0, "b": 0.0, "c": 0.0, "d": 0.0, "e": 1.0}
    topics = dict(zip("abcde", ["small", "large", "large", "large", "small"], strict=True))

    assert macro_interval(values, topics).value == 0.5


def test_of_one_topic_it_is_the_mean() -> None:
    whole = macro_interval(VALUES, dict.fromkeys(VALUES, "only"), seed=2)

    assert whole == mean_interval(VALUES, seed=2)
    assert macro_interval({}, {}) == mean_interval({})


def test_how_much_topics_differ_adds_no_width() -> None:
    values = {f"q{n:02}": 0.9 * (n % 2) + 0.1 * random.Random(n).random() for n in range(40)}
    topics = {query: str(int(query[1:]) % 2) for query in values}
    macro, micro = macro_interval(values, topics), mean_interval(values)

    assert macro.value == pytest.approx(micro.value)
    assert width(macro) < 0.3 * width(micro)


@pytest.mark.parametrize(
    "sizes",
    [[2] * 25, [1] * 20 + [10] * 3, [1] * 49 + [2], [50] * 5],
    ids=["25 of 2", "20 of 1, 3 of 10", "49 of 1, 1 of 2", "5 of 50"],
)
def test_it_holds_the_true_average_as_often_as_it_says(sizes: list[int]) -> None:
    """Drawing within topics held that of the first three in .82, .17 and .06 of all samples."""
    chance = random.Random("coverage")
    topics = {
        f"{topic} {number}": str(topic) for topic, of in enumerate(sizes) for number in range(of)
    }
    held = 0
    for seed in range(150):
        values = {query: chance.gauss(0.5, 0.2) for query in topics}
        interval = macro_interval(values, topics, resamples=300, seed=seed)
        assert interval.low is not None
        assert interval.high is not None
        held += interval.low <= 0.5 <= interval.high

    assert held / 150 > 0.88


def test_the_width_is_that_of_the_unbiased_variance() -> None:
    """Of two topics of three queries each: sqrt((s² / 3 + s² / 3) / 4), s² of a sample."""
    values = {"a": 0.0, "b": 0.5, "c": 1.0, "d": 0.0, "e": 0.5, "f": 1.0}
    interval = macro_interval(values, dict(zip("abcdef", "xxxyyy", strict=True)), level=0.683)

    assert width(interval) / 2 == pytest.approx((0.25 / 6) ** 0.5, rel=0.1)


def test_what_topics_share_is_drawn_once() -> None:
    """Two topics with the same queries vary as one of them; two with others vary less."""
    same = macro_interval(VALUES, dict.fromkeys(VALUES, ("x", "y")))
    halves = macro_interval(VALUES, {query: "xy"[int(query[1:]) % 2] for query in VALUES})
    again = {f"again {query}": value for query, value in VALUES.items()}
    apart = macro_interval(VALUES | again, dict.fromkeys(VALUES, "x") | dict.fromkeys(again, "y"))

    assert width(same) == pytest.approx(width(halves), rel=0.2)
    assert width(apart) == pytest.approx(width(same) / 2**0.5, rel=0.1)


def test_topics_of_one_query_each_vary_as_their_queries_do() -> None:
    each = macro_interval(VALUES, {query: query for query in VALUES})

    assert width(each) == pytest.approx(width(mean_interval(VALUES)), rel=0.05)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(queries, st.floats(0, 1)),
    st.dictionaries(queries, st.sets(st.sampled_from("xyz"), min_size=1)),
    st.integers(0, 3),
)
def test_it_lies_within_the_values_in_whatever_order_they_stand(
    values: dict[str, float], topics: dict[str, set[str]], seed: int
) -> None:
    within = {query: value for query, value in values.items() if query in topics}
    of = {query: sorted(each) for query, each in topics.items()}
    found = macro_interval(within, of, resamples=50, seed=seed)
    again = macro_interval(
        dict(reversed(within.items())),
        {query: each[::-1] for query, each in of.items()},
        resamples=50,
        seed=seed,
    )
    columns = [[value for query, value in within.items() if topic in of[query]] for topic in "xyz"]

    assert found.model_dump_json() == again.model_dump_json()
    assert found.value == pytest.approx(
        fmean(map(fmean, filter(None, columns))) if within else None
    )
    assert (found.low is None) == (found.reason is not None)
    if found.low is not None and found.high is not None:
        assert min(within.values()) <= found.low < found.high <= max(within.values())


def test_where_no_query_moves_it_there_are_no_ends() -> None:
    """Within both topics all queries have one value."""
    values = {f"q{n}": float(n % 2) for n in range(40)}
    interval = macro_interval(values, {query: str(value) for query, value in values.items()})

    assert (interval.value, interval.low, interval.high) == (0.5, None, None)
    assert interval.reason == "all resamples give the same figure: they cannot tell how sure it is"


def test_one_query_in_several_topics_has_no_interval() -> None:
    interval = macro_interval({"a": 0.25}, {"a": ("x", "y"), "stranger": "z"})

    assert (interval.value, interval.low, interval.groups) == (0.25, None, 1)
    assert interval.reason == "an interval over queries needs two with a value, not 1"


@pytest.mark.parametrize("topics", [{"a": "x"}, {"a": "x", "b": ()}])
def test_a_query_without_a_topic_is_refused(topics: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="query 'b' has no topic"):
        macro_interval({"a": 0.0, "b": 1.0}, topics)


@pytest.mark.parametrize(("level", "resamples"), [(0.0, 10), (1.0, 10), (0.9, 0)])
def test_settings_out_of_range_are_refused(level: float, resamples: int) -> None:
    with pytest.raises(ValueError, match=r"between 0 and 1|at least 1"):
        macro_interval({"a": 1.0}, {"a": "x"}, level, resamples)


def test_a_value_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="a value is a finite number"):
        macro_interval({"a": float("nan")}, {"a": "x"})
