"""Tokens, counted offline."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from freshstack_dspy.corpus.chunks import TokenTable
from freshstack_dspy.lm.tokens import count_tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("hello world", 2), ("tiktoken is great!", 6), ("<|endoftext|>", 7)],
)
def test_tokens_are_those_of_cl100k(text: str, tokens: int) -> None:
    """The third is OpenAI's own example: 83 1609 5963 374 2294 0."""
    assert count_tokens(text) == tokens


LINES = st.lists(
    st.text(st.sampled_from("ab1é中 \t\r\v\f\u3000\x85'.()=#")).filter(
        lambda line: line.strip() != ""
    ),
    min_size=1,
    max_size=6,
)


@given(LINES, LINES, LINES)
@example(["a"], ["a)", "  b", "c"], ["\r d"])
@example(["a  "], ["\tb\r", "c"], ["  d"])
def test_a_part_is_counted_as_if_it_were_alone(
    before: list[str], part: list[str], after: list[str]
) -> None:
    text = "\n".join(part).strip(" \t\r\v\f")
    data = "\n".join([*before, text, *after]).encode()
    start = len("\n".join(before).encode()) + 1

    exact = TokenTable(data).exact_count(start, start + len(text.encode()))

    assert exact == count_tokens(text)
