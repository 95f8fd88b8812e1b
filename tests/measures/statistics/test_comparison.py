import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshstack_dspy.measures.compare import Comparison, ComparisonRules, compare
from freshstack_dspy.measures.evaluation import Evaluation
from freshstack_dspy.measures.statistics import adjust, mean_interval, permutation_test, t_test

from .test_ranking_agreement import evaluation

eighths = st.integers(0, 8).map(lambda number: number / 8)
FAST = ComparisonRules(resamples=200, permutations=500)


def runs(*values: list[float]) -> dict[str, Evaluation]:
    """Evaluate runs A, B, … as having these values for queries q00, q01, …"""
    return {
        name: evaluation(name, {f"q{place:02}": {"M@1": of} for place, of in enumerate(column)})
        for name, column in zip("ABCDEF", values, strict=False)
    }


def drawn(number: int, *shifts: float) -> dict[str, Evaluation]:
    rng = random.Random(0)
    base = [rng.random() for _ in range(number)]
    return runs(*([value + shift + rng.gauss(0, 0.1) for value in base] for shift in shifts))


def test_a_difference_is_all_that_is_known_of_two_runs() -> None:
    found = compare(runs([0.5, 0.5, 0.0, 1.0], [1.0, 0.5, 0.5, 0.75]))
    (difference,) = found.differences

    assert (difference.run, difference.against, difference.measure) == ("B", "A", "M@1")
    assert difference.per_query == {"q00": 0.5, "q01": 0.0, "q02": 0.5, "q03": -0.25}
    assert difference.interval == mean_interval(difference.per_query)
    assert difference.significance == permutation_test(list(difference.per_query.values()))
    assert (difference.wins, difference.ties, difference.losses) == (2, 1, 1)
    assert difference.effect_size == pytest.approx(0.1875 / 0.375)
    assert (difference.queries, difference.left_out) == (4, 0)
    assert found.means == {"A": {"M@1": 0.5}, "B": {"M@1": 0.6875}}
    assert (found.tests, found.correction, found.baseline) == (1, "holm", None)


def test_every_run_is_held_against_those_before_it_or_the_baseline() -> None:
    evaluations = drawn(12, 0, 0, 0)
    every = compare(evaluations, rules=FAST)
    against_b = compare(evaluations, baseline="B", rules=FAST)

    assert [(of.run, of.against) for of in every.differences] == [
        ("B", "A"), ("C", "A"), ("C", "B"),
    ]  # fmt: skip
    assert [(of.run, of.against) for of in against_b.differences] == [("A", "B"), ("C", "B")]


def test_all_p_values_of_all_measures_are_one_family() -> None:
    rng = random.Random(3)
    evaluations = {
        name: evaluation(
            name, {f"q{n}": {"M@1": rng.random(), "N@1": rng.random()} for n in range(15)}
        )
        for name in "ABC"
    }
    found = compare(evaluations)
    p_values = [of.significance.p_value or 0 for of in found.differences]

    assert [of.measure for of in found.differences] == ["M@1"] * 3 + ["N@1"] * 3
    assert found.tests == 6
    assert [of.adjusted_p for of in found.differences] == adjust(p_values, "holm")


def test_a_large_difference_is_found_and_a_small_one_is_not_called_none() -> None:
    found = compare(drawn(50, 0, 0.3, 0.001))
    verdicts = {(of.run, of.against): of for of in found.differences}

    assert verdicts["B", "A"].verdict == "higher"
    assert verdicts["C", "B"].verdict == "lower"
    assert verdicts["B", "A"].conclusion == (
        "a difference was found: B is higher than A on average over queries like these"
    )
    missed = verdicts["C", "A"]
    assert missed.verdict == "not found"
    assert missed.conclusion == (
        "no difference was found, which is not to say that there is none: one below "
        f"{missed.detectable:.3g} would often be missed with 50 queries"
    )
    assert "equal" not in missed.conclusion


def test_the_t_test_and_the_correction_are_those_asked_for() -> None:
    evaluations = drawn(20, 0, 0.05, 0.06)
    found = compare(evaluations, rules=ComparisonRules(test="t", correction="none", level=0.8))
    difference = found.differences[0]

    assert difference.significance == t_test(list(difference.per_query.values()))
    assert difference.adjusted_p == difference.significance.p_value
    assert difference.interval == mean_interval(difference.per_query, level=0.8)
    assert (found.test, found.correction, found.level) == ("t", "none", 0.8)


def test_what_can_be_detected_depends_on_how_many_comparisons_are_made() -> None:
    two, three = (compare(drawn(40, *shifts), rules=FAST) for shifts in ([0, 0.1], [0, 0.1, 0.1]))
    bh = compare(drawn(40, 0, 0.1, 0.1), rules=ComparisonRules(correction="bh", resamples=9))

    assert two.differences[0].detectable is not None
    assert three.differences[0].detectable is not None
    assert two.differences[0].detectable < three.differences[0].detectable
    assert bh.differences[0].detectable == three.differences[0].detectable


