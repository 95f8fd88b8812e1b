"""What holds of an index on disk: it is opened whole and consistent, or not at all."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index import HybridIndex
from freshstack_dspy.index.manifest import SCHEMA_VERSION, fingerprint
from freshstack_dspy.index.table import read_table, write_table
from freshstack_dspy.terms import terms
from tests.index.pieces import GUIDE, SMALL, piece

IN_ORDER = sorted(SMALL, key=lambda chunk: chunk.chunk_id)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "indexes"


@pytest.fixture
def folder(root: Path) -> Path:
    return HybridIndex.build(root, SMALL, dimensions=4).path


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_an_index_is_opened_by_its_folder_or_the_only_one_in_a_folder(
    root: Path, folder: Path
) -> None:
    assert HybridIndex.open(folder).fingerprint == HybridIndex.open(root).fingerprint


def test_several_indexes_are_listed(root: Path, folder: Path) -> None:
    other = HybridIndex.build(root, [GUIDE]).path

    with pytest.raises(IndexingError, match=", ".join(sorted([folder.name, other.name]))):
        HybridIndex.open(root)


def test_a_missing_index_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(IndexingError, match="no index here"):
        HybridIndex.open(tmp_path / "nowhere")


@pytest.mark.parametrize("part", ["bm25", "lsa"])
def test_a_changed_stamp_is_detected(folder: Path, part: str) -> None:
    change(folder / part / "stamp.json", table_version=7)

    with pytest.raises(IndexingError, match=r"version 7 .* build it again"):
        HybridIndex.open(folder)


def test_a_missing_stamp_is_detected(folder: Path) -> None:
    (folder / "bm25" / "stamp.json").unlink()

    with pytest.raises(IndexingError, match=r"no readable stamp.*build it again"):
        HybridIndex.open(folder)


def test_a_part_of_another_corpus_is_detected(root: Path, folder: Path) -> None:
    """Both are built from version 1 of their tables, so the version alone would not tell."""
    other = HybridIndex.build(root, [GUIDE], dimensions=4).path
    shutil.rmtree(folder / "bm25")
    shutil.copytree(other / "bm25", folder / "bm25")

    with pytest.raises(IndexingError, match=f"of table '{other.name}'"):
        HybridIndex.open(folder)


def test_a_table_changed_since_is_detected(folder: Path) -> None:
    import lancedb

    lancedb.connect(folder).open_table("chunks").delete(f"chunk_id = '{GUIDE.chunk_id}'")

    with pytest.raises(IndexingError, match=r"the table here is version 2 .* build it again"):
        HybridIndex.open(folder)


def test_a_table_written_anew_is_detected(folder: Path) -> None:
    """Its version and size are right; only its content is not."""
    rows = read_table(folder)
    chunks = [chunk.model_copy(update={"text": "forged"}) for chunk in rows.chunks]
    shutil.rmtree(folder / "chunks.lance")
    assert write_table(folder, chunks, rows.vectors) == rows.version

    with pytest.raises(IndexingError, match="parts of this index do not match"):
        HybridIndex.open(folder)


def test_the_table_holds_a_hash_of_each_content(folder: Path) -> None:
    import hashlib

    import lancedb

    data = lancedb.connect(folder).open_table("chunks").to_arrow().to_pylist()

    assert [row["content_sha256"] for row in data] == [
        hashlib.sha256(row["text"].encode()).hexdigest() for row in data
    ]


def test_another_schema_version_is_named(folder: Path) -> None:
    change(folder / "meta.json", schema_version=99)

    with pytest.raises(IndexingError, match=f"schema version 99.*version {SCHEMA_VERSION};"):
        HybridIndex.open(folder)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"schema_version": 1}', "\x00", "null"])
def test_a_damaged_manifest_is_named(folder: Path, content: str) -> None:
    (folder / "meta.json").write_text(content)

    with pytest.raises(IndexingError, match=r"meta\.json: not the manifest of an index"):
        HybridIndex.open(folder)


def test_a_truncated_or_missing_file_is_noticed_or_does_no_harm(folder: Path) -> None:
    """Every file in turn, in both ways; Lance keeps some that it does not need for reading."""
    harmless, messages = set(), []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        for damaged in (content[: len(content) // 2], None):
            path.unlink()
            if damaged is not None:
                path.write_bytes(damaged)
            try:
                chunks = list(HybridIndex.open(folder).chunks())
            except IndexingError as error:
                messages.append(str(error))
            else:
                assert chunks == IN_ORDER
                harmless.add(path.relative_to(folder).parts[:2])
            path.write_bytes(content)

    assert not [message for message in messages if "\n" in message]
    assert harmless <= {("chunks.lance", "_transactions"), ("chunks.lance", "_versions")}


@pytest.mark.parametrize("name", ["lsa/idf.npy", "lsa/directions.npy", "bm25/data.csc.index.npy"])
def test_nothing_is_unpickled(folder: Path, tmp_path: Path, name: str) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "sprung",)

    np.save(folder / name, np.array([Trap()], dtype=object), allow_pickle=True)

    with pytest.raises(IndexingError, match="damaged"):
        HybridIndex.open(folder)
    assert not (tmp_path / "sprung").exists()


def test_a_damaged_index_is_built_anew(root: Path, folder: Path) -> None:
    change(folder / "bm25" / "stamp.json", table_version=7)

    assert HybridIndex.build_or_open(root, SMALL, dimensions=4).path == folder
    assert len(HybridIndex.open(folder)) == len(SMALL)


def test_the_fingerprint_of_a_known_corpus_stands() -> None:
    """A new value here makes every index on every disk be built again: mean it."""
    known = fingerprint([piece("a.py", "text", revision="c0ffee")], 256)

    assert known == "972422f98bbfe738287746c9b4c8337eb5429000f53bce46421ae531955b04f7"


def test_the_terms_of_this_schema_version_stand() -> None:
    """Indexes on disk hold the terms of their day: with other terms, raise SCHEMA_VERSION."""
    assert SCHEMA_VERSION == 1
    assert " ".join(terms("Indexing getUserName of user_table in os.path: naïve, HTTP2")) == (
        "index get user name getusername user tabl user_table os path os.path naïv http 2 http2"
    )
