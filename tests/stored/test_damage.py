"""A file of a collection that is not the one that was written is found when it is read."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from freshstack_dspy import Collection, export_collection
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.formats.validate import validate
from freshstack_dspy.stored import record_files
from tests.collection import small
from tests.collection.small import write_small


def read_all(folder: Path) -> None:
    collection = Collection.load(folder)
    small.read_all(collection)
    list(collection.chunks())


def replaced(old: bytes, new: bytes) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        data = path.read_bytes()

        assert data.count(old)
        path.write_bytes(data.replace(old, new, 1))

    return change


def swapped(path: Path) -> None:
    table = pq.read_table(path)
    names = ["nugget_id" if name == "query_id" else name for name in table.column_names]
    names[1] = "query_id"
    pq.write_table(table.rename_columns(names).select(table.column_names), path)


def doubled(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table, table.slice(0, 1)]), path)


def emptied(path: Path) -> None:
    pq.write_table(pq.read_table(path).slice(0, 0), path)


def one_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("judgments.jsonl", replaced(b'"label":0', b'"label":1')),
        ("queries.jsonl", replaced(b"It fails.", b"It falls.")),
        ("manifest.json", replaced(b'"threshold": 1', b'"threshold": 2')),
        ("corpus.parquet", one_bit),
        ("corpus.parquet", emptied),
        ("judgments.parquet", one_bit),
        ("judgments.parquet", swapped),
        ("judgments.parquet", doubled),
        ("judgments.parquet", emptied),
    ],
)
def test_a_changed_file_is_named_and_nothing_is_computed_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[Path], None]
) -> None:
    if name == "judgments.parquet":
        monkeypatch.setattr(record_files, "MANY", 3)
    write_small(tmp_path / "c")
    read_all(tmp_path / "c")
    change(tmp_path / "c" / name)

    with pytest.raises(CollectionError, match=name):
        read_all(tmp_path / "c")
    with pytest.raises(CollectionError, match=name):
        export_collection(Collection.load(tmp_path / "c"), "beir", tmp_path / "e")


def test_a_collection_without_sums_is_read(tmp_path: Path) -> None:
    write_small(tmp_path / "c")
    (tmp_path / "c/SHA256SUMS").unlink()

    read_all(tmp_path / "c")
    assert validate(tmp_path / "c").faults == ()


def test_rows_that_share_a_huge_value_are_not_decoded(tmp_path: Path) -> None:
    write_small(tmp_path / "c")
    (tmp_path / "c/SHA256SUMS").unlink()
    path = tmp_path / "c/corpus.parquet"
    row = pq.read_table(path).slice(0, 1)
    rows = pa.concat_tables([row] * 8000).combine_chunks()
    text = pa.array(["x" * (1 << 20)], pa.string())
    shared = pa.DictionaryArray.from_arrays(pa.array([0] * 8000, pa.int8()), text)
    rows = rows.set_column(rows.schema.get_field_index("text"), "text", shared)
    pq.write_table(rows, path, store_schema=False, compression="zstd")

    assert path.stat().st_size < 200_000
    with pytest.raises(CollectionError, match="unpacks to far more"):
        list(Collection.load(tmp_path / "c").chunks())


def test_text_that_is_not_utf8_and_a_label_below_zero_are_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_files, "MANY", 3)
    write_small(tmp_path / "c")
    (tmp_path / "c/SHA256SUMS").unlink()
    shutil.copytree(tmp_path / "c", tmp_path / "d")
    table = pq.read_table(tmp_path / "c/judgments.parquet")
    labels = pa.array([-5] * len(table), pa.int64())
    column = table.schema.get_field_index("label")
    pq.write_table(
        table.set_column(column, table.schema.field("label"), labels),
        tmp_path / "c/judgments.parquet",
    )
    broken = pa.array([b"\xff"] * len(table)).view(pa.string())
    column = table.schema.get_field_index("reason")
    pq.write_table(
        table.set_column(column, table.schema.field("reason"), broken),
        tmp_path / "d/judgments.parquet",
    )

    with pytest.raises(CollectionError, match="'label': not a Judgment"):
        Collection.load(tmp_path / "c").qrels()
    with pytest.raises(CollectionError, match=r"judgments\.parquet"):
        list(Collection.load(tmp_path / "d").judgments)
