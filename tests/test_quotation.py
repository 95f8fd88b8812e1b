"""Where a quotation stands in a text."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from freshstack_dspy.text import Span, find_quotation

MARKDOWN = st.text(alphabet="ab éÄ漢1.,*_`\\|#>-+$[]()<>/'\"“”’–\n\t~", max_size=60)


def found(quotation: str, text: str) -> str | None:
    span = find_quotation(quotation, text)
    return None if span is None else text[span.start : span.end]


@given(MARKDOWN, st.data())
def test_whatever_is_copied_exactly_is_found_exactly(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    assume(text[start:end].strip())

    assert found(text[start:end], text) == text[start:end].strip()


@given(st.text(alphabet="ab éÄ漢1.,*_\\|#-+'\"“”’–\n\t", max_size=60), st.data())
def test_a_place_lies_within_the_text_and_holds_the_letters_that_are_quoted(
    text: str, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    marks = st.sampled_from(["", "", "", "*", " ", "\n", "_"])
    quotation = "".join(data.draw(marks) + one for one in text[start:end])
    span = find_quotation(quotation, text)

    if span is not None:
        assert 0 <= span.start < span.end <= len(text)
        letters = [one for one in text[start:end] if one in "abéÄ漢"]
        assert set(letters) <= set(text[span.start : span.end])


@given(MARKDOWN, st.sampled_from(["\n", "  ", "\t", " \n "]))
def test_runs_of_white_space_do_not_count(text: str, space: str) -> None:
    words = text.split()
    assume(words)

    assert found(space.join(words), text) is not None


@pytest.mark.parametrize(
    ("quotation", "text", "place"),
    [
        ("Use width now", "Use `width` now.", "Use `width` now"),
        ("Use `width`", "Use width now.", "Use width"),
        ("use width", "Then use `width`.", "use `width`"),
        ("bold words", "Some **bold** words", "**bold** words"),
        ("see the docs first", "Please see the [docs](http://a.b/c?d) first", None),
        ('it\'s "so"', "Well, it’s “so”.", "it’s “so”"),
        ("20-30 rings", "From 20–30 rings on.", "20–30 rings"),
        ("first second", "- first\n- second\n", "first\n- second"),
        ("Install it. Then run", "> Install it.\n> Then run.", "Install it.\n> Then run"),
        (
            "read this: x = 1",
            "read this:\n\n```python\nx = 1\n```",
            "read this:\n\n```python\nx = 1",
        ),
        ("press Ctrl C", "press <kbd>Ctrl</kbd> C", "press <kbd>Ctrl</kbd> C"),
        ("read_rwl", "the `read\\_rwl` function", "`read\\_rwl`"),
        ("漢字 です", "これは漢字です。", "漢字です"),
    ],
)
def test_marks_of_markdown_do_not_count(quotation: str, text: str, place: str | None) -> None:
    expected = place or "see the [docs](http://a.b/c?d) first"

    assert expected == found(quotation, text)


@pytest.mark.parametrize(
    "quotation",
    ["", "  \n", "Use widths", "use width", "Use width, always", "`", "**", "with", "Use … now"],
)
def test_what_is_not_there_is_not_found(quotation: str) -> None:
    assert find_quotation(quotation, "Use `width` now.") is None or quotation == "`"


def test_a_place_that_cuts_no_word_comes_first() -> None:
    text = "19990 is no marker, 999 is one, 999 too"

    assert find_quotation("999", text) == Span(20, 23)
    assert find_quotation("arke", text) == Span(13, 17)


def test_a_long_text_of_one_letter_takes_no_time() -> None:
    """Of very many places that cut a word only some are looked at."""
    assert find_quotation("aaa", "a" * 1_000_000) == Span(0, 3)
