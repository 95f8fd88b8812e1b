import pytest

from freshstack_dspy.measures.answers import ComparedAnswer, agrees_with_any, score_agreement


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


def compared(*verdicts: bool | None) -> list[ComparedAnswer]:
    return [
        ComparedAnswer("r", f"q{place}", (verdict,), None if verdict is not None else "timed out")
        for place, verdict in enumerate(verdicts)
    ]


def test_the_rate_is_the_share_of_queries_whose_answers_agree() -> None:
    (run,) = score_agreement(compared(True, True, True, False)).runs

    assert run.means["agreement"].value == 0.75
    assert run.means["agreement"].low is not None
    assert run.counts == {"agree": 3, "disagree": 1, "undecided": 0}


def test_an_answer_without_a_verdict_counts_as_was_chosen() -> None:
    given = compared(True, False, None)

    left_out, as_no = score_agreement(given), score_agreement(given, undecided="disagrees")

    assert left_out.runs[0].means["agreement"].value == 0.5
    assert left_out.answers[2].without == {"agreement": "timed out"}
    assert as_no.runs[0].means["agreement"].value == pytest.approx(1 / 3)
    assert as_no.runs[0].counts["undecided"] == 1


def test_kinds_of_no_verdict_are_counted_apart() -> None:
    given = [
        ComparedAnswer("r", "1", (None,), "no chunk", "no_gold_context"),
        ComparedAnswer("r", "2", (None,), None, "refused"),
        ComparedAnswer("r", "3", (None,)),
    ]

    scores = score_agreement(given)

    assert scores.runs[0].counts == {
        "agree": 0,
        "disagree": 0,
        "undecided": 3,
        "undecided: no_gold_context": 1,
        "undecided: refused": 1,
    }
    assert [each.without["agreement"] for each in scores.answers] == [
        "no chunk",
        "refused",
        "no verdict, and no reason given",
    ]
    assert scores.runs[0].means["agreement"].value is None
