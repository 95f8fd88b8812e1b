"""Comparisons of runs."""

import random
from collections.abc import Iterable

import pytest

from freshstack_dspy.errors import ConfigError
from freshstack_dspy.measures.compare import (
    RunDifference,
    compare,
    compare_evaluations,
    ranking_agreement,
)
from freshstack_dspy.measures.evaluation import Values, evaluate
from freshstack_dspy.measures.run import Run
from freshstack_dspy.measures.statistics import mean_interval, permutation_tests


def test_by_hand_means_can_agree_where_no_query_does() -> None:
    """Means 2/3, 1/2, 1/3 both times; but q1 has the runs as abc here and as bca there."""
    one = {
        "a": {"q1": 1.0, "q2": 1 / 3},
        "b": {"q1": 0.5, "q2": 0.5},
        "c": {"q1": 0.0, "q2": 2 / 3},
    }
    other = {run: {"q1": of["q2"], "q2": of["q1"]} for run, of in one.items()}
    found = ranking_agreement(one, other)

    assert found.kendall.value == 1
    assert (found.within_queries.value, found.queries) == (-1, 2)


def by_query(column: Iterable[float]) -> dict[str, float]:
    return {f"q{place:02}": value for place, value in enumerate(column)}


def runs(*columns: list[float]) -> dict[str, Values]:
    """Runs A, B, … that have these values for queries q00, q01, …"""
    return {
        name: Values.of(name, {"M@1": by_query(column)})
        for name, column in zip("ABCDEF", columns, strict=False)
    }


def drawn(number: int, *shifts: float) -> dict[str, Values]:
    rng = random.Random(0)
    base = [rng.random() for _ in range(number)]
    return runs(*([value + shift + rng.gauss(0, 0.1) for value in base] for shift in shifts))


def test_a_difference_is_all_that_is_known_of_two_runs() -> None:
    found = compare_evaluations(runs([0.5, 0.5, 0.0, 1.0], [1.0, 0.5, 0.5, 0.75]))
    (difference,) = found.differences

    assert (difference.run, difference.against, difference.measure) == ("B", "A", "M@1")
    assert difference.per_query == {"q00": 0.5, "q01": 0.0, "q02": 0.5, "q03": -0.25}
    assert difference.interval == mean_interval(difference.per_query)
    assert difference.significance == permutation_tests([[*difference.per_query.values()]])[0]
    assert (difference.wins, difference.ties, difference.losses) == (2, 1, 1)
    assert (difference.deviation, difference.effect_size) == (0.375, 0.1875 / 0.375)
    assert (difference.queries, difference.left_out) == (4, 0)
    assert found.means == {"A": {"M@1": 0.5}, "B": {"M@1": 0.6875}}
    assert (found.tests, found.baseline) == (1, None)


def test_a_large_difference_is_found_and_a_small_one_is_not_called_none() -> None:
    evaluations = drawn(50, 0, 0.3, 0.001)
    found = compare_evaluations(evaluations)
    against_b = compare_evaluations(evaluations, baseline="B")
    assert [(of.run, of.against) for of in against_b.differences] == [("A", "B"), ("C", "B")]
    verdicts = {(of.run, of.against): of for of in found.differences}

    assert verdicts["B", "A"].verdict == "higher"
    assert verdicts["C", "B"].verdict == "lower"
    missed = verdicts["C", "A"]
    assert missed.verdict == "not found"
    assert missed.detectable is not None
    assert f"{missed.detectable:.3g}" in missed.conclusion


def steps(number: int, queries: int) -> dict[str, Values]:
    """Make a baseline and runs that are each higher on every query, by much, in three measures."""
    chance = random.Random("steps")

    def columns(run: int) -> dict[str, dict[str, float]]:
        numbers = ([run and 0.5 + chance.random() / 10 for _ in range(queries)] for _ in range(3))
        return {f"M@{k}": by_query(column) for k, column in enumerate(numbers, 1)}

    return {f"run{run}": Values.of(f"run{run}", columns(run)) for run in range(number + 1)}


def test_nothing_is_promised_that_the_test_can_not_find() -> None:
    """Ten queries give no p below 1/512, and 30 tests hold the smallest against .05 / 30."""
    found = compare_evaluations(steps(10, 10), baseline="run0")

    assert found.tests == 30
    for each in found.differences:
        assert (each.significance.p_value, each.verdict) == (1 / 512, "not found")
        assert each.detectable is None
    more = compare_evaluations(steps(10, 11), baseline="run0")
    assert {each.verdict for each in more.differences} == {"higher"}


def test_only_queries_with_a_value_in_both_are_compared() -> None:
    (difference,) = compare_evaluations(runs([0.5, 0.25, 1.0], [0.75, 0.5])).differences

    assert (difference.queries, difference.left_out) == (2, 1)
    assert difference.per_query == {"q00": 0.25, "q01": 0.25}


def test_from_three_runs_on_measures_are_compared() -> None:
    def measured(*names: str) -> dict[str, Values]:
        rng = random.Random(1)
        columns = {
            name: {m: by_query(rng.random() for _ in range(8)) for m in ("M@1", "N@1")}
            for name in names
        }
        return {name: Values.of(name, of) for name, of in columns.items()}

    assert compare_evaluations(measured("A", "B")).agreements == ()
    (agreement,) = compare_evaluations(measured("A", "B", "C")).agreements
    assert (agreement.first, agreement.second) == ("M@1", "N@1")
    assert agreement.kendall.value in (-1, pytest.approx(-1 / 3), pytest.approx(1 / 3), 1)


