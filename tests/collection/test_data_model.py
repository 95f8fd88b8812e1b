import re
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import records
from freshstack_dspy.collection.collection import Collection, corpus_schema
from freshstack_dspy.collection.contents import RECORD_FILES
from freshstack_dspy.collection.counts import ContaminationCounts, Counts
from freshstack_dspy.collection.manifest import Extension, Manifest, StepEstimate
from freshstack_dspy.collection.writing import COLLECTION_FILES
from freshstack_dspy.lm.usage import StepLedger
from freshstack_dspy.records import Chunk, Record

from .small import write_small

PAGE = (Path(__file__).parents[2] / "docs" / "data-model.md").read_text(encoding="utf-8")
MODELS: list[type[Record]] = [
    *(
        model
        for model in vars(records).values()
        if isinstance(model, type) and issubclass(model, Record) and model is not Record
    ),
    Manifest,
    Extension,
    Counts,
    ContaminationCounts,
    StepLedger,
    StepEstimate,
]


def section(title: str) -> str:
    """The text below a heading, up to the next."""
    found = re.search(rf"^##+ {re.escape(title)}\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)

    assert found, f"docs/data-model.md has no heading {title!r}"

    return found[1]


def cells(text: str) -> list[list[str]]:
    lines = [line for line in text.split("\n") if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_the_page_tables_the_fields_of_every_record(model: type[Record]) -> None:
    rows = cells(section(model.__name__))

    assert [row[0].strip("`") for row in rows] == list(model.model_fields)
    for name, kind, *meaning in rows:
        optional = type(None) in getattr(
            model.model_fields[name.strip("`")].annotation, "__args__", ()
        )
        assert ("or null" in kind) == optional, name
        assert meaning, name


def test_the_page_tables_the_files_in_the_order_that_is_written() -> None:
    files = {row[0].strip("`"): row for row in cells(PAGE.split("## Records")[0])}

    assert set(files) == COLLECTION_FILES
    for file in RECORD_FILES:
        _, line, order, _ = files[file.filename]
        assert f"[{file.record.__name__}](#{file.record.__name__.lower()})" in line
        expected = ", ".join(f"`{field}`" for field in file.order)
        assert order == (expected if file.once else f"{expected}, then the line")


def test_a_collection_has_the_files_of_the_page_and_no_other(tmp_path: Path) -> None:
    write_small(tmp_path)

    assert {file.name for file in tmp_path.iterdir()} == COLLECTION_FILES


def test_the_columns_of_the_corpus_are_the_fields_of_a_chunk() -> None:
    assert corpus_schema().names == list(Chunk.model_fields)


def test_every_record_file_is_an_attribute_of_a_collection(tmp_path: Path) -> None:
    collection: Any = write_small(tmp_path)

    assert isinstance(collection, Collection)
    for file in RECORD_FILES:
        assert all(isinstance(record, file.record) for record in getattr(collection, file.name))


def test_links_on_the_page_lead_to_its_headings() -> None:
    headings = {title.lower() for title in re.findall(r"^##+ (.+)$", PAGE, re.MULTILINE)}

    assert set(re.findall(r"\]\(#([^)]+)\)", PAGE)) <= headings
