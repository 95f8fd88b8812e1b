"""Queries from JSON Lines."""

from pathlib import Path

import pytest

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.errors import SourceError
from freshstack_dspy.questions.reading import QueryReading, read_queries

LINE = '{"query_id": "q1", "title": "T", "body": "B", "answer": "A"}'


def read(path: Path, text: str | bytes, **filters: object) -> QueryReading:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_queries(QueriesConfig.model_validate({"path": path, **filters}))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queries.jsonl"


def test_all_fields_are_read(path: Path) -> None:
    line = (
        '{"query_id": "7", "title": "T", "body": "B", "answer_id": "8", "answer": "A", '
        '"tags": ["x", "y"], "asked_at": "2020-01-01T00:00:00", "score": -2, '
        '"question_source": {"author": "ann", "url": "u", "licence": "CC0"}, '
        '"answer_source": null}'
    )

    [query] = read(path, line).queries

    assert query.tags == ("x", "y")
    assert query.score == -2
    assert query.question_source is not None
    assert query.question_source.author == "ann"


def test_blank_lines_byte_order_mark_and_crlf_are_passed_over(path: Path) -> None:
    reading = read(path, b"\xef\xbb\xbf" + LINE.encode() + b"\r\n\r\n  \n")

    assert [query.query_id for query in reading.queries] == ["q1"]
    assert reading.rejected == {}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (LINE.replace('"body"', '"bdy"'), "unknown key bdy"),
        (LINE.replace('"body"', '"bdy"'), "body is missing"),
        (LINE.replace('"q1"', "1"), "query_id is 1: input should be a valid string"),
        (LINE.replace('"q1"', '""'), "query_id is ''"),
        (LINE.replace('"A"', "7"), "answer is 7"),
        (LINE.replace('"A"', '"A", "score": "3"'), "score is '3'"),
        (LINE.replace('"A"', '"A", "tags": "a"'), "tags is 'a'"),
        (LINE.replace('"q1"', '"a b"'), "query_id is 'a b': white space"),
        (LINE.replace('"q1"', r'"a\n1 Q0 d 1"'), "white space and control characters"),
        (LINE.replace('"A"', '"A", "asked_at": "May"'), "asked_at is 'May'; allowed: an ISO 8601"),
        (LINE[:-1], "Invalid JSON: EOF while parsing an object"),
        ("[]", "Input should be an object"),
        (LINE.replace("T", r"\ud800"), "Invalid JSON"),
    ],
)
def test_a_bad_line_is_named_with_its_fault(path: Path, line: str, message: str) -> None:
    with pytest.raises(SourceError) as error:
        read(path, f"\n{line}\n")

    assert str(error.value).startswith(f"{path}:2: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_undecodable_bytes_are_named_by_line_and_byte(path: Path) -> None:
    with pytest.raises(
        SourceError, match=r"queries.jsonl:1: not UTF-8: byte 0xff at byte 15 of the line"
    ):
        read(path, LINE.encode().replace(b"q1", b"\xff"))


def test_an_id_that_is_there_twice_is_an_error_with_both_lines(path: Path) -> None:
    with pytest.raises(SourceError, match=r"queries.jsonl:3: query_id 'q1' is already on line 1"):
        read(path, f"{LINE}\n\n{LINE}\n")


def test_a_question_without_answer_is_rejected_and_counted(path: Path) -> None:
    lines = [
        LINE,
        '{"query_id": "q2", "title": "T", "body": "B"}',
        LINE.replace("q1", "q3").replace('"A"', "null"),
        LINE.replace("q1", "q4").replace('"A"', '""'),
        LINE.replace("q1", "q5").replace('"A"', '" "'),
    ]

    reading = read(path, "\n".join(lines))

    assert [query.query_id for query in reading.queries] == ["q1"]
    assert reading.rejected == {"no accepted answer": 2, "empty answer": 2}


def test_a_misspelt_answer_is_an_error_and_not_a_question_without_one(path: Path) -> None:
    with pytest.raises(SourceError, match="unknown key anwser"):
        read(path, LINE.replace("answer", "anwser"))


@pytest.mark.parametrize("name", ["missing.jsonl", "."])
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(SourceError, match="cannot be read"):
        read_queries(QueriesConfig(path=tmp_path / name))


def test_named_columns_are_read_and_the_others_passed_over(path: Path) -> None:
    line = '{"id": 7, "question": "Why?", "reply": "So.", "labels": "a|b", "votes": "3", "x": []}'
    columns = {
        "query_id": "id",
        "title": "question",
        "answer": "reply",
        "tags": "labels",
        "score": "votes",
    }

    [query] = read(path, line, columns=columns).queries

    assert (query.query_id, query.text, query.answer) == ("7", "Why?", "So.")
    assert (query.tags, query.score) == (("a", "b"), 3)


def test_with_named_columns_a_line_is_still_an_object(path: Path) -> None:
    with pytest.raises(SourceError, match=r"queries\.jsonl:1: not a JSON object"):
        read(path, "[]", columns={"query_id": "id"})


def test_a_line_without_end_is_refused_before_it_fills_the_memory(path: Path) -> None:
    with pytest.raises(SourceError, match=r"queries\.jsonl:1: longer than 16 MiB; no question is"):
        read(path, b"x" * (20 << 20))


def test_a_licence_is_compared_where_it_is_given(path: Path) -> None:
    source = '{"author": "a", "url": "u", "licence": "CC0"}'
    line = LINE.replace('"A"', f'"A", "question_source": {source}, "answer_source": {source}')

    assert len(read(path, line, licences=("cc0",)).queries) == 1
    assert read(path, line, licences=("MIT",)).rejected == {"under another licence": 1}
