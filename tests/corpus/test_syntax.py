"""Parsing is given up, by counting, where it would cost out of all proportion."""

from typing import get_args

import pytest

from freshstack_dspy.corpus import outlines as syntax
from freshstack_dspy.corpus.boundaries import Language
from freshstack_dspy.corpus.outlines import syntax_tree
from tests.corpus.exactness import chunks_of

LANGUAGES: tuple[Language, ...] = get_args(Language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_grammar_is_there_and_reads_its_file_to_the_end(language: Language) -> None:
    data = b"x = 1;\n" * 5000

    tree = syntax_tree(data, language)

    assert tree is not None
    assert tree.root_node.end_byte == len(data)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    "text",
    ["(;\n" * 2000, "([{" * 500 + "\n", "a<\n" * 4000, "x" * 10_001 + "\n", "1,2," * 3000],
    ids=["parentheses", "brackets", "angles", "long word", "long line"],
)
def test_what_nobody_wrote_is_not_parsed(language: Language, text: str) -> None:
    """Parsed, some of these take gigabytes."""
    assert syntax_tree(text.encode(), language) is None


@pytest.mark.parametrize(
    ("language", "unit"),
    [
        ("cpp", "\n /*"),
        ("c", ">]&\n"),
        ("go", "->\n"),
        ("javascript", "new in ?\n"),
        ("rust", ":?|\n"),
    ],
)
def test_parsing_that_does_not_come_to_an_end_is_given_up(language: Language, unit: str) -> None:
    """Each of these takes a time that grows with the square of the size, hours for a megabyte."""
    assert syntax_tree((unit * 20_000).encode(), language) is None


def test_closed_brackets_may_be_many() -> None:
    text = "x = [\n" + "    (1, {2: [3]}),\n" * 5000 + "]\ny = 1 < 2\n"

    assert syntax_tree(text.encode(), "python") is not None


@pytest.mark.parametrize("suffix", ["py", "ts", "java", "cpp"])
@pytest.mark.parametrize("unit", ["(;\n", "a<\n", "\n /*", "{", "a[0];b;"])
def test_what_is_not_parsed_is_cut_as_text(suffix: str, unit: str) -> None:
    assert len(chunks_of(f"a.{suffix}", unit * 5000, 256)) > 5


def test_a_language_whose_grammar_is_not_installed_is_cut_as_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(syntax._GRAMMARS, "lua", ("tree_sitter_absent", "language"))
    syntax._grammar.cache_clear()
    try:
        assert syntax_tree(b"x = 1", "lua") is None
        assert len(chunks_of("a.lua", "x = 1\n" * 500, 256)) > 5
    finally:
        syntax._grammar.cache_clear()
