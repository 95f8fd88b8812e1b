"""Queries from Parquet, from Hugging Face datasets on disk, and in the official format."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.errors import SourceError
from freshstack_dspy.questions.reading import QueryReading, query_files, read_queries
from freshstack_dspy.records import Attribution, Query

ROWS: list[dict[str, Any]] = [
    {"query_id": 12, "title": "T", "body": "B", "answer": "A", "tags": ["x", "y"], "score": 3.0},
    {"query_id": 7, "title": None, "body": "B", "answer": "A", "tags": None, "score": None},
    {"query_id": 9, "title": "T", "body": "B", "answer": None, "tags": [], "score": 1.0},
]
OFFICIAL: dict[str, Any] = {
    "query_id": "76185522",
    "query_title": "T",
    "query_text": "B",
    "nuggets": [{"_id": "76185522_0", "text": "N", "relevant_corpus_ids": ["a/b.py_0_9"]}],
    "answer_id": "76185600",
    "answer_text": "A",
    "metadata": {"date": "2023-05-06T10:00:00", "tags": ["angular", "rxjs"]},
}


def read(source: str, path: Path, **filters: object) -> QueryReading:
    return read_queries(QueriesConfig.model_validate({"source": source, "path": path, **filters}))


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def save_to_disk(folder: Path, rows: list[dict[str, Any]], shards: int = 1) -> Path:
    """Write what `datasets.Dataset.save_to_disk` writes, without its two seconds of import."""
    folder.mkdir(parents=True)
    table = pa.Table.from_pylist(rows)
    names = [f"data-{n:05}-of-{shards:05}.arrow" for n in range(shards)]
    for number, name in enumerate(names):
        with pa.ipc.new_stream(folder / name, table.schema) as stream:
            stream.write_table(table.take(list(range(number, len(rows), shards))))
    state = {"_data_files": [{"filename": name} for name in names], "_split": "train"}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text("{}")
    return folder


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


def test_what_a_build_writes_can_be_read_back_from_parquet(tmp_path: Path) -> None:
    source = Attribution(author="a", url="u", licence="CC0")
    query = Query(query_id="1", title="T", body="B", answer="A", tags=("x",), answer_source=source)
    path = write_parquet(tmp_path / "q.parquet", [query.model_dump(mode="json")])

    assert read("parquet", path).queries == (query,)


def test_a_folder_of_parquet_files_is_one_table(tmp_path: Path) -> None:
    write_parquet(tmp_path / "b.parquet", ROWS[:1])
    write_parquet(tmp_path / "a.parquet", ROWS[1:])

    assert len(read("parquet", tmp_path).queries) == 2
    write_parquet(tmp_path / "c.parquet", ROWS[:1])
    with pytest.raises(
        SourceError, match=r"c\.parquet:1: query_id '12' is already in .*b\.parquet"
    ):
        read("parquet", tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query_id": 1.5}, "q.parquet:1: query_id is 1.5; allowed: text or a whole number"),
        ({"query_id": True}, "query_id is True; allowed"),
        ({"answer": 7}, "answer is 7; allowed: text"),
        ({"tags": [1]}, "tags is [1]; allowed: a list of texts"),
        ({"score": "many"}, "score is 'many'; allowed: a whole number"),
        ({"asked_at": 2020}, "asked_at is 2020; allowed: a date or a text in ISO 8601"),
        ({"answer_source": {"author": "a"}}, "answer_source: url is missing"),
    ],
)
def test_a_value_of_another_kind_is_named(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    row = {"query_id": "1", "body": "B", "answer": "A", **change}

    with pytest.raises(SourceError) as error:
        read("parquet", write_parquet(tmp_path / "q.parquet", [row]))

    assert message in str(error.value)


@pytest.mark.parametrize("kind", ["missing", "text", "cut"])
def test_what_is_no_parquet_is_an_error_in_one_line(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "q.parquet"
    if kind == "text":
        path.write_text("query_id,title\n")
    elif kind == "cut":
        path.write_bytes(write_parquet(path, ROWS).read_bytes()[:-20])

    with pytest.raises(SourceError, match=r"q\.parquet: cannot be read as Parquet: ") as error:
        read("parquet", path)

    assert "\n" not in str(error.value)


@pytest.mark.parametrize("shards", [1, 3])
def test_a_saved_dataset_is_read_with_all_its_shards(tmp_path: Path, shards: int) -> None:
    path = save_to_disk(tmp_path / "saved", ROWS, shards)

    reading = read("huggingface", path)

    assert [query.query_id for query in reading.queries] == ["7", "12"]
    config = QueriesConfig(source="huggingface", path=path)
    assert {file.name for file in query_files(config)} == {
        file.name for file in path.iterdir() if file.name != "dataset_info.json"
    }


def test_of_several_splits_one_is_chosen(tmp_path: Path) -> None:
    save_to_disk(tmp_path / "train", ROWS[:1])
    save_to_disk(tmp_path / "test", ROWS[1:])
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')

    assert [q.query_id for q in read("huggingface", tmp_path, split="test").queries] == ["7"]
    for split, said in ((None, "has several splits"), ("dev", "has no split 'dev'")):
        with pytest.raises(SourceError, match=rf"{said}; allowed: .* = 'train' or 'test'"):
            read("huggingface", tmp_path, split=split)
    with pytest.raises(SourceError, match="is the split 'train' alone, and not 'test'"):
        read("huggingface", tmp_path / "train", split="test")


@pytest.mark.parametrize("name", ["../secret.arrow", "/etc/passwd", "..", "a\\b", 7])
def test_a_dataset_cannot_name_files_outside_of_itself(tmp_path: Path, name: object) -> None:
    path = save_to_disk(tmp_path / "saved", ROWS)
    save_to_disk(tmp_path / "other", ROWS)
    (path / "state.json").write_text(json.dumps({"_data_files": [{"filename": name}]}))

    with pytest.raises(SourceError, match=r"state\.json: names .*; allowed: plain names of files"):
        read("huggingface", path)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("{", "state.json: not JSON: EOF"),
        ("[]", "state.json: not a JSON object"),
        ("{}", "state.json: names no _data_files"),
        ("[" * 100_000, "state.json: not JSON: recursion limit"),
        ('{"_data_files": [{"filename": "lost.arrow"}]}', "lost.arrow: cannot be read as Arrow"),
        ('{"_data_files": [{"filename": "state.json"}]}', "state.json: cannot be read as Arrow"),
    ],
)
def test_a_damaged_dataset_is_an_error_in_one_line(
    tmp_path: Path, state: str, message: str
) -> None:
    path = save_to_disk(tmp_path / "saved", ROWS)
    (path / "state.json").write_text(state)

    with pytest.raises(SourceError) as error:
        read("huggingface", path)

    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_folder_that_is_no_dataset_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        SourceError, match=r"holds no state\.json; allowed: .* source = \"parquet\""
    ):
        read("huggingface", tmp_path)


def official(folder: Path, form: str) -> Path:
    """Write two official rows in one of the forms in which they come."""
    rows = [OFFICIAL, OFFICIAL | {"query_id": "5", "answer_text": None, "metadata": None}]
    if form == "huggingface":
        return save_to_disk(folder / "saved", rows)
    if form == "parquet":
        return write_parquet(folder / "test-00000-of-00001.parquet", rows)
    if form == "folder of parquet":
        return write_parquet(folder / "test.parquet", rows).parent
    path = folder / "queries.json"
    if form == "lines":
        path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    elif form == "array":
        path.write_text(json.dumps(rows, indent=1))
    else:
        path.write_text(json.dumps(OFFICIAL, indent=1))
    return path


@pytest.mark.parametrize(
    "form", ["lines", "array", "object", "parquet", "folder of parquet", "huggingface"]
)
def test_official_queries_are_read_in_all_their_forms(tmp_path: Path, form: str) -> None:
    reading = read("freshstack", official(tmp_path, form), tags=["RxJS"])

    assert reading.queries == (
        Query(
            query_id="76185522",
            title="T",
            body="B",
            answer_id="76185600",
            answer="A",
            tags=("angular", "rxjs"),
            asked_at="2023-05-06T10:00:00",
        ),
    )
    assert reading.rejected == ({} if form == "object" else {"no accepted answer": 1})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"query_id": "1", "query_title": 5, "answer_text": "A"}',
            "title (column 'query_title') is",
        ),
        (
            '{"query_id": "1", "answer_text": "A"}',
            "queries.json:1: title (column 'query_title') and",
        ),
        ('{"query_id": "1", "metadata": []}', "queries.json:1: metadata is no object of date"),
        ('{"query_id": "1"}\n{"query_id"', "queries.json:1: title"),
        ('{"query_id": "1", \n', "queries.json: not JSON: EOF"),
        ("[[]]", "queries.json:1: not a JSON object"),
        ("", "queries.json: not JSON: EOF"),
    ],
)
def test_what_is_not_in_the_official_format_is_named(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "queries.json"
    path.write_text(text)

    with pytest.raises(SourceError) as error:
        read("freshstack", path)

    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_what_datasets_saves_is_read(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = [row | {"score": 1} for row in ROWS] * 1
    whole = datasets.Dataset.from_list(rows)
    whole.save_to_disk(tmp_path / "one", num_shards=2)
    chosen = whole.select([1, 0])
    datasets.DatasetDict({"train": whole, "test": chosen}).save_to_disk(tmp_path / "two")

    assert len(read("huggingface", tmp_path / "one").queries) == 2
    assert len(read("huggingface", tmp_path / "two", split="test").queries) == 2


def rows_of(count: int, **columns: pa.Array) -> pa.Table:
    ids = [str(number) for number in range(count)]
    return pa.table({"query_id": ids, "answer": ["A"] * count, **columns})


def shared(value: str, count: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([value]))


@pytest.mark.parametrize("in_list", [False, True])
def test_a_value_that_a_thousand_rows_share_does_not_fill_the_memory(
    tmp_path: Path, in_list: bool
) -> None:
    """Unpacked, these 2 kB would be 16 GiB."""
    column = shared("x" * (16 << 20), 1000)
    if in_list:
        column = pa.ListArray.from_arrays(pa.array([0, 1000] + [1000] * 999), column)
    path = tmp_path / "q.parquet"
    pq.write_table(rows_of(1000, body=["B"] * 1000, tags=column), path, compression="zstd")
    assert path.stat().st_size < 40_000

    with pytest.raises(SourceError, match=r"q\.parquet:1: longer than 16 MiB; no question is"):
        read("parquet", path)


def test_rows_that_share_a_long_value_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    text = "x" * (5 << 20)
    pq.write_table(rows_of(10, body=shared(text, 10)), tmp_path / "q.parquet", compression="zstd")

    queries = read("parquet", tmp_path / "q.parquet").queries

    assert [query.query_id for query in queries] == [str(number) for number in range(10)]
    assert {query.body for query in queries} == {text}


def test_views_of_text_are_read_and_measured(tmp_path: Path) -> None:
    for name, text in (("short", "B"), ("long", "B" * (17 << 20))):
        pq.write_table(rows_of(1, body=pa.array([text], pa.string_view())), tmp_path / name)

    assert read("parquet", tmp_path / "short").queries[0].body == "B"
    with pytest.raises(SourceError, match="longer than 16 MiB"):
        read("parquet", tmp_path / "long")


def test_a_column_whose_size_cannot_be_told_is_refused(tmp_path: Path) -> None:
    tags = pa.array([[("a", "b")]], pa.map_(pa.string(), pa.string()))
    pq.write_table(rows_of(1, body=["B"], tags=tags), tmp_path / "q.parquet")

    with pytest.raises(SourceError, match=r"column 'tags' is of type 'map<.*; save it as text"):
        read("parquet", tmp_path / "q.parquet")


def test_a_time_zone_that_nobody_knows_is_an_error_in_one_line(tmp_path: Path) -> None:
    asked = pa.array([0], pa.timestamp("us", "Foo/Bar"))
    pq.write_table(rows_of(1, body=["B"], asked_at=asked), tmp_path / "q.parquet")

    with pytest.raises(SourceError, match=r"q\.parquet: dates are in a time zone .*'Foo/Bar'"):
        read("parquet", tmp_path / "q.parquet")


@pytest.mark.parametrize("source", ["parquet", "huggingface"])
def test_two_columns_of_a_used_name_are_refused(tmp_path: Path, source: str) -> None:
    table = pa.table([["1"], ["A"], ["B"], ["C"]], names=["query_id", "answer", "body", "body"])
    if source == "parquet":
        path = tmp_path / "q.parquet"
        pq.write_table(table, path)
    else:
        path = save_to_disk(tmp_path / "set", ROWS[:1])
        with pa.ipc.new_stream(path / "data-00000-of-00001.arrow", table.schema) as stream:
            stream.write_table(table)

    with pytest.raises(SourceError, match="has two columns 'body'; rename one"):
        read(source, path)


def test_columns_that_are_not_used_may_be_there_twice(tmp_path: Path) -> None:
    table = pa.table(
        [["1"], ["A"], ["B"], [1], [2]], names=["query_id", "answer", "body", "x", "x"]
    )
    pq.write_table(table, tmp_path / "q.parquet")

    assert len(read("parquet", tmp_path / "q.parquet").queries) == 1
