"""Where nuggets come from, how important they are, and which say nearly the same."""

import pytest

from freshstack_dspy.errors import ReplyError
from freshstack_dspy.programs.importance_rater import ImportanceRater
from freshstack_dspy.programs.nuggetizer import Nuggetizer, with_near_duplicates
from freshstack_dspy.records import Failure, Nugget

from .conftest import Answering
from .scripted import QUERY


def said(text: str, quote: str = "") -> dict[str, str]:
    return {"quote": quote, "text": text}


def nuggets(*texts: str, query_id: str = "q7") -> list[Nugget]:
    return [
        Nugget(nugget_id=f"{query_id}_{number}", query_id=query_id, text=text, call_id="c")
        for number, text in enumerate(texts)
    ]


def test_a_nugget_knows_its_place_in_the_answer(answering: Answering) -> None:
    answering(NuggetizeAnswer={"nuggets": [said("one", "`width`"), said("two"), said("3", "use")]})
    query = QUERY.model_copy(update={"answer": "Best  use\n`width`."})
    made = Nuggetizer()(query)

    assert [
        query.answer[slice(*one.answer_span)] if one.answer_span else None for one in made.nuggets
    ] == ["`width`", None, "use"]
    assert made.failure is None


def test_a_wrong_quote_loses_no_nugget_and_is_a_failure(answering: Answering) -> None:
    """Without a re-ask here: see `tests/lm/typed` for what is asked before."""
    answering(NuggetizeAnswer={"nuggets": [said("one", "Use width!"), said("two", "Use")]})
    made = Nuggetizer()(QUERY)
    call_id = made.nuggets[0].call_id

    assert [(one.text, one.answer_span) for one in made.nuggets] == [("one", None), ("two", (0, 3))]
    assert made.failure == Failure(
        query_id="q7",
        step="nuggets",
        status="unparsed",
        message='1 of 2 nuggets have no place in the answer: the quote "Use width!" does not stand '
        "in the answer; copy its words exactly, or leave the quote empty",
        call_id=call_id,
    )


def test_a_restatement_is_no_nugget(answering: Answering) -> None:
    query = QUERY.model_copy(update={"title": "How are ring widths read from a file?"})
    answering(NuggetizeAnswer={"nuggets": [said("one"), said("Ring widths are read from a file")]})

    with pytest.raises(ReplyError, match="only restates the question"):
        Nuggetizer()(query)


def test_near_duplicates_are_flagged_with_the_earliest_and_kept(answering: Answering) -> None:
    same = "The `width` of a ring is given in whole micrometres"
    answering(
        NuggetizeAnswer={
            "nuggets": [
                said(same),
                said("Series are frozen"),
                said(f"{same} now"),
                said(f"{same}!"),
            ]
        }
    )

    assert [(one.nugget_id, one.duplicate_of) for one in Nuggetizer()(QUERY).nuggets] == [
        ("q7_0", None),
        ("q7_1", None),
        ("q7_2", "q7_0"),
        ("q7_3", "q7_0"),
    ]


@pytest.mark.parametrize(
    "other",
    [
        "Widths of rings in the file are not read in whole units of 10 µm by the reader",
        "Widths of rings in the file are read in whole units of 12 µm by the reader",
        "Lengths of series in the table are read in whole units of 10 µm by the reader",
    ],
)
def test_another_number_or_a_denial_makes_another_fact(other: str) -> None:
    one = "Widths of rings in the file are read in whole units of 10 µm by the reader"

    assert [it.duplicate_of for it in with_near_duplicates(nuggets(one, other))] == [None, None]


def test_nuggets_of_other_queries_are_no_duplicates() -> None:
    both = [*nuggets("The same fact"), *nuggets("The same fact", query_id="q70")]

    assert [it.duplicate_of for it in with_near_duplicates(both)] == [None, None]


def test_the_rater_sees_question_and_nuggets_and_adds_importance_by_number(
    answering: Answering,
) -> None:
    model = answering(
        RateImportance={
            "ratings": [
                {"nugget": 2, "importance": "vital"},
                {"nugget": 1, "importance": "okay"},
            ]
        }
    )
    before = nuggets("one", "two")
    rated = ImportanceRater()(QUERY, before).nuggets

    assert model.inputs == [
        {
            "question": "Widths? How are they read?",
            "nuggets": [{"number": 1, "text": "one"}, {"number": 2, "text": "two"}],
        }
    ]
    assert [one.importance for one in rated] == ["okay", "vital"]
    assert {len(one.importance_call_id) for one in rated} == {64}
    assert [
        one.model_copy(update={"importance": None, "importance_call_id": None}) for one in rated
    ] == before


def test_a_rating_that_leaves_a_nugget_out_is_no_answer(answering: Answering) -> None:
    answering(RateImportance={"ratings": [{"nugget": 1, "importance": "okay"}]})

    with pytest.raises(ReplyError, match=r"no rating for nugget \[2\]"):
        ImportanceRater()(QUERY, nuggets("one", "two"))
