import pytest

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.contexts import (
    AnswerCoverage,
    answer_coverage,
    answer_density,
    density,
)
from freshstack_dspy.measures.diversity import coverage
from freshstack_dspy.measures.qrels import Judged

LABELS = {"n1": {"a": 5}, "n2": {"a": 3}, "n3": {"a": 4, "b": 5}, "n4": {"b": 3}, "n5": {"a": 2}}
JUDGED = Judged(LABELS, 3, {"a": 60, "b": 40})


def test_by_hand() -> None:
    """Two of the four that can be answered; the fifth no chunk answers."""
    found = answer_coverage({"n1": 3, "n2": 2, "n3": 5, "n4": 0, "n5": 5}, JUDGED)

    assert found == AnswerCoverage(
        coverage=0.5,
        highest=0.5,
        supported=("n1", "n3"),
        unsupported=("n2", "n4"),
        unrated=(),
        beyond=("n5",),
    )


def test_a_rating_that_failed_is_counted_and_is_no_rating() -> None:
    """CRUX stores it as -1 or -2 and mixes it in (SYSTEMS 2(d) 2)."""
    found = answer_coverage({"n1": 3, "n2": None, "n3": 5}, JUDGED)

    assert found.coverage == 0.5
    assert found.highest == 1
    assert found.unrated == ("n2", "n4")
    assert found.unsupported == ()
    with pytest.raises(CollectionError, match=r"nugget 'n2' is -2; allowed: 0 or more, and None"):
        answer_coverage({"n2": -2}, JUDGED)


def test_it_is_the_coverage_of_a_context_that_says_what_the_answer_says() -> None:
    said = {"n1": 0, "n2": 0, "n3": 5, "n4": 3}

    assert answer_coverage(said, JUDGED).coverage == coverage(["b"], JUDGED, of="answerable")
    assert answer_density(said, 40, JUDGED) == density(["b"], JUDGED)
    assert answer_density(said, 20, JUDGED, w=1) == (2 / 20) / (4 / 100)


def test_nothing_answerable_and_an_empty_answer() -> None:
    nothing = Judged({"n1": {"a": 0}}, 3)
    found = answer_coverage({"n1": 5}, nothing)

    assert (found.coverage, found.highest, found.beyond) == (None, None, ("n1",))
    assert answer_density({"n1": 5}, 10, nothing) is None
    assert answer_coverage({}, JUDGED).coverage == 0
    assert answer_density({}, 0, JUDGED) == 0


def test_what_is_refused() -> None:
    with pytest.raises(CollectionError, match="nugget 'n9' is rated and is not one of the query's"):
        answer_coverage({"n9": 3}, JUDGED)
    with pytest.raises(CollectionError, match="the text supports nuggets and has 0 tokens"):
        answer_density({"n1": 5}, 0, JUDGED)
    with pytest.raises(ValueError, match="0 tokens or more, not -1"):
        answer_density({"n1": 5}, -1, JUDGED)
    with pytest.raises(ValueError, match="w is a number above 0"):
        answer_density({"n1": 5}, 10, JUDGED, w=0)
