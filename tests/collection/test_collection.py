import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contents import RECORD_FILES
from freshstack_dspy.collection.writing import write_collection
from freshstack_dspy.errors import CollectionError

from .small import CHUNKS, CONTENTS, A, B, D, files_of, write_small


def message_of(path: Path) -> str:
    with pytest.raises(CollectionError) as caught:
        Collection.load(path)
    message = str(caught.value)

    assert "\n" not in message

    return message


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    written = write_small(tmp_path / "c")
    read = Collection.load(tmp_path / "c")

    assert written == read
    assert read.name == "small"
    assert read.recipe == "freshstack"
    for name in CONTENTS.__dataclass_fields__:
        assert getattr(CONTENTS, name) == getattr(read, name)
    assert sorted(CHUNKS, key=lambda chunk: chunk.chunk_id) == list(read.chunks())
    assert CHUNKS[1] == read.chunk(B)


def test_an_evaluation_uses_the_slices_of_the_manifest_unless_told_otherwise(
    tmp_path: Path,
) -> None:
    collection = write_small(tmp_path / "c")

    assert collection.query_ids() == ("12", "123")
    assert collection.query_ids(("answerable", "unanswerable")) == ("12", "123", "5")
    assert collection.query_ids(()) == ()


def test_a_query_without_nuggets_is_never_evaluated(tmp_path: Path) -> None:
    assert write_small(tmp_path / "c").query_ids(("undetermined",)) == ()


def test_a_slice_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match=r"'answered' is no slice; allowed: supported, all"):
        write_small(tmp_path / "c").query_ids(("answered",))  # type: ignore[arg-type]


def test_a_failed_judgment_is_failed_and_not_a_label_of_0(tmp_path: Path) -> None:
    qrels = write_small(tmp_path / "c").qrels()

    assert qrels.nuggets == {"12": ("12_0", "12_1"), "123": ("123_0",)}
    assert qrels.labels == {"12_0": {A: 1, B: 1}, "12_1": {A: 0, B: 1}, "123_0": {A: 1, B: 0}}
    assert {"12_0": frozenset(), "12_1": frozenset(), "123_0": frozenset({D})} == qrels.failed


def test_qrels_of_other_slices_hold_only_their_queries(tmp_path: Path) -> None:
    qrels = write_small(tmp_path / "c").qrels(("unanswerable",))

    assert qrels.nuggets == {"5": ("5_0",)}
    assert qrels.labels == {"5_0": {A: 0}}


def test_a_chunk_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="there is no chunk 'nowhere'"):
        write_small(tmp_path / "c").chunk("nowhere")


def test_counts_are_of_the_content(tmp_path: Path) -> None:
    counts = write_small(tmp_path / "c").manifest.counts

    assert (
        counts.queries,
        counts.nuggets,
        counts.expansions,
        counts.pool,
        counts.judgments,
        counts.chunks,
        counts.skipped,
        counts.licences,
    ) == (4, 4, 1, 4, 8, 3, {"binary": 1}, 1)
    assert counts.failures == {"support": {"refused": 1}, "nuggets": {"truncated": 1}}
    assert counts.slices == {
        "answerable": 2,
        "partly_supported": 0,
        "unanswerable": 1,
        "undetermined": 1,
    }
    assert counts.rejected == {"no accepted answer": 7}


def test_the_hash_of_a_file_is_that_of_its_bytes_and_the_corpus_that_of_its_rows(
    tmp_path: Path,
) -> None:
    manifest = write_small(tmp_path / "c").manifest
    corpus = "".join(
        json.dumps(
            {
                "chunk_id": chunk.chunk_id,
                "source": chunk.source,
                "path": chunk.path,
                "start_byte": chunk.start_byte,
                "end_byte": chunk.end_byte,
                "text": chunk.text,
                "tokens": chunk.tokens,
                "revision": chunk.revision,
                "encoding": chunk.encoding,
                "title": chunk.title,
                "url": chunk.url,
            },
            ensure_ascii=False,
            separators=(",", ":"),
        )
        + "\n"
        for chunk in (CHUNKS[2], CHUNKS[0], CHUNKS[1])
    )

    for name, digest in manifest.files.items():
        content = (
            corpus.encode() if name == "corpus.parquet" else (tmp_path / "c" / name).read_bytes()
        )

        assert hashlib.sha256(content).hexdigest() == digest


@pytest.mark.parametrize("name", sorted(file.name for file in RECORD_FILES))
def test_any_changed_line_is_noticed(tmp_path: Path, name: str) -> None:
    """The line is still valid JSON of the right type, so only the hash can tell."""
    write_small(tmp_path)
    file = tmp_path / f"{name}.jsonl"
    first, *rest = file.read_bytes().split(b"\n")
    file.write_bytes(b"\n".join((first.replace(b":", b": ", 1), *rest)))

    assert f"{name}.jsonl: not the file that the manifest was written for" in message_of(tmp_path)


