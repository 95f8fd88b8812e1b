"""Chunks as Parquet: sorted in bounded memory, written as a stream, found by id."""

import random
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy import Chunk
from freshstack_dspy.corpus.parquet import (
    ROWS,
    ChunkFile,
    batches_of,
    chunk_schema,
    merged,
    sorted_batches,
    write_chunks,
)
from freshstack_dspy.errors import CollectionError

ASTRAL = ("é", "\uffff", "😀", "a_0", "a.b_0")
"""UTF-16 would order some of these otherwise."""


def chunk(number: int, name: str = "") -> Chunk:
    return Chunk(
        chunk_id=name or f"s/{number:05}_0_4",
        source="s",
        path=f"{number:05}",
        start_byte=0,
        end_byte=4,
        text=f"text {number}",
        tokens=number % 7,
        headings=("One", "Two")[: number % 3],
        revision="r",
    )


def write(path: Path, chunks: list[Chunk], run_bytes: int = 1 << 20) -> ChunkFile:
    write_chunks(path, sorted_batches(batches_of(chunks), path.parent, run_bytes))
    return ChunkFile(path)


CHUNKS = [*(chunk(number) for number in range(3000)), *(chunk(0, name) for name in ASTRAL)]
IN_ORDER = sorted(CHUNKS, key=lambda one: one.chunk_id)


def test_chunks_in_any_order_come_back_in_that_of_their_ids(tmp_path: Path) -> None:
    mixed = random.Random(3).sample(CHUNKS, len(CHUNKS))

    file = write(tmp_path / "a.parquet", mixed, run_bytes=100_000)
    at_once = ChunkFile.holding(mixed)

    assert list(file) == IN_ORDER == list(at_once)
    assert list(file.ids) == [one.chunk_id for one in IN_ORDER]
    assert [*tmp_path.iterdir()] == [tmp_path / "a.parquet"]
    assert (tmp_path / "a.parquet").read_bytes() == at_once.place.to_pybytes()  # type: ignore[union-attr]


def test_a_chunk_is_found_by_its_id_and_only_its_row_group_is_read(tmp_path: Path) -> None:
    file = write(tmp_path / "a.parquet", CHUNKS)
    place = file.ids.row("s/02999_0_4")
    groups = pq.ParquetFile(tmp_path / "a.parquet").metadata.num_row_groups
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    start = pq.ParquetFile(tmp_path / "a.parquet").metadata.row_group(0).column(5).data_page_offset
    data[start : start + 50] = bytes(50)  # of the texts of the first group
    (tmp_path / "b.parquet").write_bytes(data)
    broken = ChunkFile(tmp_path / "b.parquet")

    assert place is not None
    assert groups == 3 == -(-len(CHUNKS) // ROWS)
    wanted = ["s/02999_0_4", "s/00001_0_4", "😀"]
    assert list(file.chunks(wanted).items()) == [
        (chunk_id, next(one for one in CHUNKS if one.chunk_id == chunk_id)) for chunk_id in wanted
    ]
    assert file.chunk("a.b_0").chunk_id == "a.b_0"
    assert pq.read_table(tmp_path / "a.parquet").schema == chunk_schema()
    assert [broken.chunk(one.chunk_id) for one in IN_ORDER[-3:]] == IN_ORDER[-3:]
    with pytest.raises(CollectionError, match=r"b\.parquet: cannot be read as Parquet"):
        broken.chunk(IN_ORDER[0].chunk_id)


def test_reading_all_chunks_takes_as_much_memory_for_many_as_for_few(tmp_path: Path) -> None:
    drawn = random.Random(1)
    texts = [drawn.randbytes(200).hex() for _ in range(8 * ROWS)]
    chunks = [chunk(number).model_copy(update={"text": text}) for number, text in enumerate(texts)]

    def most(groups: int) -> float:
        file = write(tmp_path / "a.parquet", chunks[: groups * ROWS])
        before = pa.total_allocated_bytes()
        return float(max(pa.total_allocated_bytes() - before for _ in file.batches()))

    assert most(8) < 1.2 * most(2)


def test_ids_are_a_set_that_tells_which_it_lacks(tmp_path: Path) -> None:
    file = write(tmp_path / "a.parquet", CHUNKS)

    assert [each in file.ids for each in ("😀", "s/00007_0_4", "", "s/00007", "\udc80", 3)] == [
        *[True] * 2,
        *[False] * 4,
    ]
    assert {"😀", "none", "\udc80"} - file.ids == {"none", "\udc80"}
    assert set() - file.ids == set()
    with pytest.raises(CollectionError, match=r"a\.parquet: there is no chunk 'none'"):
        file.chunk("none")


def test_a_file_without_languages_is_one_of_before_there_were_any(tmp_path: Path) -> None:
    new = ChunkFile.holding([chunk(2), chunk(1)])
    table = pq.read_table(pa.BufferReader(new.place)).drop_columns("language")
    pq.write_table(table, tmp_path / "old.parquet")

    old = ChunkFile(tmp_path / "old.parquet")

    assert list(old) == list(new)
    assert old.chunk(chunk(1).chunk_id) == chunk(1)
    assert old.sums == new.sums
    assert next(old.batches()).schema == chunk_schema()


def test_two_chunks_of_one_id_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="chunk 's/00001_0_4' is there twice"):
        write(tmp_path / "a.parquet", [chunk(1), chunk(0), chunk(1)])


def test_no_chunks_are_a_file_without_rows(tmp_path: Path) -> None:
    file = write(tmp_path / "a.parquet", [])

    assert (list(file), len(file), list(file.ids), "a" in file.ids) == ([], 0, [], False)


def test_what_is_known_of_all_chunks_depends_on_no_batch(tmp_path: Path) -> None:
    whole = pa.Table.from_batches(batches_of(IN_ORDER))

    sums = {
        write_chunks(
            tmp_path / "a.parquet", (whole.slice(at, size) for at in range(0, 3005, size))
        )[1:].__repr__()
        for size in (50, 700, 5000)
    }
    counts = write_chunks(tmp_path / "a.parquet", [whole])

    assert len(sums) == 1
    assert ChunkFile(tmp_path / "a.parquet").sums == counts == ChunkFile.holding(CHUNKS).sums
    assert (counts.chunks, counts.revisions) == (len(CHUNKS), {"s": "r"})
    assert counts.tokens == sum(one.tokens for one in CHUNKS)


@given(st.lists(st.lists(st.text(max_size=3), max_size=20), max_size=5), st.integers(1, 4))
def test_merging_is_sorting(runs: list[list[str]], size: int) -> None:
    def batches(run: list[str]) -> list[pa.RecordBatch]:
        left = iter(sorted(run))
        batch = iter(lambda: list(islice(left, size)), [])
        return [pa.record_batch({"chunk_id": pa.array(ids, pa.string())}) for ids in batch]

    found = [
        id_ for table in merged([*map(batches, runs)]) for id_ in table["chunk_id"].to_pylist()
    ]

    assert found == sorted(id_ for run in runs for id_ in run)
