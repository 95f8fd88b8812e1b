"""What an import refuses before it reads, and what it carries over from an export of ours."""

import json
from pathlib import Path

import pytest

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.exports import ExportFormat, export_collection
from freshstack_dspy.collection.imports import (
    IMPORT_FORMATS,
    ImportFormat,
    import_collection,
)
from freshstack_dspy.collection.writing import write_collection
from freshstack_dspy.errors import CollectionError, SourceError
from tests.collection.small import CHUNKS, CONTENTS, PROVENANCE, files_of, write_small

from .foreign import beir

WARNING = "**extractive/baseline is a baseline that counts words"


def by_baseline(path: Path) -> Collection:
    told = PROVENANCE.model_copy(update={"model": "extractive/baseline"})
    return write_collection(path, CONTENTS, CHUNKS, told)


def test_a_standing_collection_is_never_written_over(tmp_path: Path) -> None:
    write_small(tmp_path / "c")
    before = files_of(tmp_path / "c")

    # Refused before reading: what is to be read is not even there.
    with pytest.raises(
        CollectionError,
        match=r"c: a collection stands already; name another folder, or move it$",
    ):
        import_collection("beir", tmp_path / "nothing", tmp_path / "c")
    assert files_of(tmp_path / "c") == before


def test_a_collection_whose_swap_was_cut_short_stands_too(tmp_path: Path) -> None:
    write_small(tmp_path / ".c.previous")

    with pytest.raises(CollectionError, match="stands already"):
        import_collection("beir", beir(tmp_path / "b"), tmp_path / "c")


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()

    assert import_collection("beir", beir(tmp_path / "b"), tmp_path / "c").queries


@pytest.mark.parametrize("format_", IMPORT_FORMATS)
def test_a_collection_of_ours_needs_no_import(tmp_path: Path, format_: ImportFormat) -> None:
    write_small(tmp_path / "small")

    with pytest.raises(SourceError, match="small: is a collection already, and needs no import"):
        import_collection(format_, tmp_path / "small", tmp_path / "c")


@pytest.mark.parametrize(
    ("exported", "read_as", "said"),
    [
        ("beir", "freshstack", "is an export in the format beir, .*freshstack import beir$"),
        ("mteb", "freshstack", "is an export in the format mteb, .*freshstack import beir$"),
        ("crux", "beir", "is an export in the format crux, .*freshstack import crux$"),
        ("hf", "freshstack", "is an export in the format hf, .*which cannot be read; export the"),
        ("trec", "beir", "is an export in the format trec, .*which cannot be read; export the"),
    ],
)
def test_an_export_says_what_to_read_it_as(
    tmp_path: Path, exported: ExportFormat, read_as: ImportFormat, said: str
) -> None:
    export_collection(write_small(tmp_path / "small"), exported, tmp_path / "e")

    with pytest.raises(SourceError, match=said):
        import_collection(read_as, tmp_path / "e", tmp_path / "c")
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("mteb", "an export in the format mteb is read as beir$"),
        ("hf", "an export in the format hf cannot be read: export the collection as freshstack"),
        ("ranx", "allowed: freshstack, beir, crux, nuggetizer$"),
    ],
)
def test_a_format_of_export_alone_gets_an_answer(tmp_path: Path, word: str, said: str) -> None:
    with pytest.raises(CollectionError, match=f"{word!r} is no format of import; .*{said}"):
        import_collection(word, tmp_path, tmp_path / "c")  # type: ignore[arg-type]


def test_an_export_of_mteb_is_read_as_beir(tmp_path: Path) -> None:
    export_collection(write_small(tmp_path / "small"), "mteb", tmp_path / "e")

    assert import_collection("beir", tmp_path / "e", tmp_path / "c").query_ids() == ("12", "123")


@pytest.mark.parametrize("format_", IMPORT_FORMATS)
def test_the_card_names_what_was_exported_however_often(
    tmp_path: Path, format_: ImportFormat
) -> None:
    first = by_baseline(tmp_path / "c")
    export_collection(first, format_, tmp_path / "e")
    second = import_collection(format_, tmp_path / "e", tmp_path / "again")
    export_collection(second, format_, tmp_path / "f")
    import_collection(format_, tmp_path / "f", tmp_path / "third")
    card = (tmp_path / "again/README.md").read_text(encoding="utf-8")

    assert card.startswith(f"# e\n\n{WARNING}")
    assert "| exported from the collection | small |" in card
    assert f"| its content hash | {first.manifest.content_hash} |" in card
    assert "| the model that it asked | extractive/baseline |" in card
    assert f"# e\n\n{WARNING}" in (tmp_path / "f/README.md").read_text(encoding="utf-8")
    third = (tmp_path / "third/README.md").read_text(encoding="utf-8")
    assert third.startswith(f"# f\n\n{WARNING}")
    assert f"| its content hash | {second.manifest.content_hash} |" in third


@pytest.mark.parametrize(
    "told",
    [{"model": ["extractive/"], "collection": 3}, {"model": "x\n# y|<b>`", "imported_from": 1}],
)
def test_what_a_hostile_export_says_of_itself_stays_text(
    tmp_path: Path, told: dict[str, object]
) -> None:
    path = beir(tmp_path / "b")
    (path / "export.json").write_text(json.dumps({**told, "format": {"beir": 1}}))
    import_collection("beir", path, tmp_path / "c")
    card = (tmp_path / "c/README.md").read_text(encoding="utf-8")

    assert "\n# y" not in card
    assert "<b>" not in card
