"""Texts in parts: nothing is lost, nothing stands twice, and lines stay whole where they can."""

from hypothesis import given, settings
from hypothesis import strategies as st

from freshstack_dspy.recipes.judge import split_text


@settings(deadline=None)
@given(st.text(alphabet="ab\n é", max_size=300), st.integers(1, 12), st.integers(1, 40))
def test_every_character_is_in_exactly_one_part_that_fits(
    text: str, fewest: int, most: int
) -> None:
    parts = split_text(text, fewest, lambda part: len(part) <= most)

    assert "".join(parts) == text
    assert all(0 < len(part) <= most for part in parts) or text == ""


def test_a_text_is_cut_at_line_ends() -> None:
    text = "".join(f"line {number}\n" for number in range(100))

    parts = split_text(text, 3, lambda part: len(part) <= 300)

    assert 3 <= len(parts) <= 5
    assert all(part.endswith("\n") for part in parts)


def test_a_line_longer_than_a_part_is_cut_inside() -> None:
    assert split_text("x" * 10, 2, lambda part: len(part) <= 5) == ["xxxxx", "xxxxx"]


def test_a_line_end_is_not_cut_in_two() -> None:
    text = "one\r\ntwo\r\n" * 20

    parts = split_text(text, 4, lambda part: len(part) <= 60)

    assert all(part.endswith("\r\n") for part in parts)


def test_what_fits_is_one_part() -> None:
    assert split_text("one\ntwo", 1, lambda _: True) == ["one\ntwo"]
    assert split_text("", 1, lambda _: True) == [""]
