"""What holds for every format."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.exports import FORMATS, ExportFormat, export_collection
from freshstack_dspy.collection.writing import write_collection
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.records import SliceName
from tests.collection.exports.odd import ODD_IDS, write_odd
from tests.collection.small import CHUNKS, CONTENTS, PROVENANCE, files_of, write_small

EVERY: tuple[ExportFormat, ...] = get_args(ExportFormat)
each_format = pytest.mark.parametrize("format_", EVERY)

STALLING = """
import sys
from freshstack_dspy.collection import Collection, export_collection

class Stalling(Collection):
    def chunks(self):
        for chunk in super().chunks():
            yield chunk
            print("half", flush=True)
            sys.stdin.read()

loaded = Collection.load(sys.argv[1])
export_collection(Stalling(**vars(loaded)), sys.argv[2], sys.argv[3])
"""


def test_every_format_has_its_function() -> None:
    assert tuple(FORMATS) == EVERY


@each_format
def test_an_export_says_what_it_is_of(tmp_path: Path, format_: ExportFormat) -> None:
    collection = write_odd(tmp_path / "c", ["12", "123"])
    export_collection(collection, format_, tmp_path / "out")
    told: dict[str, Any] = json.loads((tmp_path / "out/export.json").read_bytes())

    assert told == {
        "format": format_,
        "collection": "odd",
        "content_hash": collection.manifest.content_hash,
        "schema_version": collection.manifest.schema_version,
        "recipe": "freshstack",
        "model": "openai/some-model",
        "scale": {"name": "graded_3", "threshold": 2},
        "slices": ["answerable", "partly_supported"],
        "counts": {
            "queries": 2,
            "synthetic_queries": 1,
            "nuggets": 4,
            "nuggets_without_judgment": 0,
            "chunks": 3 if format_ == "nuggetizer" else len(ODD_IDS),
            "judgments": 12,
            "supported": 4,
            "judgments_without_label": 2,
        },
    }


@each_format
def test_the_readme_names_the_authors_and_what_is_synthetic(
    tmp_path: Path, format_: ExportFormat
) -> None:
    export_collection(write_small(tmp_path / "small"), format_, tmp_path / "out")
    export_collection(write_odd(tmp_path / "odd"), format_, tmp_path / "synthetic")
    place = "README.md"
    card = (tmp_path / "out" / place).read_text(encoding="utf-8")
    before = card.partition("The card of the whole collection")[0]

    assert "| 12 | How? | answer | Ada | <https://example.org/q/12> | CC BY-SA 4.0 |" in card
    assert "https://example.org/q/5" not in before
    assert "on the scale binary; 1 or more is support" in card
    assert b"Do as you like." in (tmp_path / "out/licences.jsonl").read_bytes()
    assert "are synthetic" not in card
    synthetic = (tmp_path / "synthetic" / place).read_text(encoding="utf-8")
    assert "**13 of the queries are synthetic" in synthetic
    assert not (tmp_path / "synthetic/licences.jsonl").exists()


@each_format
def test_the_readme_warns_of_the_baseline_at_its_top(tmp_path: Path, format_: ExportFormat) -> None:
    told = PROVENANCE.model_copy(update={"model": "extractive/baseline"})
    collection = write_collection(tmp_path / "c", CONTENTS, CHUNKS, told)
    export_collection(collection, format_, tmp_path / "out")
    export_collection(write_small(tmp_path / "asked"), format_, tmp_path / "by_model")

    def readme(folder: str, place: str = "README.md") -> str:
        return (tmp_path / folder / place).read_text(encoding="utf-8")

    below = readme("out").partition("# small\n\n")[2]
    assert below.startswith("**extractive/baseline is a baseline that counts words")
    assert "no ground for choosing a retriever" in below.split("\n")[0]
    assert "counts words" not in readme("by_model")
    if format_ == "freshstack":
        assert readme("out", "queries/README.md").endswith(readme("out"))


@each_format
def test_the_readme_says_which_chunks_are_there(tmp_path: Path, format_: ExportFormat) -> None:
    export_collection(write_odd(tmp_path / "c", ["12", "123"]), format_, tmp_path / "out")
    readme = (tmp_path / "out/README.md").read_text(encoding="utf-8")
    judged = f"of its corpus of {len(ODD_IDS)} chunks those that were pooled or judged for them (3)"

    assert (judged in readme) is (format_ == "nuggetizer")
    assert ("its whole corpus" in readme) is (format_ != "nuggetizer")
    assert f"| chunks | {3 if format_ == 'nuggetizer' else len(ODD_IDS)} |" in readme


@each_format
def test_an_export_is_the_same_bytes_each_time(tmp_path: Path, format_: ExportFormat) -> None:
    collection = write_odd(tmp_path / "c")
    export_collection(collection, format_, tmp_path / "one")
    export_collection(Collection.load(tmp_path / "c"), format_, tmp_path / "two")

    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")


@each_format
def test_no_id_is_ever_a_file_name(tmp_path: Path, format_: ExportFormat) -> None:
    export_collection(write_odd(tmp_path / "a/c"), format_, tmp_path / "a/out")
    plain = write_odd(tmp_path / "b/c", ["1", "2"], ["x", "y", "z"])
    export_collection(plain, format_, tmp_path / "b/out")

    def names(place: Path) -> set[str]:
        files = {file.split("-")[0] for file in files_of(place)}
        return files - {"ids.json"}

    assert names(tmp_path / "a/out") == names(tmp_path / "b/out")
    assert {path.name for path in (tmp_path / "a").iterdir()} == {"c", "out"}


@each_format
def test_ids_of_every_kind_lead_back(tmp_path: Path, format_: ExportFormat) -> None:
    """Whatever is in `ids.json` is ours, and nothing of a kind is called like another."""
    collection = write_odd(tmp_path / "c")
    export_collection(collection, format_, tmp_path / "out")
    file = tmp_path / "out/ids.json"
    ids: dict[str, dict[str, str]] = json.loads(file.read_bytes()) if file.exists() else {}
    ours = {
        "queries": {query.query_id for query in collection.queries},
        "nuggets": {nugget.nugget_id for nugget in collection.nuggets},
        "chunks": set(collection.corpus.rows),
    }

    assert file.exists() is (format_ not in ("hf", "nuggetizer"))
    for kind, names in ids.items():
        assert set(names.values()) <= ours[kind]
        kept = ours[kind] - set(names.values())
        assert not kept & set(names)
        assert all(exported != one for exported, one in names.items())


@each_format
def test_the_text_of_no_line_ends_it(tmp_path: Path, format_: ExportFormat) -> None:
    export_collection(write_odd(tmp_path / "c"), format_, tmp_path / "out")
    for name, data in files_of(tmp_path / "out").items():
        if name.endswith(".jsonl"):
            lines = data.decode("utf-8").splitlines()
            assert [type(json.loads(line)) for line in lines] == [dict] * data.count(b"\n")


@each_format
def test_other_slices_are_exported_when_named(tmp_path: Path, format_: ExportFormat) -> None:
    """Query 5 is unanswerable; query 6 has no nuggets and is never exported."""
    collection = write_small(tmp_path / "c")
    slices: tuple[SliceName, ...] = ("unanswerable", "undetermined", "unanswerable")
    export_collection(collection, format_, tmp_path / "out", slices=slices)
    told = json.loads((tmp_path / "out/export.json").read_bytes())

    assert told["slices"] == ["unanswerable", "undetermined"]
    assert told["counts"]["queries"] == 1
    with pytest.raises(CollectionError, match="undetermined; there are: 2 answerable, 1 unans"):
        export_collection(collection, format_, tmp_path / "no", slices=["undetermined"])
    with pytest.raises(CollectionError, match="'easy' is no slice; allowed"):
        export_collection(
            collection,
            format_,
            tmp_path / "no",
            slices=["easy"],  # type: ignore[list-item]
        )
    assert not (tmp_path / "no").exists()


@each_format
def test_a_folder_that_holds_something_is_refused(tmp_path: Path, format_: ExportFormat) -> None:
    collection = write_small(tmp_path / "c")
    (tmp_path / "out").mkdir()
    export_collection(collection, format_, tmp_path / "out")
    before = files_of(tmp_path / "out")

    with pytest.raises(CollectionError, match="the folder is not empty"):
        export_collection(collection, format_, tmp_path / "out")
    assert before == files_of(tmp_path / "out")


def test_a_file_in_the_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("kept")

    with pytest.raises(CollectionError, match="not a readable folder"):
        export_collection(write_small(tmp_path / "c"), "beir", tmp_path / "out")
    assert (tmp_path / "out").read_text() == "kept"


@each_format
def test_an_export_that_fails_leaves_nothing(tmp_path: Path, format_: ExportFormat) -> None:
    collection = write_small(tmp_path / "c")
    (tmp_path / "c" / "corpus.parquet").unlink()

    with pytest.raises(CollectionError, match="the file is missing"):
        export_collection(Collection(**vars(collection)), format_, tmp_path / "out")
    assert [tmp_path / "c"] == list(tmp_path.iterdir())


def test_an_export_that_is_killed_leaves_no_half_folder(tmp_path: Path) -> None:
    collection = write_small(tmp_path / "c")
    out = tmp_path / "out"
    words = [sys.executable, "-c", STALLING, str(tmp_path / "c"), "beir", str(out)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"half\n"
        process.kill()
    left = {path.name for path in tmp_path.iterdir()} - {"c"}
    export_collection(collection, "beir", out)

    assert len(left) == 1
    assert all(name.startswith(".out.") and name.endswith(".partial") for name in left)
    assert (out / "export.json").is_file()


def test_nothing_to_export_and_an_unknown_format_say_so(tmp_path: Path) -> None:
    unsupported = dataclasses.replace(
        CONTENTS,
        judgments=tuple(
            one.model_copy(update={"label": 0})
            for one in CONTENTS.judgments
            if one.label is not None
        ),
        slices=tuple(
            one.model_copy(update={"slice": "unanswerable", "supported": 0})
            for one in CONTENTS.slices
        ),
    )
    collection = write_collection(tmp_path / "c", unsupported, CHUNKS, PROVENANCE)

    with pytest.raises(CollectionError, match="no query has a nugget that a chunk supports"):
        export_collection(collection, "freshstack", tmp_path / "out")
    with pytest.raises(CollectionError, match="'ranx' is no format of export; allowed: freshstack"):
        export_collection(collection, "ranx", tmp_path / "out")  # type: ignore[arg-type]
