"""Queries from JSON Lines, CSV and Parquet."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import TypeAdapter

from freshstack_dspy import Query
from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.errors import SourceError
from freshstack_dspy.questions.reading import QueryReading, read_queries

ANY_QUERIES: TypeAdapter[Any] = TypeAdapter(QueriesConfig)
HEAD = "query_id,title,body,answer"


def read(source: str, path: Path, **filters: object) -> QueryReading:
    return read_queries(ANY_QUERIES.validate_python({"source": source, "path": path, **filters}))


def read_csv(path: Path, text: str | bytes, **filters: object) -> QueryReading:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read("csv", path, **filters)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queries.csv"


def test_quoted_cells_hold_commas_quotes_and_line_breaks(path: Path) -> None:
    text = f'\ufeff{HEAD}\r\n7,"a, ""b""","one\r\n\r\ntwo\n",A\r\n\r\n8,T,,B\r\n'

    first, second = read_csv(path, text).queries

    assert (first.query_id, first.title, first.body) == ("7", 'a, "b"', "one\r\n\r\ntwo\n")
    assert (second.query_id, second.body, second.answer) == ("8", "", "B")


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_the_delimiter_is_seen_from_the_names(path: Path, mark: str) -> None:
    head = mark.join(["query_id", "title", "answer", "a,b;c" if mark not in ",;" else "x"])

    [query] = read_csv(path, f"{head}\n{mark.join(['1', 'T', 'A', 'z'])}\n").queries

    assert (query.query_id, query.title, query.answer) == ("1", "T", "A")


