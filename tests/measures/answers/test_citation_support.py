import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.measures.answers import (
    CITATION_MEASURES,
    Citation,
    CitedAnswer,
    Outside,
    Support,
    citation_support,
    score_citations,
)
from tests.measures.strategies import untimed

FULL, PARTIAL, NONE, UNLABELLED = (Citation("d", label) for label in (2, 1, 0, None))
labels: st.SearchStrategy[Support | None] = st.sampled_from([0, 1, 2, None])
answers = st.lists(
    st.lists(st.builds(Citation, st.just("d"), labels, st.booleans()), max_size=3), max_size=5
)


def values(*sentences: list[Citation], outside: Outside = "no_support") -> dict[str, float | None]:
    return {
        name: citation_support(sentences, measure, outside=outside).value
        for name, measure in CITATION_MEASURES.items()
    }


def test_the_worked_example_of_the_paper() -> None:
    """Thakur et al., 2025 (arXiv 2504.15205), section 3.4: partial, full, no citation."""
    found = values([PARTIAL], [FULL], [])

    assert found["weighted_precision_first"] == 0.75
    assert found["weighted_recall_first"] == 0.5
    assert found["hard_precision_first"] == 0.5
    assert found["hard_recall_first"] == pytest.approx(1 / 3)


def test_five_sentences_by_hand() -> None:
    found = values([FULL], [PARTIAL], [NONE, FULL], [UNLABELLED], [])

    assert found == {
        "weighted_precision_first": 1.5 / 3,
        "weighted_recall_first": 1.5 / 4,
        "hard_precision_first": 1 / 3,
        "hard_recall_first": 1 / 4,
        "weighted_precision_all": 2 / 3,
        "weighted_recall_all": 2 / 4,
        "hard_precision_all": 1.5 / 3,
        "hard_recall_all": 1.5 / 4,
    }


def test_a_sentence_without_a_label_leaves_both_denominators() -> None:
    assert values([FULL], [UNLABELLED]) == values([FULL])


def test_a_first_citation_without_a_label_is_not_replaced_by_the_second() -> None:
    found = values([UNLABELLED, FULL], [NONE])

    assert found["weighted_precision_first"] == 0
    assert found["weighted_precision_all"] == 0.5


@pytest.mark.parametrize(
    ("outside", "precision", "recall"),
    [
        ("no_support", 1 / 2, 1 / 3),
        ("leave_out", 1.0, 1 / 2),
        ("uncited", 1.0, 1 / 3),
    ],
)
def test_a_citation_outside_of_the_references_counts_as_was_chosen(
    outside: Outside, precision: float, recall: float
) -> None:
    """Others drop it from the denominator and say nothing."""
    wrong = Citation("elsewhere", 2, outside=True)

    found = values([FULL], [wrong], [], outside=outside)

    assert found["weighted_precision_first"] == pytest.approx(precision)
    assert found["weighted_recall_first"] == pytest.approx(recall)


def test_if_what_is_outside_is_not_there_the_next_citation_is_the_first() -> None:
    wrong = Citation(None, None, outside=True)

    assert values([wrong, FULL], outside="uncited")["weighted_precision_first"] == 1
    assert values([wrong, FULL], outside="no_support")["weighted_precision_first"] == 0


@pytest.mark.parametrize(
    ("sentences", "reason"),
    [
        ([], "the answer has no sentences"),
        ([[]], "no sentence has a citation"),
        ([[UNLABELLED], []], "1 sentences cite, and no such citation has a label"),
    ],
)
def test_without_a_denominator_there_is_no_value_unless_it_is_chosen_to_be_0(
    sentences: list[list[Citation]], reason: str
) -> None:
    measure = CITATION_MEASURES["weighted_precision_first"]

    assert citation_support(sentences, measure).reason == reason
    assert citation_support(sentences, measure, empty="zero").value == 0


@given(answers, st.sampled_from(["no_support", "leave_out", "uncited"]))
@untimed
def test_values_are_shares_and_recall_is_never_more_than_precision(
    sentences: list[list[Citation]], outside: Outside
) -> None:
    found = values(*sentences, outside=outside)

    for citations in ("first", "all"):
        for weights in ("weighted", "hard"):
            precision = found[f"{weights}_precision_{citations}"]
            recall = found[f"{weights}_recall_{citations}"]
            if precision is not None:
                assert recall is not None
                assert 0 <= recall <= precision <= 1
        hard = found[f"hard_precision_{citations}"]
        weighted = found[f"weighted_precision_{citations}"]
        assert hard is None or weighted is None or hard <= weighted


def test_what_an_answer_cites_is_counted() -> None:
    wrong = Citation("elsewhere", None, outside=True)
    answer = CitedAnswer("r", "q", ((FULL, PARTIAL), (NONE,), (UNLABELLED, wrong), ()))

    (run,) = score_citations([answer]).runs

    assert run.counts == {
        "sentences": 4,
        "uncited": 1,
        "citations": 5,
        "full": 1,
        "partial": 1,
        "none": 1,
        "unlabelled": 2,
        "outside": 1,
    }
