"""A text has to have something in it that can be read."""

import pytest
from pydantic import TypeAdapter, ValidationError

from freshstack_dspy.signatures.checks import VisibleText, has_visible


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "\u200b",
        "\ufeff \u2060",
        "\x00\x1b",
        "\u3164",
        "\u2800",
        "\u0301",
        "\ue000",
        "\u00ad",
    ],
)
def test_a_text_without_a_visible_character_is_blank(text: str) -> None:
    assert not has_visible(text)
    with pytest.raises(ValidationError):
        TypeAdapter(VisibleText).validate_python(text)


@pytest.mark.parametrize("text", ["a", "7", "数", "…", "+", "😀", "\u200ba", "e\u0301", "{}", "½"])
def test_whatever_can_be_read_is_kept_as_it_is(text: str) -> None:
    assert TypeAdapter(VisibleText).validate_python(text) == text
