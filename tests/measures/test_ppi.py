"""Corrected values: by hand, by property, against truescore, and their coverage."""

import math
from collections.abc import Callable, Sequence
from statistics import fmean, variance

import numpy as np
import pytest
import truescore
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from freshstack_dspy.measures.ppi import Corrected, corrected_mean

shares = st.floats(0, 1, allow_subnormal=False)


def masked(values: Sequence[float], labelled: Sequence[int]) -> list[float | None]:
    known = set(labelled)
    return [float(value) if place in known else None for place, value in enumerate(values)]


def test_by_hand() -> None:
    """The judge's mean plus what people change on average; the variance is of the changes."""
    judge = [0.0, 1.0] * 10
    changes = [0.1, -0.2, 0.3, -0.4, 0.0, -0.1, 0.2, -0.3, 0.4, -0.5]
    people = [one + change for one, change in zip(judge, changes, strict=False)] + [None] * 10

    found = corrected_mean(judge, people)

    half = student.ppf(0.975, 9) * math.sqrt((1 / 10 - 1 / 20) * variance(changes))
    assert (found.judge, found.labelled, found.items) == (0.5, 10, 20)
    assert found.value == pytest.approx(0.5 + fmean(changes))
    assert (found.low, found.high) == pytest.approx((found.value - half, found.value + half))
    assert found.wide_low < found.low  # type: ignore[operator]


def test_a_ratio_by_hand() -> None:
    """Queries that count by people and not by the judge, and the other way round."""
    judge, counts = [0.5, 0.0, 1.0, 0.5] * 5, [1.0, 0.0, 1.0, 1.0] * 5
    people, theirs = [1.0, 0.5, 0.0, 0.0] * 5, [1.0, 1.0, 1.0, 0.0] * 5
    labelled = range(10)

    found = corrected_mean(
        judge, masked(people, labelled), judge_counts=counts, people_counts=theirs
    )

    total = 10 + 20 * (fmean(people[:10]) - fmean(judge[:10]))
    number = 15 + 20 * (fmean(theirs[:10]) - fmean(counts[:10]))
    assert found.judge == pytest.approx(10 / 15)
    assert found.value == pytest.approx(total / number)


def test_strata_by_hand() -> None:
    """Wilson's interval of each stratum, for the items that it has, and one that is known whole."""
    strata = ["no"] * 30 + ["yes"] * 6
    people = [0.0] * 9 + [1.0] + [None] * 20 + [1.0, 1.0, 1.0, 0.0, 1.0, 1.0]

    found = corrected_mean([0] * 30 + [1] * 6, people, strata=strata)

    square = 1.959964**2 * 20 / 29 / 10
    middle = (0.1 + square / 2) / (1 + square)
    half = math.sqrt(square * 0.09 + square**2 / 4) / (1 + square)
    value = 30 / 36 * 0.1 + 6 / 36 * 5 / 6
    low, high = value + 30 / 36 * (middle - half - 0.1), value + 30 / 36 * (middle + half - 0.1)
    assert (found.value, found.low, found.high) == pytest.approx((value, low, high))


@given(st.lists(st.tuples(shares, shares), min_size=2, max_size=40))
def test_of_all_labels_it_is_the_truth(values: list[tuple[float, float]]) -> None:
    judge, people = zip(*values, strict=True)

    found = corrected_mean(judge, people)

    assert found.value == pytest.approx(fmean(people), abs=1e-9)
    assert (found.low, found.high) == pytest.approx((found.value, found.value), abs=1e-6)


def test_a_share_of_queries_of_unequal_size_is_a_ratio() -> None:
    sizes = [4.0, 8.0, 12.0, 6.0] * 5
    judge = [size / 2 for size in sizes]
    changes = [1, -1, 2, 1, 0, -2, 3, 1, -1, 2, 4, -1]
    people = [f + d for f, d in zip(judge, changes + 8 * [0], strict=True)]

    found = corrected_mean(
        judge, masked(people, range(12)), judge_counts=sizes, people_counts=sizes
    )

    assert found.judge == 0.5
    assert found.value == pytest.approx(0.5 + 20 * fmean(changes) / sum(sizes))


def test_a_perfect_judge_of_queries_has_an_interval() -> None:
    """As narrow as 60 labels allow in which nothing was changed: 3.7 / 60 of the possible change."""
    judge = [0.2, 0.5, 0.9, 1.0] * 50

    found = corrected_mean(judge, masked(judge, range(60)), judge_counts=[1.0] * 200)

    assert found.value == found.judge
    most = 3.689 / 60 * math.sqrt(1 - 60 / 200)
    assert found.low == pytest.approx(found.judge - most, abs=1e-4)
    assert found.high == pytest.approx(found.judge + most * 0.8, abs=1e-4)


def test_a_perfect_judge_gives_its_own_value_and_a_smaller_interval() -> None:
    rng = np.random.default_rng(0)
    people = (rng.random(600) < 0.3).astype(float)
    labelled = [int(place) for place in rng.choice(600, 100, replace=False)]
    known = masked(people.tolist(), labelled)

    found = corrected_mean(people.tolist(), known, strata=people.tolist())
    alone = corrected_mean([0.0] * 600, known)

    assert found.value == pytest.approx(found.judge)
    assert (found.high - found.low) < 0.6 * (alone.high - alone.low)  # type: ignore[operator]
    assert found.low < found.value, "labels that all agree do not make it certain"  # type: ignore[operator]