def steps(number: int, queries: int) -> dict[str, Evaluation]:
    """Make a baseline and runs that are each higher on every query, by much, in three measures."""
    chance = random.Random("steps")
    return {
        f"run{run}": evaluation(
            f"run{run}",
            {
                f"q{query:02}": {f"M@{k}": run and 0.5 + chance.random() / 10 for k in (1, 2, 3)}
                for query in range(queries)
            },
        )
        for run in range(number + 1)
    }


@pytest.mark.parametrize("correction", ["holm", "bonferroni"])
def test_nothing_is_promised_that_the_test_can_not_find(correction: Any) -> None:
    """Ten queries give no p below 1/512, and 30 tests hold the smallest against .05 / 30."""
    rules = ComparisonRules(correction=correction, resamples=9)
    found = compare(steps(10, 10), baseline="run0", rules=rules)

    assert found.tests == 30
    for each in found.differences:
        assert (each.significance.p_value, each.verdict) == (1 / 512, "not found")
        assert (each.detectable, each.queries_needed) == (None, 11)
        assert each.conclusion == (
            "no difference was found, and none could be: the values differ on so few queries "
            "that p is at least 0.00195, too much for 30 tests"
        )
    more = compare(steps(10, 11), baseline="run0", rules=rules)
    assert {each.verdict for each in more.differences} == {"higher"}


def test_what_others_showed_can_let_a_test_find_more() -> None:
    """Benjamini and Hochberg hold the largest of 30 p-values against the whole level."""
    rules = ComparisonRules(correction="bh", resamples=9)
    found = compare(steps(10, 10), baseline="run0", rules=rules)

    assert {each.verdict for each in found.differences} == {"higher"}
    assert {each.detectable for each in found.differences} == {None}


def test_a_test_that_can_find_something_only_after_others_says_so() -> None:
    """Of two tests by Holm, the first is found, so that the other may have p up to .05."""
    few = [0.1, 0.2, 0.3, 0.4, 0.5, -0.6] + [0.0] * 6
    many = [0.5 + place / 100 for place in range(12)]
    comparison = compare(
        runs([0.0] * 12, few, many), baseline="A", rules=ComparisonRules(resamples=9)
    )
    (second, first) = comparison.differences

    assert (first.verdict, second.verdict) == ("higher", "not found")
    assert second.detectable is None
    assert second.conclusion == (
        "no difference was found, which says little: the values differ on so few queries that "
        "p is at least 0.0312"
    )


def test_too_few_permutations_are_named() -> None:
    chance = random.Random("signs")
    columns = [[chance.random() for _ in range(25)] for _ in range(2)]
    rules = ComparisonRules(resamples=9, permutations=10)
    (difference,) = compare(runs(*columns), rules=rules).differences

    assert difference.detectable is None
    assert difference.conclusion == (
        "no difference was found, and none could be: so few signs are sampled that p is at "
        "least 0.0909"
    )


def test_only_queries_with_a_value_in_both_are_compared() -> None:
    evaluations = runs([0.5, 0.25, 1.0], [0.75, 0.5, 0.0])
    holey = {query: dict(of) for query, of in evaluations["B"].per_query.items()}
    del holey["q02"]["M@1"]
    evaluations["B"] = evaluations["B"].model_copy(update={"per_query": holey})
    (difference,) = compare(evaluations).differences

    assert (difference.queries, difference.left_out) == (2, 1)
    assert difference.per_query == {"q00": 0.25, "q01": 0.25}


@pytest.mark.parametrize("test", ["permutation", "t"])
def test_runs_with_the_same_values(test: Any) -> None:
    same = [0.5, 0.25, 1.0]
    (difference,) = compare(runs(same, same), rules=ComparisonRules(test=test)).differences

    assert (difference.effect_size, difference.detectable, difference.queries_needed) == (
        None, None, None,
    )  # fmt: skip
    assert (difference.wins, difference.ties, difference.losses) == (0, 3, 0)
    if test == "permutation":
        assert (difference.significance.p_value, difference.verdict) == (1.0, "not found")
        assert difference.conclusion == (
            "no difference was found: the two have the same value on all 3 queries"
        )
    else:
        assert (difference.significance.p_value, difference.verdict) == (None, "untested")
        assert difference.conclusion == (
            "no test could be made: all 3 differences are 0: t is undefined"
        )


def test_one_query_is_no_test() -> None:
    found = compare(runs([0.5], [1.0]))
    (difference,) = found.differences

    assert (difference.verdict, difference.adjusted_p, found.tests) == ("untested", None, 0)
    assert difference.interval.reason == "an interval over queries needs two with a value, not 1"
    assert difference.conclusion == "no test could be made: a paired test needs two queries, not 1"


def test_no_common_query_is_no_test() -> None:
    evaluations = runs([0.5, 0.5], [1.0, 1.0])
    elsewhere = {f"x{query}": of for query, of in evaluations["B"].per_query.items()}
    evaluations["B"] = evaluations["B"].model_copy(update={"per_query": elsewhere})
    (difference,) = compare(evaluations).differences

    assert (difference.queries, difference.left_out, difference.interval.value) == (0, 4, None)
    assert difference.verdict == "untested"