def test_python_takes_lists_dictionaries_and_gives_tables() -> None:
    """`compare(qrels, [a, b])` ended in an index error."""
    qrels = {"q1": {"a": 1, "b": 0}, "q2": {"a": 0, "b": 1}}
    one, two = ({"q1": {"a": 2.0, "b": 1.0}}, {"q2": {"a": 2.0, "b": 1.0}})

    found = compare(qrels, [one, two], "RR")

    assert found.runs == ("run 1", "run 2")
    named = compare(qrels, {"run 1": one, "run 2": two}, "RR")
    assert found.model_dump() == named.model_dump()
    assert list(found.to_pandas()["verdict"]) == ["not found"]
    assert repr(found) == "Comparison(run 1, run 2; 0 of 1 differences found)"
    evaluation = evaluate(qrels, one, "RR")
    assert evaluation.to_pandas()["RR"].to_dict() == {"q1": 1.0, "q2": 0.0}
    assert repr(evaluation) == "Evaluation('run', 2 queries, RR 0.5000)"


def test_an_oracle_is_compared_with_none_and_is_the_headroom_of_the_others() -> None:
    """Query q3 has no answer to search with, so that run is measured on the other two there."""
    qrels = {f"q{number}": {"a": 1} for number in (1, 2, 3)}
    first, second = {"a": 2.0, "b": 1.0}, {"a": 1.0, "b": 2.0}
    mine = Run("mine", {"q1": first, "q2": second, "q3": second})
    bad = Run("bad", dict.fromkeys(qrels, second))
    answer = Run("hybrid@answer@10", {"q1": first, "q2": first})
    nuggets = Run("bm25@nuggets", {"q1": first, "q2": second, "q3": {}})
    ordinary = Run("hybrid@sub_questions", {"q1": second, "q2": second, "q3": first})

    found = compare(qrels, [answer, mine, nuggets, bad, ordinary], "RR")

    assert (found.runs, found.oracles) == (
        ("mine", "bad", "hybrid@sub_questions"),
        ("hybrid@answer@10", "bm25@nuggets"),
    )
    assert {run for each in found.differences for run in (each.run, each.against)} == {*found.runs}
    assert {
        each.run: (each.oracle, each.queries, each.interval.value) for each in found.headroom
    } == {
        "mine": ("hybrid@answer@10", 2, 0.25),
        "bad": ("hybrid@answer@10", 2, 0.5),
        "hybrid@sub_questions": ("hybrid@answer@10", 2, 0.5),
    }
    assert compare(qrels, [mine, bad], "RR").headroom == ()
    with pytest.raises(ConfigError, match=r"two runs, not 1 without bm25@nuggets: oracles"):
        compare(qrels, [mine, nuggets])
    with pytest.raises(ConfigError, match=r"no run is named 'bm25@nuggets' among"):
        compare(qrels, [mine, bad, nuggets], baseline="bm25@nuggets")


def test_a_dry_run_has_differences_and_no_verdict() -> None:
    dry = {
        name: of.model_copy(update={"dry_run": True}) for name, of in drawn(40, 0.5, 0.0).items()
    }
    found = compare_evaluations(dry)
    (difference,) = found.differences

    assert found.dry_run
    assert difference.verdict == "dry run"
    assert difference.interval.low is not None
    assert "labels by a word counter" in difference.conclusion
    assert "labels by a word counter" in repr(found)
    assert (found.to_rows()[0]["p"], found.to_rows()[0]["detectable"]) == (None, None)


def test_a_verdict_that_unjudged_chunks_decide_is_none() -> None:
    """B has chunks above the relevant one that nobody judged; judged to be nothing, they decide."""
    queries = [f"q{number:02}" for number in range(12)]
    labels = {query: {"relevant": 1, "other": 0} for query in queries}
    first = {query: {"relevant": 2.0, "other": 1.0} for query in queries}
    second = {query: {"new": 3.0, "relevant": 2.0, "other": 1.0} for query in queries}

    def difference(qrels: dict[str, dict[str, int]], measure: str = "RR") -> RunDifference:
        (found,) = compare(qrels, {"A": first, "B": second}, measure).differences
        return found

    unjudged = difference(labels)
    assert unjudged.verdict == "depends on what is unjudged"
    assert (unjudged.interval.value, unjudged.judged_only.value) == (-0.5, 0.0)
    judged = difference({query: {**of, "new": 0} for query, of in labels.items()})
    assert (judged.verdict, judged.judged_only) == ("lower", judged.interval)
    assert judged.judged_only_p == judged.adjusted_p
    assert difference(labels, "RR(judged_only=True)").verdict == "not found"
    assert difference(labels, "Judged@1").verdict == "lower"
    # Where qrels list only what is relevant, all else is not.
    assert difference({query: {"relevant": 1} for query in queries}).verdict == "lower"


def test_a_difference_that_unjudged_chunks_hide_depends_on_them() -> None:
    queries = [f"q{number:02}" for number in range(12)]
    labels = {query: {"relevant": 1, "other": 0} for query in queries}
    first = {query: {"other": 2.0, "relevant": 1.0} for query in queries}
    second = {query: {"new": 3.0, "relevant": 2.0, "other": 1.0} for query in queries}
    (found,) = compare(labels, {"A": first, "B": second}, "RR").differences

    assert (found.interval.value, found.judged_only.value) == (0.0, 0.5)
    assert found.verdict == "depends on what is unjudged"
