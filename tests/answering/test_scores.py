"""Scores of answers."""

from collections.abc import Sequence
from typing import Any, Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr

from freshstack_dspy.answering.cases import case_of, found_and_agrees
from freshstack_dspy.answering.scores import (
    CITATION_MEASURES,
    agrees_with_any,
    citation_support,
    nugget_recall,
    score_agreement,
    score_assignments,
)
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.records import (
    Agreement,
    AssignedAnswer,
    AssignedNugget,
    Assignment,
    Importance,
    JudgedAnswer,
    JudgedCitation,
    JudgedSentence,
)

Pair = tuple[Importance | None, Assignment | None]


def nuggets(*pairs: Pair) -> tuple[AssignedNugget, ...]:
    return tuple(
        AssignedNugget(
            nugget_id=f"n{place}",
            importance=importance or "vital",
            rated=importance is not None,
            assignment=assignment,
        )
        for place, (importance, assignment) in enumerate(pairs)
    )


def assigned(run: str, query: str, given: Sequence[AssignedNugget]) -> AssignedAnswer:
    return AssignedAnswer(run_id=run, qid=query, nuggets=tuple(given))


FIVE = nuggets(
    ("vital", "support"),
    ("vital", "partial_support"),
    ("vital", "not_support"),
    ("okay", "support"),
    ("okay", "partial_support"),
)


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
    assert nugget_recall(FIVE, name).value == pytest.approx(expected)


def test_without_a_vital_nugget_there_is_no_value() -> None:
    given = nuggets(("okay", "support"))

    assert nugget_recall(given, "V").reason == "no nugget is vital"
    assert nugget_recall([], "V").reason == "the query has no nuggets"


def test_a_nugget_that_other_answers_have_is_missing_in_one_that_came_back_short() -> None:
    """A list cut short scores no higher for it, and what is missing is counted."""
    full = nuggets(("vital", "support"), ("vital", "not_support"))
    scores = score_assignments([assigned("a", "q", full), assigned("b", "q", full[:1])])

    a, b = scores.runs
    assert (a.per_query["q"]["A"], b.per_query["q"]["A"]) == (0.5, 1.0)
    assert (a.counts["q"]["missing"], b.counts["q"]["missing"]) == (0, 1)
    assert [run.total["nuggets"] for run in scores.runs] == [2, 2]


def test_the_same_query_twice_in_a_run_is_refused() -> None:
    one = assigned("r", "q", FIVE)

    with pytest.raises(CollectionError, match="run 'r' has two answers to query 'q'"):
        score_assignments([one, one])


FULL, PARTIAL, UNLABELLED = (
    JudgedCitation(citationID=0, reference="d", support=label)
    for label in get_args(Literal[2, 1, -1])
)


def judged(*sentences: list[JudgedCitation]) -> JudgedAnswer:
    return JudgedAnswer(
        topic_id="q",
        run_id="r",
        references=("d",),
        sentences=tuple(
            JudgedSentence(sentenceID=place, citations=tuple(citations))
            for place, citations in enumerate(sentences)
        ),
    )


def values(*sentences: list[JudgedCitation]) -> dict[str, float | None]:
    answer = judged(*sentences)
    return {name: citation_support(answer, name).value for name in CITATION_MEASURES}


def test_the_worked_example_of_the_paper() -> None:
    """Thakur et al., 2025 (arXiv 2504.15205), section 3.4: partial, full, no citation."""
    found = values([PARTIAL], [FULL], [])

    assert found["weighted_precision_first"] == 0.75
    assert found["weighted_recall_first"] == 0.5
    assert found["hard_precision_first"] == 0.5
    assert found["hard_recall_first"] == pytest.approx(1 / 3)


def test_five_sentences_by_hand() -> None:
    outside = FULL.model_copy(update={"reference": "elsewhere"})
    found = values([FULL], [PARTIAL], [outside, FULL], [UNLABELLED], [])

    assert found == {
        "weighted_precision_first": 1.5 / 3,
        "weighted_recall_first": 1.5 / 4,
        "hard_precision_first": 1 / 3,
        "hard_recall_first": 1 / 4,
        "weighted_precision_all": 2 / 3,
        "weighted_recall_all": 2 / 4,
        "hard_precision_all": 1.5 / 3,
        "hard_recall_all": 1.5 / 4,
        "weighted_precision_best": 2.5 / 3,
        "weighted_recall_best": 2.5 / 4,
        "hard_precision_best": 2 / 3,
        "hard_recall_best": 2 / 4,
    }


