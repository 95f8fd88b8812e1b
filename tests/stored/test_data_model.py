"""docs/data-model.md tables the fields of every file, as they are written."""

import re
from pathlib import Path

import pytest

from freshstack_dspy.records import Agreement, Answer, AssignedAnswer, Chunk, HumanLabel, Record
from freshstack_dspy.stored.contents import RECORD_FILES, RecordFile
from freshstack_dspy.stored.corpus import corpus_schema
from freshstack_dspy.stored.manifest import Manifest
from freshstack_dspy.stored.writing import COLLECTION_FILES
from tests.collection.small import write_small

PAGE = (Path(__file__).parents[2] / "docs" / "data-model.md").read_text(encoding="utf-8")
RECORDS: dict[str, type[Record]] = {
    **{file.filename: file.record for file in RECORD_FILES},
    "corpus.parquet": Chunk,
    "manifest.json": Manifest,
    "labels.jsonl": HumanLabel,
    "answers.jsonl": Answer,
    "agreement.jsonl": Agreement,
    "assignments.jsonl": AssignedAnswer,
}


@pytest.mark.parametrize("name", RECORDS)
def test_the_page_tables_the_fields_of_every_file(name: str) -> None:
    (section,) = re.findall(rf"^### {re.escape(name)}\n(.*?)(?=^##|\Z)", PAGE, re.M | re.S)
    fields = RECORDS[name].model_fields
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \|", section, re.M)

    assert [field for field, _ in rows] == list(fields)
    for field, kind in rows:
        optional = type(None) in getattr(fields[field].annotation, "__args__", ())
        assert ("or null" in kind) == optional, field


@pytest.mark.parametrize("file", RECORD_FILES, ids=lambda file: file.name)
def test_the_page_names_the_order_of_every_file(file: RecordFile) -> None:
    order = ", ".join(f"`{field}`" for field in file.order)

    assert f"### {file.filename}\n\nBy {order}{'' if file.once else ', then the line'}" in PAGE


def test_a_collection_has_these_files_and_columns_and_no_other(tmp_path: Path) -> None:
    write_small(tmp_path)

    assert {file.name for file in tmp_path.iterdir()} == COLLECTION_FILES - {"notes.jsonl"}
    assert {*RECORDS, "README.md"} >= COLLECTION_FILES
    assert corpus_schema().names == list(Chunk.model_fields)