def test_a_mean_is_that_of_truescore() -> None:
    """Its λ is that of the mean over unlabelled items."""
    rng = np.random.default_rng(1)
    people = (rng.random(2000) < 0.3).astype(float)
    judge = np.where(rng.random(2000) < 0.85, people, 1 - people)
    labelled = rng.choice(2000, 300, replace=False)

    found = corrected_mean(judge.tolist(), masked(people.tolist(), labelled.tolist()))

    same = truescore.ppi_estimate(judge, people[labelled], labelled, lambda_=1700 / 2000)
    assert found.value == pytest.approx(same.point, abs=1e-12)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (corrected_mean([0.5] * 20, masked([0.0] * 20, range(9))), "9 of 20 pairs are labelled"),
        (
            corrected_mean([0] * 40, masked([0] * 40, range(12)), strata=[0] * 10 + [1] * 30),
            "of 1, 2 of 30 pairs are labelled",
        ),
    ],
)
def test_labels_that_are_too_few_are_told(found: Corrected, reason: str) -> None:
    assert found.low is None
    assert reason in (found.reason or "")


Drawn = tuple[Corrected, float, float]
"""What is estimated, and the truth for these items and for all."""


def rates(rng: np.random.Generator, number: int) -> Callable[[], Drawn]:
    """Errors go together by query; half of the labels are of what the judge supports."""
    query = np.repeat(np.arange(4000), 40)
    people = rng.random(query.size) < np.repeat(rng.beta(1, 4, 4000), 40)
    likely = np.where(people, 0.2, 0.08) * np.exp(rng.normal(0, 0.5, 4000))[query]
    judge = people ^ (rng.random(query.size) < likely)

    def draw() -> Drawn:
        of = np.isin(query, rng.choice(4000, 100, replace=False))
        f, y = judge[of].astype(int), people[of].astype(int)
        some = [rng.choice(np.flatnonzero(f == one), number // 2, replace=False) for one in (0, 1)]
        known = masked(y.tolist(), np.concatenate(some).tolist())
        found = corrected_mean(f.tolist(), known, strata=f.tolist(), queries=query[of].tolist())
        return found, float(y.mean()), float(people.mean())

    return draw


def means(rng: np.random.Generator, number: int) -> Callable[[], Drawn]:
    """Means over queries, of which the judge's are noisy."""
    people = rng.beta(2, 1, 5000)
    judge = np.clip(people + rng.normal(0.05, 0.15, 5000), 0, 1)

    def draw() -> Drawn:
        of = rng.choice(5000, 150, replace=False)
        known = masked(people[of].tolist(), rng.choice(150, number, replace=False).tolist())
        found = corrected_mean(judge[of].tolist(), known)
        return found, float(people[of].mean()), float(people.mean())

    return draw


def shares_of_queries(rng: np.random.Generator, number: int) -> Callable[[], Drawn]:
    """Queries of 20 to 600 pairs; errors go together by query."""
    sizes = np.clip(rng.lognormal(4, 0.8, 3000), 20, 600).astype(int)
    people = rng.binomial(sizes, rng.beta(1, 4, 3000))
    judge = rng.binomial(people, rng.beta(8, 2, 3000))
    judge = judge + rng.binomial(sizes - people, rng.beta(1, 12, 3000))

    def draw() -> Drawn:
        of = rng.choice(3000, 150, replace=False)
        known = masked(people[of].tolist(), rng.choice(150, number, replace=False).tolist())
        counts = sizes[of].tolist()
        found = corrected_mean(judge[of].tolist(), known, judge_counts=counts, people_counts=counts)
        return found, people[of].sum() / sizes[of].sum(), people.sum() / sizes.sum()

    return draw


def rare_changes(rng: np.random.Generator, number: int) -> Callable[[], Drawn]:
    """A good judge: of 60 labelled queries people change about 2, or 9."""

    def draw() -> Drawn:
        judge = rng.beta(2, 1, 200)
        people = np.where(rng.random(200) < number / 100, rng.random(200), judge)
        known = masked(people.tolist(), rng.choice(200, 60, replace=False).tolist())
        found = corrected_mean(judge.tolist(), known, judge_counts=[1.0] * 200)
        return found, float(people.mean()), float(people.mean())

    return draw


@pytest.mark.slow
@pytest.mark.parametrize(
    ("simulated", "number", "draws"),
    [
        *((rates, number, 1000) for number in (100, 300)),
        *((means, number, 2000) for number in (20, 100)),
        *((shares_of_queries, number, 2000) for number in (16, 30)),
        *((rare_changes, number, 500) for number in (3, 15)),
    ],
)
def test_intervals_hold_the_truth_19_times_in_20(
    simulated: Callable[[np.random.Generator, int], Callable[[], Drawn]], number: int, draws: int
) -> None:
    """That for these items, and that for others; where changes are rare, the first and more often."""
    draw = simulated(np.random.default_rng(0 if simulated is rare_changes else number), number)
    held = [
        (
            (found.low or 0) <= here <= (found.high or 0),
            (found.wide_low or 0) <= all_ <= (found.wide_high or 0),
        )
        for found, here, all_ in (draw() for _ in range(draws))
    ]
    these, like_these = (fmean(each) for each in zip(*held, strict=True))

    assert these >= 0.93
    if simulated is rare_changes:
        assert these >= 0.95
    else:
        assert max(these, like_these) <= 0.97
        assert like_these >= 0.93
