"""Which statements only repeat the question."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.text import restates

QUESTION = """Reading ring widths of an old Tucson file fails I have an old Tucson file of 1987.
`xc.read("old.rwl", units="mm")` raises a ValueError for the first line.

How do I read the ring widths of an old Tucson file with xylochron?
Does `xc.read` support files without a stop marker?
My colleague does not see this error with version 2.

    samtools coverage -abam file.bam -b peaks.bed > out.txt
"""


@pytest.mark.parametrize(
    "nugget",
    [
        "Reading ring widths of an old Tucson file fails.",
        "I have an old Tucson file of 1987",
        "The ring widths of an old Tucson file are read with xylochron.",
        'A `xc.read("old.rwl", units="mm")` raises ValueError for the first line.',
        "The colleague does not see this error with version 2.",
        "`samtools coverage -abam file.bam -b peaks.bed > out.txt`",
    ],
)
def test_a_sentence_of_the_question_in_its_own_words_restates_it(nugget: str) -> None:
    assert restates(nugget, QUESTION)


@pytest.mark.parametrize(
    "nugget",
    [
        # with a word of its own
        "Reading ring widths of an old Tucson file fails without a stop marker line.",
        "The ring widths of an old Tucson file are read with `xc.read_tucson`.",
        '`xc.read("old.rwl", units="mm")` raises a ValueError for a first line without an id.',
        "`units=` is used only for series without a stop marker.",
        # the answer to a yes-or-no question
        "`xc.read` supports files without a stop marker.",
        # the contrary
        "Reading ring widths of an old Tucson file never fails.",
        "The colleague does see this error with version 2.",
        # the same words, another command
        "`samtools coverage -a peaks.bed -b file.bam > out.txt`",
        "`samtools coverage -ABAM file.bam -b peaks.bed > out.txt`",
        # too short to tell
        "Tucson file",
        "",
    ],
)
def test_what_answers_the_question_does_not_restate_it(nugget: str) -> None:
    assert not restates(nugget, QUESTION)


@given(st.text(max_size=80), st.text(max_size=80))
def test_a_statement_with_a_word_of_its_own_never_restates(statement: str, question: str) -> None:
    assert not restates(f"{statement} zyzzyva", question)


@pytest.mark.parametrize("question", ["", " \n\n ", "?", "a" * 100_000, "a b " * 50_000])
def test_any_question_will_do(question: str) -> None:
    assert not restates("The ring widths are read.", question)


@pytest.mark.parametrize(
    ("statement", "question", "expected"),
    [
        ("Turn knob3 to 3", "How far do I turn knob3? I see no mark on knob3.", False),
        ("Set the release limit to 15", "How do I set the release limit to 1.5?", False),
        ("Set the release limit to 1.5", "How do I set the release limit to 1.5?", True),
    ],
)
def test_a_number_that_only_a_name_of_the_question_holds_is_news(
    statement: str, question: str, expected: bool
) -> None:
    assert restates(statement, question) is expected
