"""The baseline on scales of several grades: valid, and of one mind with the binary one."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.lm.baseline.replies import reply
from freshstack_dspy.lm.baseline.support import CUT_POINTS
from freshstack_dspy.lm.typed import answer_model, validating_against
from freshstack_dspy.records import SCALES, ScaleName
from freshstack_dspy.signatures.scales import JUDGES

from .test_replies import LINES, judge_inputs

GRADED: tuple[ScaleName, ...] = ("support", "graded_3", "graded_5")


def graded(scale: ScaleName, inputs: dict[str, Any]) -> Any:
    signature = JUDGES[scale]
    outputs = reply(signature.__name__, inputs)
    with validating_against(inputs):
        return answer_model(signature).model_validate_json(json.dumps(outputs), strict=True)


@pytest.mark.parametrize("scale", GRADED)
def test_there_is_a_cut_point_for_every_label(scale: ScaleName) -> None:
    cuts = CUT_POINTS[scale]

    assert len(cuts) == SCALES[scale].highest
    assert list(cuts) == sorted(cuts)


@pytest.mark.parametrize("scale", GRADED)
@given(st.lists(LINES, min_size=1, max_size=3), st.lists(LINES, min_size=1, max_size=3))
def test_its_grades_are_support_where_the_binary_judge_says_so(
    scale: ScaleName, nuggets: list[str], chunks: list[str]
) -> None:
    inputs = judge_inputs(nuggets, [*chunks, *nuggets])
    binary = reply("JudgeSupport", inputs)["verdicts"]

    for verdict, plain in zip(graded(scale, inputs).verdicts, binary, strict=True):
        supported = [
            number
            for number in range(1, len(nuggets) + 1)
            if verdict.label_of(number) >= SCALES[scale].threshold
        ]
        assert (verdict.chunk, supported) == (plain["chunk"], plain["supported"])
