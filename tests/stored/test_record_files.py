"""Many records are in Parquet: the same collection, in other bytes on disk."""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy import Collection
from freshstack_dspy.collection.diff import difference
from freshstack_dspy.collection.explain import explain
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.formats.validate import validate
from freshstack_dspy.records import (
    TECHNIQUES,
    Candidate,
    Found,
    Judgment,
    Relevance,
    Status,
    TechniqueRank,
    Vote,
)
from freshstack_dspy.stored import record_files
from freshstack_dspy.stored.record_files import (
    RECORD_FILES,
    RecordFile,
    records_of,
    repeated,
    rows,
    tally,
)
from freshstack_dspy.stored.writing import call_ids_of
from freshstack_dspy.views.queries import query_page
from tests.collection.small import CONTENTS, A, B, files_of, write_small

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBER = st.integers(0, 2**40)
SPANS = st.lists(st.tuples(NUMBER, NUMBER), max_size=2).map(tuple)
STATUS = st.sampled_from(get_args(Status))
VOTE = st.builds(
    Vote,
    vote=st.integers(1, 3),
    label=st.none() | NUMBER,
    status=STATUS,
    reason=TEXT,
    call_id=st.none() | TEXT,
    evidence=SPANS,
)
JUDGMENT = st.builds(
    lambda label, **fields: Judgment(
        label=label, status="ok" if label is not None else "failed", **fields
    ),
    query_id=st.sampled_from(["1", "10", "2", "é\U0001f642"]),
    nugget_id=TEXT,
    chunk_id=TEXT,
    label=st.none() | NUMBER,
    reason=TEXT,
    call_id=st.none() | TEXT,
    same_as=st.none() | TEXT,
    evidence=SPANS,
    votes=st.lists(VOTE, max_size=2).map(tuple),
)
TECHNIQUE = st.sampled_from(TECHNIQUES)
RANKS = st.lists(st.builds(TechniqueRank, technique=TECHNIQUE, rank=st.integers(1, 99)), max_size=2)
CANDIDATE = st.builds(
    Candidate,
    query_id=st.sampled_from(["1", "10", "2"]),
    chunk_id=TEXT,
    pooled_by=RANKS.map(tuple),
    ranked_below=RANKS.map(tuple),
    found_by=st.lists(
        st.builds(Found, technique=TECHNIQUE, retriever=TEXT, rank=st.integers(1, 99)), max_size=2
    ).map(tuple),
    lost_without=st.lists(TEXT, max_size=2).map(tuple),
    relevance=st.none() | st.builds(Relevance, grade=st.integers(0, 3), reason=TEXT, call_id=TEXT),
)
POOL, JUDGMENTS = (
    next(one for one in RECORD_FILES if one.name == n) for n in ("pool", "judgments")
)


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups of three records."""
    monkeypatch.setattr(record_files, "MANY", -1)
    monkeypatch.setattr(record_files, "_ROWS", 3)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, int], Collection]:
    def write(path: Path, many: int) -> Collection:
        monkeypatch.setattr(record_files, "MANY", many)
        voted = Vote(vote=1, label=1, status="ok", reason="r", call_id="k8", evidence=((1, 2),))
        other = replace(voted, vote=2, label=0, call_id="k9")
        changes = {"votes": (voted, other), "evidence": ((0, 2),), "same_as": B}
        first, *others = CONTENTS.judgments
        judgments = first.model_copy(update=changes), *others
        graded = Relevance(grade=2, reason="r", call_id="k7")
        best, *rest = CONTENTS.pool
        pool = best.model_copy(update={"relevance": graded}), *rest
        write_small(path, replace(CONTENTS, judgments=judgments, pool=pool))
        return Collection.load(path)

    return write


@given(st.sampled_from([(POOL, CANDIDATE), (JUDGMENTS, JUDGMENT)]), st.data())
def test_parquet_gives_the_records_that_were_written(
    tmp_path_factory: pytest.TempPathFactory,
    kind: tuple[RecordFile, st.SearchStrategy[Any]],
    data: st.DataObject,
) -> None:
    file, one = kind
    records: Sequence[Any] = file.sort(data.draw(st.lists(one, max_size=8)))
    path = tmp_path_factory.mktemp("records")
    file.write(path, records)
    read: Any = file.open(path)
    fields = [*file.record.model_fields]

    assert read.sha256() == record_files.lines_sha256(records)
    assert (len(read), tuple(read), read[1:3]) == (len(records), records, records[1:3])
    assert read == records == read
    assert [*rows(read, *fields)] == [*rows(records, *fields)]
    for names in (file.order, file.order[:1], ("chunk_id", fields[4])):
        assert tally(read, *names) == tally(records, *names)
    assert [*repeated(read, *file.order)] == [*repeated(records, *file.order)]
    for query_id in ("1", "10", "2", "none"):
        assert [*records_of(read, query_id)] == [*records_of(records, query_id)]


def test_a_field_that_an_earlier_version_did_not_write_is_empty(tmp_path: Path) -> None:
    JUDGMENTS.write(tmp_path, CONTENTS.judgments)
    path = JUDGMENTS.path(tmp_path)
    table = pq.read_table(path, memory_map=False)
    pq.write_table(table.drop_columns("followed_from"), tmp_path / "old.parquet")
    (tmp_path / "old.parquet").replace(path)

    read = JUDGMENTS.open(tmp_path)

    assert [*rows(read, "chunk_id", "followed_from")] == [
        (one.chunk_id, None) for one in CONTENTS.judgments
    ]
    assert tally(read, "followed_from") == {(None,): len(CONTENTS.judgments)}


def test_both_forms_are_one_collection(
    tmp_path: Path, written: Callable[[Path, int], Collection]
) -> None:
    lines, table = written(tmp_path / "lines", 99), written(tmp_path / "table", 3)
    run = {"12": {A: 1.0, B: 0.5}, "123": {B: 1.0}}

    assert "judgments.parquet" in files_of(tmp_path / "table")
    assert "judgments.jsonl" not in files_of(tmp_path / "table")
    assert lines == table == lines
    assert pickle.loads(pickle.dumps(table)) == table
    assert (lines.manifest, hash(lines)) == (table.manifest, hash(table))
    assert lines.qrels() == table.qrels()
    of_lines, of_table = (each.evaluate(run, "nDCG@10", "Recall@1") for each in (lines, table))
    assert of_lines.model_dump() == of_table.model_dump()
    assert lines.diagnose().model_dump() == table.diagnose().model_dump()
    assert query_page(lines, "12").data == query_page(table, "12").data
    assert explain(lines, "12", A) == explain(table, "12", A)
    assert call_ids_of(lines) == call_ids_of(table) > {"k7", "k8", "k9"}
    assert not difference(lines, table, lines.corpus, table.corpus).changes
    assert validate(tmp_path / "table") == validate(tmp_path / "lines")
    assert validate(tmp_path / "table").faults == ()
    again = table.save(tmp_path / "again")
    assert files_of(tmp_path / "again") == files_of(tmp_path / "table")
    assert again == table


@pytest.mark.parametrize("many", [99, 3])
def test_a_collection_that_is_replaced_stays_what_it_was_loaded_as(
    tmp_path: Path, written: Callable[[Path, int], Collection], many: int
) -> None:
    before = written(tmp_path / "c", many)
    write_small(tmp_path / "c", replace(CONTENTS, pool=(), failures=()))

    assert before == written(tmp_path / "other", many)


@pytest.mark.parametrize(
    ("file", "column", "fault"),
    [("judgments", "label", "is missing"), ("corpus", "tokens", "is of type large_string")],
)
def test_parquet_with_other_columns_is_one_line(
    tmp_path: Path,
    written: Callable[[Path, int], Collection],
    file: str,
    column: str,
    fault: str,
) -> None:
    written(tmp_path / "c", 3)
    path = tmp_path / f"c/{file}.parquet"
    table = pq.read_table(path)
    left = table.drop_columns(column)
    if fault != "is missing":
        left = left.append_column(column, table[column].cast(pa.large_string()))
    pq.write_table(left, path)

    faults = validate(tmp_path / "c").faults

    assert any(f"{file}.parquet: its column {column} {fault}, and" in line for line in faults)
    with pytest.raises(CollectionError, match=f"its column {column} {fault}"):
        list(Collection.load(tmp_path / "c").chunks())


@pytest.mark.parametrize(
    ("column", "value", "fault"),
    [
        ("label", -1, "label: "),
        ("label", None, "a judgment has a label if and only if its status is ok"),
        ("status", "fine", "status: Input should be"),
        ("reason", None, "reason: "),
    ],
)
def test_a_damaged_file_is_one_line(
    tmp_path: Path,
    written: Callable[[Path, int], Collection],
    column: str,
    value: object,
    fault: str,
) -> None:
    written(tmp_path / "c", 3)
    path = tmp_path / "c/judgments.parquet"
    table = pq.read_table(path)
    values = table[column].to_pylist()
    values[3] = value
    place = table.schema.get_field_index(column)
    field = table.schema.field(column)
    pq.write_table(table.set_column(place, field, pa.array(values, field.type)), path)
    (tmp_path / "c/pool.parquet").write_bytes(b"PAR1")

    faults = "\n".join(validate(tmp_path / "c").faults)

    assert "judgments.parquet: '12', '12_1'" in faults
    assert f"not a Judgment: {fault}" in faults
    assert "pool.parquet: cannot be read as Parquet" in faults
    with pytest.raises(CollectionError, match=r"pool\.parquet: cannot be read"):
        Collection.load(tmp_path / "c")
