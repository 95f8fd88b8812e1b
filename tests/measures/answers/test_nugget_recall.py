from itertools import product
from statistics import fmean
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.answers import (
    NUGGET_RECALLS,
    AnswerAssignments,
    MissingAssignment,
    NuggetAssignment,
    nugget_recall,
    score_assignments,
)
from freshstack_dspy.records import Assignment, Importance
from tests.measures.strategies import untimed

FIVE = (
    NuggetAssignment("n0", "vital", "support"),
    NuggetAssignment("n1", "vital", "partial_support"),
    NuggetAssignment("n2", "vital", "not_support"),
    NuggetAssignment("n3", "okay", "support"),
    NuggetAssignment("n4", "okay", "partial_support"),
)
Pair = tuple[Importance | None, Assignment | None]
pairs: st.SearchStrategy[Pair] = st.tuples(
    st.sampled_from([*get_args(Importance), None]), st.sampled_from([*get_args(Assignment), None])
)
nugget_lists = st.lists(pairs, max_size=8).map(lambda drawn: nuggets(*drawn))


def nuggets(*pairs: Pair) -> list[NuggetAssignment]:
    return [
        NuggetAssignment(f"n{place}", importance, assignment)
        for place, (importance, assignment) in enumerate(pairs)
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("V_strict", 1 / 3),
        ("V", 1.5 / 3),
        ("A_strict", 2 / 5),
        ("A", 3 / 5),
        ("W_strict", (1 + 0.5) / (3 + 1)),
        ("W", (1.5 + 0.75) / (3 + 1)),
    ],
)
def test_five_nuggets_by_hand(name: str, expected: float) -> None:
    assert nugget_recall(FIVE, NUGGET_RECALLS[name]).value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("missing", "expected"), [("leave_out", 1.0), ("zero", 0.5), ("no_value", None)]
)
@pytest.mark.parametrize("assignment", ["failed", None])
def test_what_has_no_assignment_counts_as_was_chosen(
    missing: MissingAssignment, expected: float | None, assignment: Assignment | None
) -> None:
    """nuggetizer counts a failed assignment 0, and says nothing of it."""
    given = nuggets(("vital", "support"), ("vital", assignment))

    found = nugget_recall(given, NUGGET_RECALLS["V"], missing=missing)

    assert found.value == expected
    if expected is None:
        assert found.reason == "1 of 2 nuggets have no assignment"


def test_an_okay_nugget_without_assignment_takes_no_value_from_the_vital_ones() -> None:
    given = nuggets(("vital", "support"), ("okay", "failed"))

    assert nugget_recall(given, NUGGET_RECALLS["V"], missing="no_value").value == 1
    assert nugget_recall(given, NUGGET_RECALLS["A"], missing="no_value").value is None


def test_an_answer_all_of_whose_assignments_failed_has_no_value() -> None:
    found = nugget_recall(nuggets(("vital", "failed")), NUGGET_RECALLS["A"])

    assert found.reason == "none of 1 nuggets has an assignment"


def test_without_a_vital_nugget_there_is_no_value_unless_it_is_chosen_to_be_0() -> None:
    given = nuggets(("okay", "support"))

    assert nugget_recall(given, NUGGET_RECALLS["V"]).reason == "no nugget is vital"
    assert nugget_recall(given, NUGGET_RECALLS["V"], empty="zero").value == 0
    assert nugget_recall([], NUGGET_RECALLS["V"]).reason == "the query has no nuggets"


def test_a_nugget_that_was_not_rated_counts_among_all_only() -> None:
    given = nuggets(("vital", "support"), (None, "not_support"))

    values = {name: nugget_recall(given, each).value for name, each in NUGGET_RECALLS.items()}

    assert values == {
        "V_strict": 1,
        "V": 1,
        "A_strict": 0.5,
        "A": 0.5,
        "W_strict": 1,
        "W": 1,
    }


@given(nugget_lists)
@untimed
def test_nuggetizers_figures_are_those_of_its_compatible_choices(
    given: list[NuggetAssignment],
) -> None:
    """Written out: partial support is a half, all that is not vital is in `all` only."""

    def theirs(chosen: list[NuggetAssignment], partial: float) -> float:
        held = sum(
            {"support": 1.0, "partial_support": partial}.get(each.assignment or "", 0.0)
            for each in chosen
        )
        return held / len(chosen) if chosen else 0.0

    (answer,) = score_assignments(
        [AnswerAssignments("r", "q", tuple(given))], missing="zero", empty="zero"
    ).answers

    vital = [each for each in given if each.importance == "vital"]
    for name, (chosen, partial) in {
        "V_strict": (vital, 0.0),
        "V": (vital, 0.5),
        "A_strict": (given, 0.0),
        "A": (given, 0.5),
    }.items():
        assert answer.values[name] == theirs(chosen, partial)


@given(nugget_lists, st.sampled_from(["leave_out", "zero", "no_value"]))
@untimed
def test_a_value_is_a_share_and_strict_is_never_more(
    given: list[NuggetAssignment], missing: MissingAssignment
) -> None:
    values = {
        name: nugget_recall(given, each, missing=missing).value
        for name, each in NUGGET_RECALLS.items()
    }

    for name in "VAW":
        strict, lenient = values[f"{name}_strict"], values[name]
        assert (strict is None) == (lenient is None)
        if strict is not None and lenient is not None:
            assert 0 <= strict <= lenient <= 1


def test_a_nugget_that_other_answers_have_is_missing_in_one_that_came_back_short() -> None:
    """A list cut short scores no higher for it, and what is missing is counted."""
    full = tuple(nuggets(("vital", "support"), ("vital", "not_support")))
    scores = score_assignments(
        [AnswerAssignments("a", "q", full), AnswerAssignments("b", "q", full[:1])], missing="zero"
    )

    a, b = scores.answers
    assert a.values == b.values
    assert (a.counts["missing"], b.counts["missing"]) == (0, 1)
    assert [run.counts["nuggets"] for run in scores.runs] == [2, 2]


def test_runs_are_never_mixed_in_one_mean() -> None:
    """nuggetizer's last line is the mean over all runs of a file."""
    held: list[Assignment] = ["support", "support", "not_support", "partial_support"]
    answers = [
        AnswerAssignments(run, query, tuple(nuggets(("vital", assignment))))
        for (run, query), assignment in zip(product("ab", "12"), held, strict=True)
    ]

    scores = score_assignments(answers)

    assert [run.means["V"].value for run in scores.runs] == [1, 0.25]
    assert fmean(answer.values["V"] for answer in scores.answers) == 0.625


def test_the_same_query_twice_in_a_run_is_refused() -> None:
    one = AnswerAssignments("r", "q", FIVE)

    with pytest.raises(CollectionError, match="run 'r' has two answers to query 'q'"):
        score_assignments([one, one])


def test_a_nugget_twice_or_of_two_importances_is_refused() -> None:
    twice = AnswerAssignments("r", "q", (FIVE[0], FIVE[0]))
    other = AnswerAssignments("s", "q", (FIVE[0]._replace(importance="okay"),))

    with pytest.raises(CollectionError, match="nugget 'n0' stands twice"):
        score_assignments([twice])
    with pytest.raises(CollectionError, match="is okay, and vital in another answer"):
        score_assignments([AnswerAssignments("r", "q", FIVE), other])


def test_nothing_to_score_is_refused() -> None:
    with pytest.raises(CollectionError, match="no answers to score"):
        score_assignments([])
