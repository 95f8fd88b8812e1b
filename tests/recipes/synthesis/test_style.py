"""The examples whose style synthetic questions follow."""

from pathlib import Path

import pytest

from freshstack_dspy.errors import SourceError
from freshstack_dspy.recipes.synthesis import SHOWN, read_style, shown_examples


def test_a_line_is_a_question_and_each_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "style.txt"
    path.write_text('\ufeffWhy?\r\n\n  How so? \n"Why?"\nWhy?\n')

    assert read_style(path) == ["Why?", "How so?", '"Why?"']


def test_json_lines_are_texts_or_objects(tmp_path: Path) -> None:
    path = tmp_path / "style.jsonl"
    path.write_text(
        '"Why?"\n\n{"question": "How?", "x": 1}\n{"title": "It fails", "body": "Why\\nso?"}\n'
        '{"query_id": "1", "title": "Who?", "body": "", "answer": "I."}\n'
    )

    assert read_style(path) == ["Why?", "How?", "It fails\nWhy\nso?", "Who?"]


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.txt", b"", "holds no question"),
        ("a.txt", b"ok\ncaf\xe9\n", "a.txt:2: not UTF-8"),
        ("a.txt", b"a" * 8_001, "a.txt:1: 8,001 characters; an example has at most 8,000"),
        ("a.jsonl", b"Why?\n", "a.jsonl:1: not valid JSON"),
        ("a.jsonl", b'{"text": "Why?"}\n', "a.jsonl:1: no question"),
    ],
)
def test_what_is_no_question_is_named_with_its_line(
    tmp_path: Path, name: str, data: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(data)

    with pytest.raises(SourceError) as caught:
        read_style(tmp_path / name)

    assert said in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"gone\.txt: cannot be read"):
        read_style(tmp_path / "gone.txt")


def test_a_request_shows_a_few_examples_in_their_order_other_ones_for_other_chunks() -> None:
    examples = [f"Question {number}?" for number in range(30)]

    shown = [shown_examples(examples, 0, [f"chunk {number}"]) for number in range(5)]

    assert [len(each) for each in shown] == [SHOWN] * 5
    assert len(set(map(tuple, shown))) == 5
    assert all(each == sorted(each, key=examples.index) for each in shown)
    assert shown_examples(examples, 0, ["chunk 0"]) == shown[0]
    assert shown_examples(examples[:2], 0, ["chunk 0"]) == examples[:2]
