"""Chunks are byte-exact, complete and within the limit, of any file."""

import random
import re
from itertools import pairwise, takewhile
from unittest import mock

import pytest
import tiktoken
from hypothesis import example, given
from hypothesis import strategies as st
from tiktoken_ext import openai_public  # type: ignore[import-untyped]

from freshstack_dspy.config import Boundaries
from freshstack_dspy.corpus.chunks import TokenTable, chunk_file
from freshstack_dspy.lm.tokens import count_tokens, encoding
from freshstack_dspy.records import SourceFile
from tests.corpus.exactness import chunks_of

SUFFIXES = ["", *"adoc html org php rb tex py md rst txt ts tsx js go rs java c cpp json".split()]
PIECES = [
    "\n", "\n\n", "\r\n", "\r", "\r\n\r\n", "\n \n", " ", "    ", "\t", "\v", "\f", "\u3000", "\xa0",
    "\u2028", "\ufeff", "é", "e\u0301", "\u0301", "中文字", "。", "👍", "👩‍👩‍👧", "\U0001f468\U0001f3fd",
    "word ", "word. ", "aVeryLongIdentifierOfMany_parts", "0123456789", "x = 1\n", "# a comment\n",
    "# Heading\n", "## Heading\n\n", "Title\n=====\n", "====\nTop\n====\n", "----\n", "```\n", "~~~py\n",
    "- item\n", "  continued\n", ".. note::\n\n   inside\n", "def f(a):\n    return a\n",
    "@decorator\n", "class A:\n    '''doc'''\n", "function f() { return 1; }\n", "export class B {\n",
    "}\n", "{", "(", ")", "'''", '"', "/* ", " */", "// c\n", "#[derive(Debug)]\n", "fn f() {}\n",
    "a;b;c;", "<|endoftext|>", "...", "```", "---\n", "\x00", "\x1c", "\x85", "слово ", " λόγος",
    "größe ", " é", "'s", " ×",
]  # fmt: skip
KINDS: list[Boundaries] = ["packed", "stable"]
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.lists(st.sampled_from(PIECES), max_size=60).map("".join),
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map(lambda some: "".join(some) * 40),
)


@given(st.sampled_from(SUFFIXES), TEXTS, st.integers(16, 64), st.sampled_from(KINDS))
@example("md", "\ufeff# A\r\n\r\ne\u0301" * 40, 16, "packed")
@example("txt", "a\n\u3000\n" * 60, 16, "packed")
@example("txt", "👩‍👩‍👧" * 40, 16, "packed")
@example("py", "x\n \r y\n" * 60, 17, "packed")
@example("txt", "a" * 128 + "\n\n\n" + "b" * 400, 16, "packed")
@example("txt", "one. " + "a" * 128 + "\n\n\n" + "b" * 400 + " two", 16, "stable")
def test_any_text_of_any_kind_is_cut_exactly(
    suffix: str, text: str, max_tokens: int, boundaries: Boundaries
) -> None:
    chunks = chunks_of(f"a.{suffix}", text, max_tokens, boundaries=boundaries)

    endless = max(map(count_tokens, re.findall(r"\s+", text)), default=0) >= max_tokens - 8
    assert endless or all(chunk.text.strip() for chunk in chunks)


@given(TEXTS, st.data())
def test_a_part_has_as_many_tokens_as_it_has_by_itself(text: str, data: st.DataObject) -> None:
    text = f"{text}a"
    table = TokenTable(text.encode())
    places = st.integers(0, len(text)).map(lambda place: len(text[:place].encode()))
    start, end = sorted((data.draw(places), data.draw(places)))

    assert table.exact(start, end) == count_tokens(text.encode()[start:end].decode())


@pytest.mark.parametrize("suffix", ["py", "md", "txt"])
@pytest.mark.parametrize("text", ["", " \r\n\t\v\f", "\ufeff", "\ufeff\n", "\u3000\n\xa0"])
def test_a_blank_file_has_no_chunks(suffix: str, text: str) -> None:
    assert chunks_of(f"a.{suffix}", text, 16) == []


