"""Questions that are refused for their words, and the examples whose style they follow."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy import Chunk, Query
from freshstack_dspy.recipes.synthesis import (
    COPIED,
    OF_THE_PASSAGE,
    SHOWN,
    copied_share,
    read_style,
    refusal,
    shown_examples,
)

TEXT = "# Dials\n\nThe dial shows the phase of the moon, and sticks when it rains."
SEED = Chunk(chunk_id="a", source="a", path="a", start_byte=0, end_byte=9, text=TEXT, tokens=9)


def query(text: str) -> Query:
    return Query(query_id="q", title=text, body="", answer="a")


@pytest.mark.parametrize(
    ("question", "share"),
    [
        ("The dial shows the phase of the moon!", 1.0),
        ("What shows the phase of the moon?", 3 / 4),
        ("Why is it that the dial shows the phase of the moon?", 5 / 9),
        ("My dial is stuck since yesterday's rain, what now?", 0.0),
        ("the dial shows", 0.0),
        ("", 0.0),
    ],
)
def test_the_copied_share_is_that_of_runs_of_four_words(question: str, share: float) -> None:
    assert copied_share(question, TEXT) == pytest.approx(share)


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_share_is_a_share_and_a_text_copies_itself(question: str, text: str) -> None:
    assert 0 <= copied_share(question, text) <= 1
    assert copied_share(text, text) in (0, 1)


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("Why is it that the dial shows the phase of the moon?", COPIED),
        ("According to the text, what does the dial do?", OF_THE_PASSAGE),
        ("What does this passage say of dials?", OF_THE_PASSAGE),
        ("How do I get the text of a document into the dial?", None),
        ("My dial got wet and does not move any more. What now?", None),
        ("Where do I find the passage of time on a dial?", OF_THE_PASSAGE),
    ],
)
def test_a_question_is_refused_that_copies_or_speaks_of_its_passage(
    question: str, reason: str | None
) -> None:
    assert refusal(query(question), [SEED]) == reason


def test_a_style_is_a_question_a_line_or_objects(tmp_path: Path) -> None:
    lines, objects = tmp_path / "style.txt", tmp_path / "style.jsonl"
    lines.write_text('\ufeffWhy?\r\n\n  How so? \n"Why?"\nWhy?\n')
    objects.write_text(
        '{"question": "How?", "x": 1}\n\n{"title": "It fails", "body": "Why\\nso?"}\n'
        '{"query_id": "1", "title": "Who?", "body": "", "answer": "I."}\n'
    )

    assert read_style(lines) == ["Why?", "How so?", '"Why?"']
    assert read_style(objects) == ["How?", "It fails\nWhy\nso?", "Who?"]


def test_a_request_shows_a_few_examples_in_their_order_other_ones_for_other_chunks() -> None:
    examples = [f"Question {number}?" for number in range(30)]

    shown = [shown_examples(examples, 0, [f"chunk {number}"]) for number in range(5)]

    assert [len(each) for each in shown] == [SHOWN] * 5
    assert len(set(map(tuple, shown))) == 5
    assert all(each == sorted(each, key=examples.index) for each in shown)
    assert shown_examples(examples, 0, ["chunk 0"]) == shown[0]
