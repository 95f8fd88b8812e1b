"""docs/formats.md names every file of a collection, and the reference the fields of its record."""

import re
from pathlib import Path

import pytest

from freshstack_dspy import Chunk
from freshstack_dspy.corpus.parquet import chunk_schema
from freshstack_dspy.stored.record_files import RECORD_FILES, RecordFile
from freshstack_dspy.stored.writing import COLLECTION_FILES
from tests.collection.small import write_small

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "formats.md").read_text(encoding="utf-8").partition("\n## The data model\n")[2]
REFERENCE = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.rst"))


@pytest.mark.parametrize("file", RECORD_FILES, ids=lambda file: file.name)
def test_the_page_names_record_and_order_of_every_file(file: RecordFile) -> None:
    order = ", ".join(f"`{field}`" for field in file.order)

    assert f"\n| `{file.filename}` | `{file.record.__name__}` | {order} |\n" in PAGE


def test_every_record_that_the_page_names_has_its_fields_in_the_reference() -> None:
    named = {*re.findall(r"`([A-Z]\w+)`", PAGE)} | {file.record.__name__ for file in RECORD_FILES}
    named -= COLLECTION_FILES

    assert [name for name in named if f".{name}\n" not in REFERENCE] == []


def test_a_collection_has_these_files_and_columns_and_no_other(tmp_path: Path) -> None:
    write_small(tmp_path)

    assert {file.name for file in tmp_path.iterdir()} == COLLECTION_FILES - {
        "notes.jsonl",
        "pool.parquet",
        "judgments.parquet",
    }
    assert [name for name in COLLECTION_FILES if f"`{name}`" not in PAGE] == []
    assert chunk_schema().names == list(Chunk.model_fields)
