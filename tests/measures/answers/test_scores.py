import pytest

from freshstack_dspy.measures.answers import (
    AnswerAssignments,
    NuggetAssignment,
    Sampling,
    Scores,
    score_assignments,
)
from freshstack_dspy.measures.statistics import bootstrap_interval
from freshstack_dspy.records import Assignment

HELD: dict[float, Assignment] = {1: "support", 0.5: "partial_support", 0: "not_support"}


def answers(run: str, **values: float) -> list[AnswerAssignments]:
    return [
        AnswerAssignments(run, query, (NuggetAssignment("n", "vital", HELD[value]),))
        for query, value in values.items()
    ]


def test_values_are_kept_by_run_and_query() -> None:
    scores = score_assignments([*answers("b", q2=0.5, q1=1), *answers("a", q1=0)])

    assert [(each.run, each.query_id) for each in scores.answers] == [
        ("a", "q1"),
        ("b", "q1"),
        ("b", "q2"),
    ]
    assert scores.values("b", "V") == {"q1": 1, "q2": 0.5}
    assert [(each.query_id, each.answers, each.means["V"]) for each in scores.queries] == [
        ("q1", 2, 0.5),
        ("q2", 1, 0.5),
    ]


def test_a_query_that_other_runs_have_is_named_and_counts_as_was_chosen() -> None:
    given = [*answers("a", q1=1), *answers("b", q1=1, q2=1)]

    left_out, as_zero = score_assignments(given), score_assignments(given, absent="zero")

    assert [run.absent for run in left_out.runs] == [("q2",), ()]
    assert [run.means["V"].value for run in left_out.runs] == [1, 1]
    assert [run.means["V"].value for run in as_zero.runs] == [0.5, 1]
    assert as_zero.choices["absent"] == "zero"


def test_an_interval_is_a_bootstrap_over_queries() -> None:
    values = {"q1": 1.0, "q2": 0.5, "q3": 0.0, "q4": 1.0, "q5": 0.5}
    scores = score_assignments(answers("r", **values), sampling=Sampling(resamples=300, seed=4))

    expected = bootstrap_interval(
        {query: [value] for query, value in values.items()},
        lambda drawn: sum(drawn) / len(drawn),
        resamples=300,
        seed=4,
    )
    found = scores.runs[0].means["V"]
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.groups == 5


def test_one_answer_has_a_mean_and_no_interval() -> None:
    (run,) = score_assignments(answers("r", q=1)).runs

    assert run.means["A"].value == 1
    assert run.means["A"].low is None
    assert run.means["A"].reason


def test_an_answer_without_a_value_is_named() -> None:
    okay = AnswerAssignments("r", "q2", (NuggetAssignment("n", "okay", "support"),))

    (run,) = score_assignments([*answers("r", q1=1), okay]).runs

    assert run.without == {"V_strict": ("q2",), "V": ("q2",)}
    assert run.means["V"].groups == 1


def test_scores_read_back_as_they_were_written() -> None:
    scores = score_assignments([*answers("a", q1=1), *answers("b", q1=1, q2=1)])

    assert Scores.model_validate_json(scores.model_dump_json()) == scores