def test_every_part_of_a_query_can_be_a_column(path: Path) -> None:
    columns = {
        "query_id": "Id",
        "body": "Question",
        "answer": "Reply",
        "asked_at": "Date",
        "question_licence": "Licence",
        "answer_licence": "Licence",
        "answer_author": "Who",
    }
    text = (
        "Id;Question;Reply;Date;Licence;Who;tags;score;answer_id;Unused\n"
        "1;Q;A;2020-05-01;CC0;Ann;<a><b c>;-3;2;x\n"
    )

    [query] = read_csv(path, text, columns=columns, licences=["CC0"], until="2020-05-02").queries

    assert (query.text, query.answer, query.answer_id) == ("Q", "A", "2")
    assert (query.tags, query.score, query.asked_at) == (("a", "b c"), -3, "2020-05-01")
    assert query.answer_source is not None
    assert query.answer_source.model_dump() == {"author": "Ann", "url": "", "licence": "CC0"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "queries.csv: the first line is empty"),
        ("Id,Text,Reply\n", "has no column 'query_id', 'title' or 'body', 'answer'; it has 'Id', "),
        ("query_id,title,title,answer\n", "queries.csv: has two columns 'title'"),
        (f"{HEAD}\n1,T,B,A\n2,T\n", "queries.csv:3: has 2 cells under 4 names"),
        (f'{HEAD}\n1,T,B,"A\n', "queries.csv:2: not CSV"),
        (f"{HEAD}\n,T,B,A\n", "queries.csv:2: has no value of 'query_id'"),
        (f"{HEAD}\n1,T,B,A\n1,T,B,A\n", "queries.csv:3: query_id '1' is already at "),
        (f"{HEAD},score\n1,T,B,A,3.5\n", "queries.csv:2: score is '3.5'"),
        (f"{HEAD}\n1,T,B,\xff\n".encode("latin-1"), "queries.csv:2: not UTF-8"),
    ],
)
def test_what_is_wrong_is_named_with_its_row(path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(SourceError) as error:
        read_csv(path, text)

    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_row_without_a_text_is_left_out_and_counted(path: Path, tmp_path: Path) -> None:
    reading = read_csv(path, f"{HEAD}\n1,T,B,A\n2,, ,A\n")
    rows = [ROWS[0], {"query_id": "2", "title": None, "answer": "A"}]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = read("jsonl", tmp_path / "q.jsonl")

    for found in (reading, lines):
        assert len(found.queries) == 1
        assert found.rejected == {"empty question": 1}


def test_other_columns_are_kept_as_fields(path: Path) -> None:
    text = f"{HEAD},product,created,log\n1,T,B,A,Atlas,2024-05-01,{'x' * 201}\n2,T,B,A,,,\n"

    first, second = read_csv(path, text).queries

    assert first.fields == {"created": "2024-05-01", "product": "Atlas"}, "no text of any length"
    assert '"fields"' not in second.model_dump_json(), "records without any are as they were"
    (chosen, _) = read_csv(path, text, fields=["product"]).queries
    assert chosen.fields == {"product": "Atlas"}
    assert read_csv(path, text, fields=[]).queries[0].fields == {}
    with pytest.raises(SourceError, match="no question has a value of 'team'"):
        read_csv(path, text, fields=["team"])


def test_fields_of_any_type_become_texts(tmp_path: Path) -> None:
    row = {**ROWS[0], "level": 2.0, "vip": True, "on": datetime(2024, 5, 1, tzinfo=UTC), "of": [1]}

    [query] = read("parquet", write_parquet(tmp_path / "q.parquet", [row])).queries

    assert query.fields == {"level": "2", "on": "2024-05-01T00:00:00+00:00", "vip": "true"}


# Parquet

ROWS: list[dict[str, Any]] = [
    {"query_id": 12, "title": "T", "body": "B", "answer": "A", "tags": ["x", "y"], "score": 3.0},
    {"query_id": 7, "title": None, "body": "B", "answer": "A", "tags": None, "score": None},
    {"query_id": 9, "title": "T", "body": "B", "answer": None, "tags": [], "score": 1.0},
]


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def test_types_of_columns_become_those_of_queries(tmp_path: Path) -> None:
    """Whole numbers with gaps are floats in a data frame."""
    reading = read("parquet", write_parquet(tmp_path / "q.parquet", ROWS))

    assert [query.query_id for query in reading.queries] == ["7", "12"]
    assert (reading.queries[1].tags, reading.queries[1].score) == (("x", "y"), 3)
    assert reading.queries[0].title == ""
    assert reading.rejected == {"no accepted answer": 1}


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_dates_become_text(tmp_path: Path, unit: str) -> None:
    asked = pa.array([datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)], pa.timestamp(unit, "UTC"))
    columns = {"query_id": ["1"], "body": ["B"], "answer": ["A"], "asked_at": asked}
    pq.write_table(pa.table(columns), tmp_path / "q.parquet")

    [query] = read(
        "parquet", tmp_path / "q.parquet", since="2020-01-02", until="2020-01-03"
    ).queries

    assert query.asked_at == "2020-01-02T03:04:05+00:00"