def test_where_no_values_could_show_a_difference_it_says_so() -> None:
    """Four queries differ: of 8 ways one is as far, so p is at least 1/8, whatever they are."""
    (difference,) = compare(runs([0.0] * 4 + [0.5] * 20, [1.0] * 4 + [0.5] * 20)).differences

    assert difference.significance.p_value == 0.125
    assert difference.conclusion == (
        "no difference was found, and none could be: the values differ on so few queries that p "
        "is at least 0.125"
    )


def test_a_difference_is_found_where_p_is_the_level_itself() -> None:
    """Six ones: 2 of 64 signs, p = 1/32."""
    evaluations = runs([0.0] * 6, [1.0] * 6)
    at, below = (
        compare(evaluations, rules=ComparisonRules(level=level)).differences[0]
        for level in (31 / 32, 31.1 / 32)
    )

    assert (at.verdict, below.verdict) == ("higher", "not found")


@given(
    st.integers(2, 12).flatmap(
        lambda n: st.tuples(*[st.lists(eighths, min_size=n, max_size=n)] * 2)
    )
)
@settings(max_examples=40)
def test_swapping_two_runs_changes_signs_only(values: tuple[list[float], list[float]]) -> None:
    forward = compare(runs(*values), baseline="A", rules=FAST).differences[0]
    back = compare(runs(*values), baseline="B", rules=FAST).differences[0]

    assert forward.significance.p_value == back.significance.p_value
    assert 0 < (forward.adjusted_p or 0) <= 1
    assert (forward.wins, forward.losses) == (back.losses, back.wins)
    assert forward.interval.value == pytest.approx(-(back.interval.value or 0))
    if forward.interval.low is None:
        assert back.interval.high is None
    else:
        assert forward.interval.low == pytest.approx(-(back.interval.high or 0), abs=1e-9)
    assert forward.detectable == pytest.approx(back.detectable)
    assert {forward.verdict, back.verdict} in ({"not found"}, {"higher", "lower"})


def test_the_same_seed_gives_the_same_bytes_and_another_does_not() -> None:
    evaluations = drawn(30, 0, 0.02)
    first = compare(evaluations, rules=FAST).model_dump_json()
    again = {
        name: of.model_copy(update={"per_query": dict(reversed(of.per_query.items()))})
        for name, of in evaluations.items()
    }

    assert compare(again, rules=FAST).model_dump_json() == first
    assert compare(evaluations, rules=ComparisonRules(seed=1)).model_dump_json() != first
    assert Comparison.model_validate(json.loads(first)).model_dump_json() == first


def test_from_three_runs_on_measures_are_compared() -> None:
    def measured(*names: str) -> dict[str, Evaluation]:
        rng = random.Random(1)
        return {
            name: evaluation(
                name, {f"q{n}": {"M@1": rng.random(), "N@1": rng.random()} for n in range(8)}
            )
            for name in names
        }

    assert compare(measured("A", "B"), rules=FAST).agreements == ()
    (agreement,) = compare(measured("A", "B", "C"), rules=FAST).agreements
    assert (agreement.first, agreement.second) == ("M@1", "N@1")


def test_what_can_not_be_compared_is_refused() -> None:
    evaluations = runs([0.5, 1.0], [0.25, 1.0])
    other_rule = evaluations["B"].model_copy(update={"undefined": "skip"})

    with pytest.raises(ValueError, match="a comparison needs two runs, not 1"):
        compare({"A": evaluations["A"]})
    with pytest.raises(ValueError, match="no run is named 'C'; there are A, B"):
        compare(evaluations, baseline="C")
    with pytest.raises(ValueError, match="not evaluated alike: undefined 'zero' and 'skip'"):
        compare({**evaluations, "B": other_rule})


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"test": "wilcoxon"}, "test is one of permutation, t, not 'wilcoxon'"),
        ({"correction": "sidak"}, "correction is one of holm, bonferroni, bh, none, not 'sidak'"),
        ({"level": 95}, "level is between 0 and 1, not 95"),
        ({"resamples": 0}, "resamples is at least 1, not 0"),
        ({"permutations": 0}, "permutations is at least 1, not 0"),
        ({"seed": -1}, "seed is at least 0, not -1"),
    ],
)
def test_rules_out_of_range_are_refused(rules: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ComparisonRules(**rules)


def test_among_runs_that_are_alike_a_family_seldom_finds_anything() -> None:
    """100 families of 6 true nulls: about 5 find something; uncorrected, about 20 do."""
    rng = random.Random(4)
    found = 0
    for _ in range(100):
        families = runs(*([rng.gauss(0, 1) for _ in range(12)] for _ in range(4)))
        rules = ComparisonRules(test="t", resamples=1)
        found += any(of.verdict != "not found" for of in compare(families, rules=rules).differences)

    assert found <= 12
