"""Queries from JSON Lines."""

from pathlib import Path

import pytest

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.errors import SourceError
from freshstack_dspy.questions.reading import QueryReading, read_queries
from freshstack_dspy.records import Query

LINE = '{"query_id": "q1", "title": "T", "body": "B", "answer": "A"}'


def read(path: Path, text: str | bytes, **filters: object) -> QueryReading:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_queries(QueriesConfig.model_validate({"path": path, **filters}))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queries.jsonl"


@pytest.mark.parametrize("origin", ["community", "synthetic"])
def test_what_is_written_is_read_back(path: Path, origin: str) -> None:
    source = {"author": "ann", "url": "u", "licence": "CC0"}
    fields = {
        "query_id": "7", "title": "T", "body": "B", "answer_id": "8", "answer": "A",
        "tags": ["x", "y"], "asked_at": "2020-01-01T00:00:00", "score": -2, "origin": origin,
        "question_source": source, "seed_chunk_ids": ["a/b_0_9"], "call_id": "c0ffee",
    }  # fmt: skip
    query = Query.model_validate(fields)

    assert read(path, query.model_dump_json()).queries == (query,)


@pytest.mark.parametrize("text", ['"title": "T"', '"body": "T"'])
def test_a_title_or_a_body_is_enough_and_ids_may_be_numbers(path: Path, text: str) -> None:
    [query] = read(path, f'{{"query_id": 7, {text}, "answer": "A", "answer_id": 8}}').queries

    assert (query.query_id, query.answer_id, query.text) == ("7", "8", "T")


def test_blank_lines_byte_order_mark_and_crlf_are_passed_over(path: Path) -> None:
    reading = read(path, b"\xef\xbb\xbf" + LINE.encode() + b"\r\n\r\n  \n")

    assert [query.query_id for query in reading.queries] == ["q1"]
    assert reading.rejected == {}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (LINE.replace('"body"', '"bdy"'), "unknown key 'bdy' (did you mean 'body'?)"),
        ('{"id": 1, "question": "Q", "reply": "A"}', "as [queries.columns] "),
        ('{"query_id": 1, "answer": "A"}', "title and body are both missing; it has 'query_id'"),
        (LINE.replace('"A"', "7"), "answer is 7: input should be a valid string"),
        (LINE.replace('"q1"', r'"a\n1 Q0 d 1"'), "white space and control characters"),
        (LINE.replace('"A"', '"A", "asked_at": "May"'), "asked_at is 'May'; allowed: an ISO 8601"),
        (LINE[:-1], "not JSON: "),
    ],
)
def test_a_bad_line_is_named_with_its_fault(path: Path, line: str, message: str) -> None:
    with pytest.raises(SourceError) as error:
        read(path, f"\n{line}\n")

    assert str(error.value).startswith(f"{path}:2: ")
    assert message in str(error.value)


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


def test_a_query_log_is_told_that_answers_are_needed(path: Path) -> None:
    log = "\n".join(f'{{"query_id": {number}, "title": "Why?"}}' for number in range(3))

    with pytest.raises(SourceError, match=r'none of its 3 questions has an answer.*"synthetic"'):
        read(path, log)


def test_a_line_without_end_is_an_error_before_it_fills_the_memory(path: Path) -> None:
    with pytest.raises(SourceError, match=r"queries\.jsonl:1: longer than 16 MiB"):
        read(path, b"x" * (20 << 20))
