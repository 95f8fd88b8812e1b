"""Scores of support, the threshold that demonstrations move, and grades."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.lm.baseline.replies import reply
from freshstack_dspy.lm.baseline.support import (
    DENIAL,
    DOUBT,
    FULL,
    SLOPE,
    SPREAD,
    THRESHOLD,
    support,
    threshold,
)
from freshstack_dspy.lm.typed import answer_model, validating_against
from freshstack_dspy.records import SCALES, ScaleName
from freshstack_dspy.signatures.judge_support import JUDGES

from .test_replies import LINES, judge_inputs

WIND = "The turbine converts wind into electricity."


def score(nugget: str, chunk: str, question: str = "") -> float:
    return support(question, [nugget], [chunk])[0].scores[0]


def test_the_score_of_a_full_match_is_computed_by_hand() -> None:
    """Two unlisted words of three units: each expected in 1 %, found in 1 of 3 units."""
    chunk = (
        "gadget widget. alpha bravo charly delta echo foxtrot golfo hotel. "
        "india juliet kilo limas mike oscar papa romeo."
    )
    units = 2  # the first sentence is too short for a unit of its own
    weight = math.log((1 + 30 * 0.01) / (units + 30)) / math.log(0.01)
    size = 2 * weight

    assert score("gadget widget", chunk) == pytest.approx(size / (size + DOUBT))


def test_close_words_count_more_than_scattered_ones() -> None:
    filler = " ".join(f"filler{n} stuff{n} padding{n} extra{n} words{n}." for n in range(12))
    together = f"{filler} The turbine converts wind."
    scattered = f"The turbine stands. {filler} It converts. {filler} The wind blows."

    assert score(WIND, together) > score(WIND, scattered)


def test_a_denying_nugget_loses_where_the_text_denies_nothing() -> None:
    chunk = "The turbine is painted green."

    affirmed = score("The turbine is painted green", chunk)

    assert score("The turbine is not painted green", chunk) == pytest.approx(
        affirmed * (1 - DENIAL)
    )
    assert score("The turbine is not painted green", "The turbine isn't painted green.") == (
        pytest.approx(affirmed)
    )


@given(st.lists(st.text(max_size=80), max_size=4), st.lists(st.text(max_size=300), max_size=4))
def test_scores_are_within_bounds_and_the_same_again(nuggets: list[str], chunks: list[str]) -> None:
    found = support("what is it?", nuggets, chunks)

    assert all(0 <= value < 1 for one in found for value in one.scores)
    assert [len(one.scores) for one in found] == [len(nuggets)] * len(chunks)
    assert found == support("what is it?", nuggets, chunks)


@given(st.text(max_size=200), st.text(max_size=200))
def test_a_chunk_is_scored_the_same_in_any_company(chunk: str, other: str) -> None:
    """Batches of any size give the same labels."""
    nuggets = [WIND, "a second fact"]

    assert support("", nuggets, [other, chunk])[1] == support("", nuggets, [chunk])[0]


def strict(count: int) -> list[tuple[float, bool]]:
    """Labels of people who accept only what scores above .5."""
    return [(0.4, False), (0.6, True)] * count


def test_strict_labels_raise_it_and_lenient_ones_lower_it() -> None:
    lenient = [(0.02, False), (0.1, True)] * 10

    assert threshold(lenient) < THRESHOLD < threshold(strict(10))


def test_one_label_moves_it_by_hand_computed_shrinkage() -> None:
    """At the maximum the pull of the curve and that of the prior are equal."""
    found = threshold([(THRESHOLD, False)])

    curve = 0.5 * SLOPE / (1 + 2.718281828459045 ** (SLOPE * (found - THRESHOLD)))
    assert (found - THRESHOLD) / SPREAD**2 == pytest.approx(curve, rel=1e-4)


GRADED: tuple[ScaleName, ...] = ("support", "graded_3", "graded_5")


def graded(scale: ScaleName, inputs: dict[str, Any]) -> Any:
    signature = JUDGES[scale]
    outputs = reply(signature.__name__, inputs)
    with validating_against(inputs):
        return answer_model(signature).model_validate_json(json.dumps(outputs), strict=True)


@given(st.lists(LINES, min_size=1, max_size=3), st.lists(LINES, min_size=1, max_size=3))
def test_its_quotes_are_in_the_chunk_and_full_support_is_above_partial(
    nuggets: list[str], chunks: list[str]
) -> None:
    inputs = judge_inputs(nuggets, [*chunks, *nuggets])
    texts = {chunk["number"]: chunk["text"] for chunk in inputs["chunks"]}
    scored = support("", nuggets, texts.values())

    for verdict, found in zip(graded("support", inputs).verdicts, scored, strict=True):
        for one in verdict.supported:
            assert all(quote in texts[verdict.chunk] for quote in one.quotes)
        for number, score in enumerate(found.scores, 1):
            asked = sum(score >= cut for cut in (THRESHOLD, THRESHOLD + FULL))
            assert verdict.label_of(number) == asked


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
