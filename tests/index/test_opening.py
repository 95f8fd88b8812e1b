"""What holds of an index on disk: it is opened whole and consistent, or not at all."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.index.manifest import SCHEMA_VERSION, fingerprint
from freshstack_dspy.index.parts import Parts
from freshstack_dspy.index.rows import as_digests, content_sha256, digest_of
from freshstack_dspy.index.settings import IndexedFile, IndexSettings
from freshstack_dspy.text import terms
from tests.index.pieces import GUIDE, SMALL, Letters, files_of, piece, rankings

IN_ORDER = sorted(SMALL, key=lambda chunk: chunk.chunk_id)
NAME = "index"
SETTINGS = IndexSettings(4)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "indexes"


@pytest.fixture
def folder(root: Path) -> Path:
    return HybridIndex.build(root, NAME, SMALL, files=files_of(SMALL), settings=SETTINGS).path


def part(folder: Path, kind: str) -> Path:
    (found,) = folder.glob(f"{kind}-*")
    return found


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_an_index_is_opened_by_its_folder_its_name_or_as_the_only_one(
    root: Path, folder: Path
) -> None:
    opened = [HybridIndex.open(folder), HybridIndex.open(root), HybridIndex.open(root, name=NAME)]

    assert {index.path for index in opened} == {folder}


def test_several_indexes_are_listed(root: Path, folder: Path) -> None:
    other = HybridIndex.build(root, "another", [GUIDE]).path

    with pytest.raises(IndexingError, match=", ".join([other.name, folder.name])):
        HybridIndex.open(root)


@pytest.mark.parametrize("name", [None, "other"])
def test_a_missing_index_is_said_to_be_missing(tmp_path: Path, name: str | None) -> None:
    with pytest.raises(IndexingError, match="no index here"):
        HybridIndex.open(tmp_path / "nowhere", name=name)


def test_what_the_caller_told_comes_back(root: Path) -> None:
    chunks = [chunk.model_copy(update={"revision": "c0ffee"}) for chunk in SMALL]
    files = files_of(chunks)

    HybridIndex.build(root, NAME, chunks, files=files[::-1], cut_by="512 tokens")

    index = HybridIndex.open(root)
    assert index.cut_by == "512 tokens"
    assert index.revisions == {"repo": "c0ffee"}
    assert index.files() == sorted(files)
    assert all(isinstance(file, IndexedFile) for file in index.files())


def test_the_numbers_of_an_index_are_its_own(root: Path) -> None:
    index = HybridIndex.build(root, NAME, SMALL, settings=SETTINGS, embedders=[Letters()])

    stats = index.stats()

    assert (stats.chunks, stats.files, stats.sources) == (6, 0, {"repo": None})
    assert stats.tokens == sum(chunk.tokens for chunk in SMALL)
    assert stats.terms == len({term for c in SMALL for term in terms(f"{c.path}\n{c.text}")})
    assert [(each.name, each.dimensions, each.search) for each in stats.vectors] == [
        ("lsa", 4, "exact"),
        ("letters", 10, "exact"),
    ]
    assert stats.bytes.keys() == {"table", "rows", "bm25", "lsa"}
    assert all(size > 0 for size in stats.bytes.values())
    assert stats.fingerprint == index.fingerprint


@pytest.mark.parametrize("kind", ["bm25", "lsa", "rows"])
def test_a_changed_or_missing_stamp_is_detected(folder: Path, kind: str) -> None:
    (part(folder, kind) / "stamp").write_text("other table-1 7\n")
    with pytest.raises(IndexingError, match=r"made from 'other table-1 7', not .* build it again"):
        HybridIndex.open(folder)

    (part(folder, kind) / "stamp").unlink()
    with pytest.raises(IndexingError, match=r"no readable stamp.*build it again"):
        HybridIndex.open(folder)


def test_a_part_of_another_corpus_is_detected(root: Path, folder: Path) -> None:
    """Both are built from version 1 of their tables, so the version alone would not tell."""
    other = HybridIndex.build(root, "other", [GUIDE]).path
    place = part(folder, "bm25")
    shutil.rmtree(place)
    shutil.copytree(part(other, "bm25"), place)

    with pytest.raises(IndexingError, match="build it again"):
        HybridIndex.open(folder)


def test_a_file_that_asks_for_all_memory_is_a_damaged_one(folder: Path) -> None:
    parts = Parts.open(folder)
    with pytest.raises(IndexingError, match="a damaged index"), parts.damage_told():
        raise MemoryError
    parts.close()

    with (part(folder, "rows") / "ids.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "|u1", "fortran_order": False, "shape": (10**13,)}
        )
    with pytest.raises(IndexingError, match=r"ids\.npy has \d+ bytes in place of 100000000\d+"):
        HybridIndex.open(folder)


def test_a_table_changed_by_others_is_read_as_it_was(folder: Path) -> None:
    """The manifest names the version; what others did on top is undone by the next update."""
    import lancedb

    before = rankings(HybridIndex.open(folder), ["server", "name"])
    table = lancedb.connect(part(folder, "table")).open_table("chunks")
    table.delete(f"chunk_id = '{GUIDE.chunk_id}'")

    assert rankings(HybridIndex.open(folder), ["server", "name"]) == before
    chunks = [*SMALL, piece("new.md", "zebra"), *(piece(f"n{n}", "word") for n in range(9))]
    HybridIndex.build(folder.parent, NAME, chunks, files=files_of(chunks))
    table = lancedb.connect(part(folder, "table")).open_table("chunks")
    table.delete("true")
    index, _ = HybridIndex.update(
        folder.parent, NAME, [], files=files_of(chunks[1:]), revisions={"repo": None}
    )
    assert len(list(index.chunks())) == len(chunks) - 1


def test_a_text_that_was_exchanged_is_detected(folder: Path) -> None:
    import lancedb
    import pyarrow as pa

    table = lancedb.connect(part(folder, "table")).open_table("chunks")
    data = table.to_arrow()
    place = data.schema.get_field_index("text")
    texts = pa.array(["forged"] * len(data), pa.large_string())
    forged = data.set_column(place, data.schema.field(place), texts)
    shutil.rmtree(part(folder, "table") / "chunks.lance")
    lancedb.connect(part(folder, "table")).create_table("chunks", data=forged)

    with pytest.raises(IndexingError, match="is not what was indexed"):
        HybridIndex.open(folder).chunk(GUIDE.chunk_id)


def test_the_table_holds_the_hashes_of_contents_and_files(folder: Path) -> None:
    import lancedb

    data = lancedb.connect(part(folder, "table")).open_table("chunks").to_arrow().to_pylist()

    assert [row["content_sha256"] for row in data] == [
        hashlib.sha256(row["text"].encode()).hexdigest() for row in data
    ]
    assert {(row["path"], row["file_sha256"]) for row in data} == {
        (file.path, file.sha256) for file in files_of(SMALL)
    }
    assert "revision" not in data[0]


@pytest.mark.parametrize("version", [1, 99])
def test_another_schema_version_is_named_and_built_again(folder: Path, version: int) -> None:
    change(folder / "meta.json", schema_version=version)

    with pytest.raises(
        IndexingError, match=f"version {version},.*version {SCHEMA_VERSION}; .*build"
    ):
        HybridIndex.open(folder)
    assert len(HybridIndex.build_or_open(folder.parent, NAME, SMALL)) == len(SMALL)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"schema_version": 3}', "\x00", "null", "[" * 100_000]
)
def test_a_damaged_manifest_is_named(folder: Path, content: str) -> None:
    (folder / "meta.json").write_text(content)

    with pytest.raises(IndexingError, match=r"meta\.json: not the manifest of an index"):
        HybridIndex.open(folder)


@pytest.mark.parametrize("name", ["../../elsewhere", "/etc", "table-1/../../x"])
def test_a_manifest_cannot_lead_out_of_its_folder(folder: Path, name: str) -> None:
    change(folder / "meta.json", table=name)

    with pytest.raises(IndexingError, match="not the manifest of an index"):
        HybridIndex.open(folder)


def test_a_truncated_or_missing_file_is_noticed_or_does_no_harm(folder: Path) -> None:
    """Every file in turn, in both ways; Lance keeps some that it does not need for reading."""
    expected = rankings(HybridIndex.open(folder), ["server", "user name"])
    harmless, messages = set(), []
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    for path in sorted(files):
        content = path.read_bytes()
        for damaged in (content[: len(content) // 2], None):
            path.unlink()
            if damaged is not None:
                path.write_bytes(damaged)
            try:
                index = HybridIndex.open(folder)
                chunks, found = list(index.chunks()), rankings(index, ["server", "user name"])
                assert index.files() == files_of(SMALL)
            except IndexingError as error:
                messages.append(str(error))
            else:
                assert chunks == IN_ORDER
                assert found == expected
                harmless.add("/".join(path.relative_to(folder).parts[:-1]))
            path.unlink(missing_ok=True)
            path.write_bytes(content)

    assert not [message for message in messages if "\n" in message]
    assert {place.partition("-")[0] + place.partition("-1")[2] for place in harmless} <= {
        "table/chunks.lance/_transactions",
        "table/chunks.lance/_versions",
        "bm25",  # the parameters that bm25s writes down, and the counts that only updates need
        "rows",
        "lsa",
        "table",
    }


@pytest.mark.parametrize(
    "name",
    [
        "lsa-1/idf.npy",
        "lsa-1/directions.npy",
        "bm25-1/data.csc.index.npy",
        "bm25-1/counts.npy",
        "rows-1/row_ids.npy",
    ],
)
def test_nothing_is_unpickled(folder: Path, tmp_path: Path, name: str) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "sprung",)

    np.save(folder / name, np.array([Trap()] * 1000, dtype=object), allow_pickle=True)

    def use() -> None:
        HybridIndex.open(folder).search("hybrid", ["server"], 3)
        HybridIndex.update(
            folder.parent, NAME, [], files=files_of(SMALL[1:]), revisions={"repo": None}
        )

    with pytest.raises(IndexingError, match="damaged"):
        use()
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: shutil.rmtree(part(folder, "table")),
        lambda folder: shutil.rmtree(part(folder, "lsa")),
        lambda folder: (folder / "meta.json").write_text("{}"),
        lambda folder: (part(folder, "bm25") / "indptr.csc.index.npy").write_bytes(b""),
    ],
)
def test_a_damaged_index_is_built_anew(folder: Path, damage: Callable[[Path], Any]) -> None:
    damage(folder)

    index = HybridIndex.build_or_open(folder.parent, NAME, SMALL, settings=SETTINGS)

    assert index.path == folder
    assert list(HybridIndex.open(folder).chunks()) == IN_ORDER


def test_the_fingerprint_of_a_known_corpus_stands() -> None:
    """A new value here makes every index on every disk be built again: mean it."""
    chunk = piece("a.py", "text", revision="c0ffee")

    known = fingerprint(as_digests([digest_of(chunk, content_sha256(chunk))]), 256)

    assert known == "8e1d84e268ea715a7e9a61e21226e2e02773ba65982d6b549e99fccd92cc1099"


def test_the_terms_of_this_schema_version_stand() -> None:
    """Indexes on disk hold the terms of their day: with other terms, raise SCHEMA_VERSION."""
    assert SCHEMA_VERSION == 3
    assert " ".join(terms("Indexing getUserName of user_table in os.path: naïve, HTTP2")) == (
        "index get user name getusername user tabl user_table os path os.path naïv http 2 http2"
    )


def test_an_index_whose_terms_another_stemmer_cut_is_built_again(folder: Path, root: Path) -> None:
    """Its rows would not be found by the terms that queries are cut into now."""
    change(folder / "meta.json", terms_by="PyStemmer 2.0, Unicode 9.0")

    with pytest.raises(IndexingError, match=r"cut by PyStemmer 2\.0.*build it again"):
        HybridIndex.open(folder)

    again = HybridIndex.build_or_open(root, NAME, SMALL, files=files_of(SMALL), settings=SETTINGS)
    fresh = HybridIndex.build(root, "fresh", SMALL, settings=SETTINGS)
    assert rankings(again, ["read a file"]) == rankings(fresh, ["read a file"])
