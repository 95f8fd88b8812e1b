"""Tokens, counted offline."""

import os
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from freshstack_dspy.corpus.tokens import TokenTable
from freshstack_dspy.lm.tokens import count_tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("hello world", 2), ("tiktoken is great!", 6), ("<|endoftext|>", 7)],
)
def test_tokens_are_those_of_cl100k(text: str, tokens: int) -> None:
    """The third is OpenAI's own example: 83 1609 5963 374 2294 0."""
    assert count_tokens(text) == tokens


@pytest.mark.parametrize("setting", [None, "/nowhere"])
def test_the_vocabulary_needs_no_network_and_leaves_no_setting(setting: str | None) -> None:
    """A new process, as the vocabulary is loaded once; its home is not writable."""
    program = (
        "import os, sys, socket\n"
        "socket.socket.connect = None\n"
        "before = dict(os.environ)\n"
        "from freshstack_dspy.lm.tokens import count_tokens\n"
        "assert count_tokens('a b') == 2\n"
        "assert dict(os.environ) == before\n"
        "assert not {'litellm', 'dspy', 'lancedb', 'sklearn'} & set(sys.modules)\n"
    )
    environment = {**os.environ, "TIKTOKEN_CACHE_DIR": setting or ""}
    if setting is None:
        del environment["TIKTOKEN_CACHE_DIR"]

    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


LINES = st.lists(
    st.text(st.sampled_from("ab1é中 \t\r\v\f\u3000\x85'.()=#")).filter(
        lambda line: line.strip() != ""
    ),
    min_size=1,
    max_size=6,
)


@settings(deadline=None)
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


@settings(deadline=None)
@given(st.text(min_size=1))
def test_the_table_covers_the_text(text: str) -> None:
    data = text.encode()
    table = TokenTable(data)

    assert table.count(0, len(data)) == count_tokens(text)
    assert table.reach(0, count_tokens(text)) == len(data)
    assert table.reach(0, 10**6) == len(data)
