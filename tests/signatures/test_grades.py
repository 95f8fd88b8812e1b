"""Which graded answers are accepted, and what the model is told of the others."""

from typing import Any, get_args

import pytest

from freshstack_dspy.records import SCALES, ScaleName
from freshstack_dspy.signatures.scales import JUDGES

from .test_answers import faults, validated

GRADED: tuple[ScaleName, ...] = ("support", "graded_3", "graded_5")


def verdict(chunk: Any, *grades: tuple[Any, Any], reason: str = "because") -> dict[str, Any]:
    graded = [{"nugget": nugget, "grade": grade} for nugget, grade in grades]
    return {"chunk": chunk, "reason": reason, "grades": graded}


def test_every_scale_has_a_judge() -> None:
    assert set(JUDGES) == set(SCALES) == set(get_args(ScaleName))


@pytest.mark.parametrize("scale", GRADED)
def test_every_grade_of_the_scale_and_no_other_is_accepted(scale: ScaleName) -> None:
    highest = SCALES[scale].highest

    for grade in range(highest + 1):
        validated(JUDGES[scale], {"verdicts": [verdict(2, (2, grade), (1, 0))]})
    for wrong in (-1, highest + 1, "1", None):
        assert "grade" in faults(JUDGES[scale], {"verdicts": [verdict(1, (1, wrong), (2, 0))]})


@pytest.mark.parametrize("scale", GRADED)
def test_labels_follow_numbers_and_not_places(scale: ScaleName) -> None:
    answer: Any = validated(JUDGES[scale], {"verdicts": [verdict(2, (2, 1), (1, 0))]})
    [said] = answer.verdicts

    assert (said.label_of(1), said.label_of(2)) == (0, 1)


@pytest.mark.parametrize("scale", GRADED)
@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        ([], "at least 1 item"),
        ([verdict(3, (1, 0), (2, 0))], "there is no chunk [3]"),
        ([verdict(1, (1, 0), (2, 0))] * 2, "more than one verdict for chunk [1]"),
        ([verdict(1, (1, 0))], "chunk 1 has no grade for nugget [2]"),
        ([verdict(1)], "chunk 1 has no grade for nugget [1, 2]"),
        ([verdict(1, (1, 0), (2, 0), (99, 1))], "chunk 1 grades nugget [99], which does not exist"),
        ([verdict(1, (1, 0), (2, 0), (1, 1))], "chunk 1 grades a nugget twice"),
        ([verdict(1, (1, 0), (2, 0), reason=" ")], "the text is blank"),
        ([{**verdict(1, (1, 0), (2, 0)), "label": 1}], "Extra inputs"),
    ],
)
def test_what_is_not_there_twice_there_or_left_out_is_sent_back(
    scale: ScaleName, verdicts: Any, said: str
) -> None:
    assert said in faults(JUDGES[scale], {"verdicts": verdicts})