def test_a_folder_of_parquet_files_is_one_table(tmp_path: Path) -> None:
    write_parquet(tmp_path / "b.parquet", ROWS[:1])
    write_parquet(tmp_path / "a.parquet", ROWS[1:])

    assert len(read("parquet", tmp_path).queries) == 2
    write_parquet(tmp_path / "c.parquet", ROWS[:1])
    with pytest.raises(
        SourceError, match=r"c\.parquet:1: query_id '12' is already at .*b\.parquet"
    ):
        read("parquet", tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query_id": 1.5}, "q.parquet:1: query_id is 1.5"),
        ({"tags": "['a']"}, "tags is \"['a']\""),
        ({"answer_source": {"author": "a"}}, "answer_source.url is missing"),
    ],
)
def test_a_value_of_another_kind_is_named(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    row = {"query_id": "1", "body": "B", "answer": "A", **change}

    with pytest.raises(SourceError) as error:
        read("parquet", write_parquet(tmp_path / "q.parquet", [row]))

    assert message in str(error.value)


@pytest.mark.parametrize("source", ["csv", "jsonl", "parquet", "stackexchange"])
def test_a_file_that_is_not_there_is_one_line(tmp_path: Path, source: str) -> None:
    with pytest.raises(SourceError, match="missing: cannot be read"):
        read(source, tmp_path / "missing")


# JSON Lines

LINE = '{"query_id": "q1", "title": "T", "body": "B", "answer": "A"}'


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    return tmp_path / "queries.jsonl"


def read_lines(path: Path, text: str | bytes) -> QueryReading:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read("jsonl", path)


@pytest.mark.parametrize("origin", ["community", "synthetic"])
def test_what_is_written_is_read_back(lines: Path, origin: str) -> None:
    source = {"author": "ann", "url": "u", "licence": "CC0"}
    fields = {
        "query_id": "7", "title": "T", "body": "B", "answer_id": "8", "answer": "A",
        "tags": ["x", "y"], "asked_at": "2020-01-01T00:00:00", "score": -2, "origin": origin,
        "question_source": source, "seed_chunk_ids": ["a/b_0_9"], "call_id": "c0ffee",
        "fields": {"product": "Atlas"},
    }  # fmt: skip
    query = Query.model_validate(fields)

    assert read_lines(lines, query.model_dump_json()).queries == (query,)


@pytest.mark.parametrize("text", ['"title": "T"', '"body": "T"'])
def test_a_title_or_a_body_is_enough_and_ids_may_be_numbers(lines: Path, text: str) -> None:
    [query] = read_lines(lines, f'{{"query_id": 7, {text}, "answer": "A", "answer_id": 8}}').queries

    assert (query.query_id, query.answer_id, query.text) == ("7", "8", "T")


def test_blank_lines_byte_order_mark_and_crlf_are_passed_over(lines: Path) -> None:
    reading = read_lines(lines, b"\xef\xbb\xbf" + LINE.encode() + b"\r\n\r\n  \n")

    assert [query.query_id for query in reading.queries] == ["q1"]
    assert reading.rejected == {}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (LINE.replace('"body"', '"bdy"'), "unknown key 'bdy' (did you mean 'body'?)"),
        (
            '{"id": 1, "question": "Q", "reply": "A"}',
            "no value of 'query_id', 'title' or 'body', 'answer'; it has 'id', ",
        ),
        ('{"query_id": 1, "answer": "A"}', "no value of 'title' or 'body'; it has "),
        (LINE.replace('"A"', "7"), "answer is 7: input should be a valid string"),
        (LINE.replace('"q1"', r'"a\n1 Q0 d 1"'), "white space and control characters"),
        (LINE.replace('"A"', '"A", "asked_at": "May"'), "asked_at is 'May'; allowed: an ISO 8601"),
        (LINE[:-1], "not JSON: "),
    ],
)
def test_a_bad_line_is_named_with_its_fault(lines: Path, line: str, message: str) -> None:
    with pytest.raises(SourceError) as error:
        read_lines(lines, f"\n{line}\n")

    assert str(error.value).startswith(f"{lines}:2: ")
    assert message in str(error.value)


def test_a_question_without_answer_is_rejected_and_counted(lines: Path) -> None:
    rows = [
        LINE,
        '{"query_id": "q2", "title": "T", "body": "B"}',
        LINE.replace("q1", "q3").replace('"A"', "null"),
        LINE.replace("q1", "q4").replace('"A"', '""'),
        LINE.replace("q1", "q5").replace('"A"', '" "'),
    ]

    reading = read_lines(lines, "\n".join(rows))

    assert [query.query_id for query in reading.queries] == ["q1"]
    assert reading.rejected == {"no accepted answer": 2, "empty answer": 2}


def test_a_query_log_is_told_that_answers_are_needed(lines: Path) -> None:
    log = "\n".join(f'{{"query_id": {number}, "title": "Why?"}}' for number in range(3))

    with pytest.raises(SourceError, match=r'none of its 3 questions has an answer.*"synthetic"'):
        read_lines(lines, log)


def test_a_line_without_end_is_an_error_before_it_fills_the_memory(
    lines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("freshstack_dspy.files.LONGEST_LINE", 1 << 20)
    with pytest.raises(SourceError, match=r"queries\.jsonl:1: longer than 1 MiB"):
        read_lines(lines, b"x" * (2 << 20))
