import json
from pathlib import Path

import pytest

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.collection.exports import EXPORT_FORMATS, ExportFormat, export_collection
from freshstack_dspy.collection.manifest import MANIFEST_FILE
from freshstack_dspy.collection.slices import slice_queries
from freshstack_dspy.collection.validate import validate
from freshstack_dspy.collection.writing import write_collection
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.records import Nugget

from .small import CHUNKS, CONTENTS, PROVENANCE, write_small


def sound(path: Path, **changed: object) -> Collection:
    """The small collection, with the slices that its judgments give."""
    slices = slice_queries(CONTENTS.queries, CONTENTS.nuggets, CONTENTS.judgments)
    records = {
        **{name: getattr(CONTENTS, name) for name in Contents.__dataclass_fields__},
        "slices": tuple(slices),
        **changed,
    }
    return write_collection(path, Contents(**records), CHUNKS, PROVENANCE)


def faults_of(path: Path) -> list[str]:
    return [f"{finding.place}: {finding.message}" for finding in validate(path).faults]


def test_a_collection_as_it_was_written_is_sound(tmp_path: Path) -> None:
    sound(tmp_path / "c")

    report = validate(tmp_path / "c")

    assert (report.format, report.faults) == ("collection", ())
    assert report.counts["judgments"] == 8


def test_all_faults_are_found_and_not_the_first_alone(tmp_path: Path) -> None:
    sound(tmp_path / "c")
    path = tmp_path / "c" / "judgments.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[0] = lines[0].replace('"chunk_id":"', '"chunk_id":"gone/')
    lines[1] = "{"
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    (tmp_path / "c" / "expansions.jsonl").unlink()

    found = faults_of(tmp_path / "c")

    assert any("judgments.jsonl:2: not a Judgment" in line for line in found)
    assert any("names chunk 'gone/" in line for line in found)
    assert any("judgments.jsonl: is not the file whose hash" in line for line in found)
    assert "expansions.jsonl: the file is missing" in found
    assert any("counts.judgments is 8, and the files have 7" in line for line in found)


def test_a_corpus_of_another_collection_is_a_fault(tmp_path: Path) -> None:
    sound(tmp_path / "c")
    changed = [CHUNKS[0].model_copy(update={"text": "other"}), *CHUNKS[1:]]
    write_collection(tmp_path / "other", CONTENTS, changed, PROVENANCE)
    (tmp_path / "c/corpus.parquet").write_bytes((tmp_path / "other/corpus.parquet").read_bytes())

    assert any(line.startswith("corpus.parquet: ") for line in faults_of(tmp_path / "c"))


def test_a_newer_schema_is_said_and_nothing_else(tmp_path: Path) -> None:
    sound(tmp_path / "c")
    path = tmp_path / "c" / MANIFEST_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": 99}))

    (fault,) = faults_of(tmp_path / "c")

    assert "schema version 99" in fault


def test_spans_and_slices_are_compared_with_answers_and_judgments(tmp_path: Path) -> None:
    first, *rest = CONTENTS.nuggets
    span = Nugget.model_validate({**first.model_dump(), "answer_span": (3, 1000)})
    slices = slice_queries(CONTENTS.queries, CONTENTS.nuggets, CONTENTS.judgments)
    moved = slices[0].model_copy(update={"slice": "unanswerable"})
    sound(tmp_path / "c", nuggets=(span, *rest), slices=(moved, *slices[1:]))

    found = faults_of(tmp_path / "c")

    assert any("answer_span is outside" in line for line in found)
    assert any("is not in the slice" in line for line in found)


@pytest.mark.parametrize("format_", EXPORT_FORMATS)
def test_every_export_is_sound_and_its_counts_are_checked(
    tmp_path: Path, format_: ExportFormat
) -> None:
    export_collection(write_small(tmp_path / "c"), format_, tmp_path / "e")
    report = validate(tmp_path / "e")
    path = tmp_path / "e" / "export.json"
    description = json.loads(path.read_text(encoding="utf-8"))
    description["counts"]["queries"] = 4
    path.write_text(json.dumps(description), encoding="utf-8")

    assert (report.format, report.faults) == (format_, ())
    assert faults_of(tmp_path / "e") == ["export.json: counts.queries is 4, and the files have 2"]


def test_the_first_fault_of_an_export_is_named_by_its_line(tmp_path: Path) -> None:
    export_collection(write_small(tmp_path / "c"), "beir", tmp_path / "e")
    with (tmp_path / "e" / "qrels" / "test.tsv").open("a", encoding="utf-8") as file:
        file.write("12\tx\tyes\n")

    assert faults_of(tmp_path / "e")[0].startswith("qrels/test.tsv:6: ")


def test_a_folder_that_is_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match=r"has no manifest\.json and no export\.json"):
        validate(tmp_path)
