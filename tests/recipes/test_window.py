"""Texts in parts: nothing is lost, nothing is there twice, and lines stay whole where they can."""

from hypothesis import given, settings
from hypothesis import strategies as st

from freshstack_dspy.recipes.judge import split_text


@settings(deadline=None)
@given(st.text(alphabet="ab\n é", max_size=300), st.integers(1, 40))
def test_every_character_is_in_exactly_one_part_that_fits(text: str, most: int) -> None:
    parts = split_text(text, lambda part: len(part) <= most)

    assert "".join(parts) == text
    assert all(0 < len(part) <= most for part in parts) or text == ""


def test_a_text_is_cut_at_line_ends() -> None:
    text = "".join(f"line {number}\n" for number in range(100))

    parts = split_text(text, lambda part: len(part) <= 300)

    assert len(parts) == 4
    assert all(part.endswith("\n") for part in parts)
