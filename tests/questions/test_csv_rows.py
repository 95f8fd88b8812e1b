"""Queries from CSV."""

import csv
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.errors import SourceError
from freshstack_dspy.questions.reading import QueryReading, read_queries

HEAD = "query_id,title,body,answer"


def read(path: Path, text: str | bytes, **filters: object) -> QueryReading:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_queries(QueriesConfig.model_validate({"source": "csv", "path": path, **filters}))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queries.csv"


def test_quoted_cells_hold_commas_quotes_and_line_breaks(path: Path) -> None:
    text = f'\ufeff{HEAD}\r\n7,"a, ""b""","one\r\n\r\ntwo\n",A\r\n\r\n8,T,,B\r\n'

    first, second = read(path, text).queries

    assert (first.query_id, first.title, first.body) == ("7", 'a, "b"', "one\r\n\r\ntwo\n")
    assert (second.query_id, second.body, second.answer) == ("8", "", "B")


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_the_delimiter_is_seen_from_the_names(path: Path, mark: str) -> None:
    head = mark.join(["query_id", "title", "answer", "a,b;c" if mark not in ",;" else "x"])

    [query] = read(path, f"{head}\n{mark.join(['1', 'T', 'A', 'z'])}\n").queries

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

    [query] = read(path, text, columns=columns, licences=["CC0"], until="2020-05-02").queries

    assert (query.text, query.answer, query.answer_id) == ("Q", "A", "2")
    assert (query.tags, query.score, query.asked_at) == (("a", "b c"), -3, "2020-05-01")
    assert query.answer_source is not None
    assert query.answer_source.model_dump() == {"author": "Ann", "url": "", "licence": "CC0"}


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ("", ()),
        ("a", ("a",)),
        ("<a><b>", ("a", "b")),
        ("|a|b|", ("a", "b")),
        ("a|b,c", ("a", "b,c")),
        ("a, b,,", ("a", "b")),
    ],
)
def test_tags_are_read_from_text(path: Path, tags: str, found: tuple[str, ...]) -> None:
    [query] = read(path, f'{HEAD},tags\n1,T,B,A,"{tags}"\n').queries

    assert query.tags == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "queries.csv: the first line is empty; allowed: names of columns"),
        (
            "id,title,body,answer\n",
            "queries.csv: has no column 'query_id'; it has 'answer', 'body'",
        ),
        ("id,title,body,answer\n", 'name them, as [queries.columns] query_id = "…"'),
        ("query_id,answer\n", "has no column 'title' or 'body'"),
        ("query_id,title,title,answer\n", "queries.csv: has two columns 'title'; rename one"),
        (f"{HEAD}\n1,T,B,A\n2,T\n", "queries.csv:3: has 2 cells under 4 names; quote cells"),
        (f'{HEAD}\n1,T,B,"A\n', "queries.csv:2: not CSV: unexpected end of data"),
        (f'{HEAD}\n1,T,"B"x,A\n', "queries.csv:2: not CSV: ',' expected after '\"'"),
        (f"{HEAD}\n,T,B,A\n", "queries.csv:2: query_id is missing"),
        (f"{HEAD}\n1,,,A\n", "queries.csv:2: title and body are both missing"),
        (f"{HEAD}\na b,T,B,A\n", "queries.csv:2: query_id is 'a b': white space"),
        (f"{HEAD}\n1,T,B,A\n1,T,B,A\n", "queries.csv:3: query_id '1' is already on line 2"),
        (f"{HEAD},score\n1,T,B,A,3.5\n", "queries.csv:2: score is '3.5'; allowed: a whole number"),
        (f"{HEAD},asked_at\n1,T,B,A,May\n", "queries.csv:2: asked_at is 'May'; allowed: an ISO 86"),
        (f"{HEAD},tags\n1,T,B,A,\"['a']\"\n", "queries.csv:2: tags is \"['a']\"; allowed: a list"),
        (
            f"{HEAD}\n1,T,B,\xff\n".encode("latin-1"),
            "queries.csv:2: not UTF-8: byte 0xff at byte 7",
        ),
        (HEAD.encode("utf-16"), "queries.csv:1: not UTF-8"),
        (f"{HEAD}\n1,T,B,A\n\x00,T,B,A\n", "queries.csv:3: "),
    ],
)
def test_what_is_wrong_is_named_with_its_row(path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(SourceError) as error:
        read(path, text)

    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_column_that_is_named_must_be_there(path: Path) -> None:
    with pytest.raises(SourceError, match=r"has no column 'Votes'; .* score = "):
        read(path, f"{HEAD}\n1,T,B,A\n", columns={"score": "Votes"})


def test_a_row_without_an_answer_is_counted(path: Path) -> None:
    reading = read(path, f"{HEAD}\n1,T,B,\n2,T,B,A\n3,T,B,  \n")

    assert [query.query_id for query in reading.queries] == ["2"]
    assert reading.rejected == {"empty answer": 1, "no accepted answer": 1}


@pytest.mark.parametrize("ends", ["", "\n" * 200_000])
def test_a_quotation_mark_left_open_does_not_fill_the_memory(path: Path, ends: str) -> None:
    line = "x" * (1 << 20) + "\n"

    with pytest.raises(
        SourceError, match=r"queries\.csv:2: a row longer than 16 MiB; is a quotation"
    ):
        read(path, f'{HEAD}\n1,T,B,"' + line * 20 + ends)


def test_long_cells_are_read_and_the_limit_of_others_stays(path: Path) -> None:
    limit = csv.field_size_limit()

    [query] = read(path, f"{HEAD}\n1,T,B,{'x' * 300_000}\n").queries

    assert len(query.answer) == 300_000
    assert csv.field_size_limit() == limit


CELL = st.text(st.characters(exclude_characters="\r\0", exclude_categories=["Cs"]), max_size=20)


@settings(max_examples=30)
@given(st.lists(st.tuples(CELL, CELL, CELL), max_size=5), st.sampled_from([",", ";", "\t"]))
def test_what_python_writes_is_read(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]], mark: str
) -> None:
    path = tmp_path_factory.mktemp("csv") / "queries.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=mark)
        writer.writerow(HEAD.split(","))
        writer.writerows((f"q{n}", *row[:2], row[2] + "!") for n, row in enumerate(rows))

    queries = read(path, path.read_bytes(), limit=9) if all(a or b for a, b, _ in rows) else None

    if queries is not None:
        assert [(q.title, q.body, q.answer) for q in queries.queries] == [
            (title, body, answer + "!") for title, body, answer in rows
        ]


def test_a_head_of_many_names_is_read(path: Path) -> None:
    """Counted one by one, these names would take an hour."""
    names = ",".join(f"x{number}" for number in range(200_000))

    [query] = read(path, f"{HEAD},{names}\n1,T,B,A{',' * 200_000}\n").queries

    assert query.query_id == "1"
