"""What is shown of texts, and the words for the labels."""

from typing import cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from freshstack_dspy.errors import ConfigError
from freshstack_dspy.labelling.tasks import blocks_of, grades_of, instructions
from freshstack_dspy.records import SCALES, ScaleName

PARTS = [
    "```py\n",
    "```\n",
    "~~~",
    "# H\n",
    "def f():",
    "`a`",
    "\r\n",
    "\x00",
    "\u202e",
    "é😀",
    "<b>",
]


@settings(max_examples=15)
@given(
    text=st.lists(st.sampled_from(PARTS) | st.text(max_size=4), max_size=20).map("".join),
    path=st.sampled_from(["a.md", "a.py", "b.rst", "c.html", "d.json", "Makefile", "e.xyz"]),
)
@example(text="x" * 300_000, path="a.md")
def test_the_pieces_joined_are_the_text(text: str, path: str) -> None:
    assert "".join(piece for block in blocks_of(text, path) for _, piece in block.pieces) == text


def test_code_in_prose_is_code_and_control_characters_are_marked() -> None:
    prose, code, rest = blocks_of("See\n```py\nif x: 1\n```\nhttp://a.b/c \u202eend", "a.md")

    assert (prose.code, code.code, rest.code) == (False, True, False)
    assert ("k", "if") in code.pieces
    assert ("url", "http://a.b/c") in rest.pieces
    assert ("control", "\u202e") in rest.pieces


@pytest.mark.parametrize("scale", SCALES)
def test_every_label_of_a_scale_has_the_judges_words(scale: ScaleName) -> None:
    grades = grades_of(scale)

    assert [grade.label for grade in grades] == list(range(SCALES[scale].highest + 1))
    assert all(grade.meaning for grade in grades)
    if scale != "binary":  # whose judge is told of support alone
        told = " ".join(instructions(scale).split())
        for grade in grades:
            named = f", {grade.name}" if grade.name else ""
            assert f"{grade.label}{named}: {grade.meaning}." in told


def test_labels_of_an_unknown_scale_are_an_error() -> None:
    with pytest.raises(ConfigError, match="graded_3"):
        grades_of(cast("ScaleName", "graded_4"))