@pytest.mark.parametrize(
    ("sentences", "reason"),
    [
        ([], "the answer has no sentences"),
        ([[]], "no sentence has a citation"),
        ([[UNLABELLED], []], "1 sentences cite, and no such citation has a label"),
    ],
)
def test_without_a_denominator_there_is_no_value(
    sentences: list[list[JudgedCitation]], reason: str
) -> None:
    assert citation_support(judged(*sentences), "weighted_precision_first").reason == reason


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([True], True),
        ([False, True, None], True),
        ([False, False], False),
        ([False, None], None),
        ([None], None),
        ([], None),
    ],
)
def test_an_answer_agrees_if_it_agrees_with_any_gold_answer(
    verdicts: list[bool | None], expected: bool | None
) -> None:
    """A verdict that is missing could be a yes, so it does not make a no."""
    assert agrees_with_any(verdicts) is expected


def test_the_rate_is_the_share_of_queries_whose_answers_agree() -> None:
    verdicts = (True, True, True, False, None)
    given = [
        Agreement(
            run_id="r", query_id=f"q{place}", agrees=each, status="" if each is None else "ok"
        )
        for place, each in enumerate(verdicts)
    ]
    nothing = Agreement(run_id="r", query_id="n", agrees=None, status="not_retrieved")
    (run,) = score_agreement([*given, nothing]).runs

    assert run.intervals["agreement"].value == run.means["agreement"] == 0.75
    assert run.intervals["agreement"].low is not None
    assert run.total == {"agree": 3, "disagree": 1, "undecided": 1}
    assert (len(run.per_query), run.absent) == (5, ("n",))


pairs_found_and_agrees = st.lists(
    st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.booleans()), min_size=2, max_size=30
)


def test_the_table_of_two_by_two() -> None:
    values = {"a": 1.0, "b": 0.5, "c": 1.0, "d": 0.0, "e": 0.0, "f": 0.0, "only": 1.0, "null": 1.0}
    verdicts: dict[str, bool | None] = {query: query not in "cf" for query in "abcdef"}
    verdicts |= {"null": None, "judged": True}

    found = found_and_agrees(values, verdicts, measure="Recall@5")

    assert found.queries == 6
    assert (found.found_agree, found.found_disagree) == (2, 1)
    assert (found.missed_agree, found.missed_disagree) == (2, 1)
    assert found.without_value == ("judged",)
    assert found.without_verdict == ("null", "only")


@pytest.mark.parametrize(
    ("found", "agrees", "held", "gold", "retrieved", "case"),
    [
        (False, True, "ab", "ac", "", "A"),
        (True, False, "a", "ab", "b", "C"),
        (True, False, "a", "ab", "a", None),  # the context lacks b: both are right
        (True, None, "a", "", "a", "D"),
        (True, False, "a", "", "a", "D"),
        (False, True, "a", "", "", "D"),
        (True, False, "abc", "ab", "ab", "E"),
        (True, False, "ab", "ab", "ab", "F"),
        (False, True, "a", "b", "", "F"),
        (True, True, "a", "ab", "ab", None),
        (False, False, "ab", "ab", "", None),
    ],
)
def test_cases_of_failure(
    found: bool, agrees: bool | None, held: str, gold: str, retrieved: str, case: str | None
) -> None:
    labels: Any = {"held": {*held}, "gold": {*gold}, "retrieved": {*retrieved}}

    assert case_of(found=found, agrees=agrees, **labels) == case


def test_refined_is_without_the_failures_of_recall() -> None:
    values = {"a": 1.0, "b": 0.5, "c": 0.0, "d": 0.0, "e": 1.0}
    verdicts = {"a": True, "b": True, "c": False, "d": True, "e": False}

    found = found_and_agrees(values, verdicts, measure="m", cases={"d": "A", "e": "E"})

    assert found.cases == {"A": 1, "E": 1}
    refined = spearmanr([1.0, 0.5, 0.0, 1.0], [True, True, False, False]).statistic
    assert found.refined.value == pytest.approx(refined)
    assert found.spearman.value != found.refined.value


@given(pairs_found_and_agrees)
def test_correlations_are_those_of_scipy(drawn: list[tuple[float, bool]]) -> None:
    values = {f"q{place}": value for place, (value, _) in enumerate(drawn)}
    verdicts = {f"q{place}": agrees for place, (_, agrees) in enumerate(drawn)}
    numbers, answers = map(list, zip(*drawn, strict=True))

    found = found_and_agrees(values, verdicts, measure="m")

    if len({*answers}) < 2 or len({*numbers}) < 2:
        assert found.spearman.value is None
        return
    assert found.spearman.value == pytest.approx(spearmanr(numbers, answers).statistic)
    if len({value > 0 for value in numbers}) == 2:
        phi = pearsonr([value > 0 for value in numbers], answers).statistic
        assert found.phi.value == pytest.approx(phi)


def test_a_query_that_other_runs_answer_is_named_and_left_out() -> None:
    answers = [assigned(run, query, FIVE[:1]) for run, query in ("a1", "b1", "b2")]
    first, second = score_assignments(answers).runs

    assert (first.absent, second.absent) == (("2",), ())
    assert first.means["A"] == 1.0