def test_a_changed_chunk_is_noticed_when_the_texts_are_read(tmp_path: Path) -> None:
    write_small(tmp_path / "c")
    other = write_small(tmp_path / "other")
    changed = [chunk.model_copy(update={"text": "forged"}) for chunk in other.chunks()]
    write_collection(tmp_path / "other", other, changed, other.manifest)
    (tmp_path / "other" / "corpus.parquet").replace(tmp_path / "c" / "corpus.parquet")
    collection = Collection.load(tmp_path / "c")

    with pytest.raises(CollectionError, match=r"corpus\.parquet: the chunks are not those"):
        next(collection.chunks())
    with pytest.raises(CollectionError, match=r"corpus\.parquet: the chunks are not those"):
        collection.chunk(A)


@pytest.mark.parametrize("name", ["queries.jsonl", "corpus.parquet"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    write_small(tmp_path)
    (tmp_path / name).unlink()

    assert message_of(tmp_path).endswith(f"{name}: the file is missing")


def test_a_folder_without_manifest_is_not_a_collection(tmp_path: Path) -> None:
    assert "not a collection, for it has no manifest.json" in message_of(tmp_path)
    assert "no such collection" in message_of(tmp_path / "nowhere")


@pytest.mark.parametrize("content", [b"PAR1", b"", b"\xff" * 100])
def test_a_corpus_that_is_no_parquet_is_named(tmp_path: Path, content: bytes) -> None:
    write_small(tmp_path)
    (tmp_path / "corpus.parquet").write_bytes(content)

    assert "corpus.parquet: cannot be read as Parquet" in message_of(tmp_path)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"{", "not a Nugget: Invalid JSON"),
        (b"[]", "not a Nugget"),
        (b"\xff", "not a Nugget"),
        (b'{"nugget_id":"x","query_id":"12","text":"","call_id":"k"}', "not a Nugget: text is ''"),
        (
            b'{"nugget_id":"x","query_id":"12","text":"t","call_id":"k","a":1}',
            "not a Nugget: a is 1",
        ),
    ],
)
def test_a_bad_line_is_named_by_file_and_number(tmp_path: Path, line: bytes, fault: str) -> None:
    write_small(tmp_path)
    file = tmp_path / "nuggets.jsonl"
    lines = file.read_bytes().split(b"\n")
    lines[1] = line
    file.write_bytes(b"\n".join(lines))

    assert f"nuggets.jsonl:2: {fault}" in message_of(tmp_path)


def test_a_file_that_was_cut_short_says_so(tmp_path: Path) -> None:
    write_small(tmp_path)
    file = tmp_path / "pool.jsonl"
    file.write_bytes(file.read_bytes()[:-1])

    assert "pool.jsonl: the last line has no end" in message_of(tmp_path)


def edit_manifest(path: Path, edit: Callable[[dict[str, object]], object]) -> None:
    values = json.loads((path / "manifest.json").read_bytes())
    edit(values)
    (path / "manifest.json").write_text(json.dumps(values), encoding="utf-8")


@pytest.mark.parametrize(("version", "age"), [(3, "older"), (5, "newer")])
def test_another_schema_version_says_so(tmp_path: Path, version: int, age: str) -> None:
    """Even where nothing else in the manifest is as this version knows it."""
    (tmp_path / "manifest.json").write_text(f'{{"schema_version": {version}, "news": 1}}')

    assert f"schema version {version} is {age} than 4" in message_of(tmp_path)


def test_a_manifest_that_disagrees_with_its_files_is_refused(tmp_path: Path) -> None:
    write_small(tmp_path)
    edit_manifest(tmp_path, lambda values: values.update(content_hash="0" * 64))

    assert "content_hash is not the hash of the hashes" in message_of(tmp_path)


def test_a_manifest_with_wrong_counts_is_refused(tmp_path: Path) -> None:
    write_small(tmp_path)
    edit_manifest(tmp_path, lambda values: values["counts"].update(judgments=9))  # type: ignore[attr-defined]

    assert "counts are not those of the files" in message_of(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "[" * 100_000, '{"schema_version": 4}', "\ufeff{}"])
def test_a_damaged_manifest_is_one_clean_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content, encoding="utf-8")

    assert "manifest.json: not " in message_of(tmp_path)


def test_reading_changes_nothing(tmp_path: Path) -> None:
    write_small(tmp_path)
    before = files_of(tmp_path)
    list(Collection.load(tmp_path).chunks())

    assert before == files_of(tmp_path)


@pytest.mark.parametrize("name", ["manifest.json", "judgments.jsonl", "corpus.parquet"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_regular_file_is_refused_unopened(tmp_path: Path, name: str, kind: str) -> None:
    write_small(tmp_path / "c")
    path = tmp_path / "c" / name
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")

    assert f"{name}: cannot be read" in message_of(tmp_path / "c")
    assert "not a regular file" in message_of(tmp_path / "c")


@pytest.mark.parametrize("value", ["NaN", "1e999", '"\\ud800"', "9" * 5000])
def test_a_manifest_that_could_not_be_written_again_is_refused(tmp_path: Path, value: str) -> None:
    write_small(tmp_path / "c")
    path = tmp_path / "c" / "manifest.json"
    values = json.loads(path.read_bytes())
    values["config"] = {"odd": "here"}
    path.write_text(json.dumps(values).replace('"here"', value), encoding="utf-8")

    assert "manifest.json: not valid JSON" in message_of(tmp_path / "c")