@pytest.mark.parametrize("suffix", ["py", "ts", "md", "rst", "txt"])
@pytest.mark.parametrize(
    "word", ["a", "é", "👍", "中", "e\u0301", "0", "(", "/-", "x ", ". ", "\\", "<|endoftext|>"]
)
def test_an_endless_line_is_cut_within_the_limit(suffix: str, word: str) -> None:
    chunks = chunks_of(f"a.{suffix}", word * 3000, 64)

    assert len(chunks) > 2
    assert min(chunk.tokens for chunk in chunks[:-1]) >= 24


def test_offsets_are_of_bytes_where_text_is_not_ascii() -> None:
    """FreshStack's chunker cuts the text at offsets of its bytes: shifted and empty chunks."""
    lines = [f"def größe_{number}():\n    return 'äöü👍'" for number in range(6)]
    text = "\n\n\n".join(lines)

    chunks = chunks_of("a.py", text, 25)

    assert [chunk.text.rstrip("\n") for chunk in chunks] == lines
    assert [chunk.start_byte for chunk in chunks] == [
        len(text[: text.index(line)].encode()) for line in lines
    ]


@pytest.mark.parametrize(("boundaries", "least"), [("packed", 101), ("stable", 32)])
def test_small_neighbours_share_a_chunk(boundaries: Boundaries, least: int) -> None:
    text = "".join(f"def f{n}():\n    return {n}\n\n\n" for n in range(40))

    chunks = chunks_of("a.py", text, 128, boundaries=boundaries)

    assert all(chunk.tokens >= least for chunk in chunks[:-1])
    assert all(chunk.text.startswith("def f") for chunk in chunks)
    assert all(a.tokens + b.tokens > 120 for a, b in pairwise(chunks)), "no two would fit in one"


@pytest.mark.parametrize("suffix", ["py", "md", "txt"])
@given(st.integers(0), st.integers(0, 119), st.integers(1, 3))
def test_a_change_of_a_file_moves_the_stable_boundaries_near_it_alone(
    suffix: str, seed: int, place: int, count: int
) -> None:
    chance = random.Random(seed)
    parts = [part_of(suffix, chance) for _ in range(120)]
    changed = parts[:place] + [part_of(suffix, chance) for _ in range(count)] + parts[place + 1 :]

    before, after = (
        [chunk.text for chunk in chunks_of(f"a.{suffix}", "".join(text), 128, boundaries="stable")]
        for text in (parts, changed)
    )

    same = [first == second for first, second in zip(before, after, strict=False)]
    from_end = [first == second for first, second in zip(before[::-1], after[::-1], strict=False)]
    alike = sum(takewhile(bool, same)) + sum(takewhile(bool, from_end))
    assert len(before) > 25
    assert len(before) - alike <= 8


def part_of(suffix: str, chance: random.Random) -> str:
    """A paragraph, a section or a function of up to a third of a limit."""
    words = " ".join(f"word{chance.randrange(10_000)}" for _ in range(chance.randint(2, 16)))
    heading = "#" * chance.randint(1, 3) + f" {words[:20]}\n\n" if chance.random() < 0.3 else ""
    function = f"def {words.split()[0]}(value):\n    return '{words}'\n\n\n"
    return {"py": function, "md": f"{heading}{words}.\n\n"}.get(suffix, f"{words}.\n\n")


def test_a_limit_that_no_chunk_can_keep_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"max_tokens is 15; allowed: 16 or more"):
        chunk_file(SourceFile("lib", "a.py", b"x"), 15)


# Tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("hello world", 2), ("tiktoken is great!", 6), ("<|endoftext|>", 7)],
)
def test_tokens_are_those_of_cl100k(text: str, tokens: int) -> None:
    """The third is OpenAI's own example: 83 1609 5963 374 2294 0."""
    assert count_tokens(text) == tokens


@pytest.fixture(scope="module")
def published() -> tiktoken.Encoding:
    """The vocabulary with the pattern that tiktoken has for it."""
    with mock.patch.object(openai_public, "load_tiktoken_bpe", return_value={}):
        values = openai_public.cl100k_base()
    ranks = encoding()._mergeable_ranks
    return tiktoken.Encoding(**{**values, "mergeable_ranks": ranks, "special_tokens": {}})


@given(TEXTS)
def test_a_text_has_the_tokens_that_tiktoken_gives(published: tiktoken.Encoding, text: str) -> None:
    assert encoding().encode_ordinary(text) == published.encode_ordinary(text)
