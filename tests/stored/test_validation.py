import json
from dataclasses import replace
from pathlib import Path

import pytest

from freshstack_dspy import export_collection
from freshstack_dspy.collection.collection import write_collection
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.formats import FORMATS
from freshstack_dspy.formats.validate import validate
from tests.collection.small import CHUNKS, CONTENTS, PROVENANCE, A, write_small


def test_all_faults_are_found_and_not_the_first_alone(tmp_path: Path) -> None:
    write_small(tmp_path / "c")
    path = tmp_path / "c" / "judgments.jsonl"
    first, *others = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join([first.replace('"chunk_id":"', '"chunk_id":"gone/'), *others[1:]]))
    changed = [CHUNKS[0].model_copy(update={"text": "other"}), *CHUNKS[1:]]
    write_collection(tmp_path / "other", CONTENTS, changed, PROVENANCE)
    (tmp_path / "c/corpus.parquet").write_bytes((tmp_path / "other/corpus.parquet").read_bytes())

    found = "\n".join(validate(tmp_path / "c").faults)

    assert "judgments.jsonl: is not the file whose hash" in found
    assert "judgments.jsonl names chunk 'gone/" in found
    assert "corpus.parquet: the chunks are not those" in found
    assert "manifest.json: counts.judgments is 8, the files have 7" in found


@pytest.mark.parametrize(
    ("span", "is_right"),
    [((0, 5), True), ((1, 2), True), ((0, 6), False), ((3, 3), False), ((4, 2), False)],
)
def test_evidence_is_text_inside_its_chunk(
    tmp_path: Path, span: tuple[int, int], is_right: bool
) -> None:
    one = CONTENTS.judgments[0].model_copy(update={"chunk_id": A, "evidence": (span,)})
    others = [each for each in CONTENTS.judgments if each.chunk_id != A]
    contents = replace(CONTENTS, judgments=(one, *others))
    write_collection(tmp_path / "c", contents, CHUNKS, PROVENANCE)

    faults = [fault for fault in validate(tmp_path / "c").faults if "evidence from byte" in fault]
    assert bool(faults) != is_right


def test_a_damaged_and_a_missing_file_are_named(tmp_path: Path) -> None:
    write_small(tmp_path / "c")
    with (tmp_path / "c/pool.jsonl").open("a") as file:
        file.write("{\n")
    (tmp_path / "c/expansions.jsonl").unlink()
    (tmp_path / "c/corpus.parquet").unlink()

    found = "\n".join(validate(tmp_path / "c").faults)

    assert "pool.jsonl:5: not a Candidate" in found
    assert "expansions.jsonl: cannot be read" in found
    assert "\ncorpus.parquet: the file is missing" in found
    assert "names" not in found


@pytest.mark.parametrize(
    "format_", [name for name in FORMATS.ours if FORMATS.get(name).read and FORMATS.get(name).write]
)
def test_every_export_is_read_back_and_its_counts_are_checked(tmp_path: Path, format_: str) -> None:
    export_collection(write_small(tmp_path / "c"), format_, tmp_path / "e")
    report = validate(tmp_path / "e")
    path = tmp_path / "e" / "export.json"
    description = json.loads(path.read_text(encoding="utf-8"))
    description["counts"]["queries"] = 4
    path.write_text(json.dumps(description), encoding="utf-8")

    assert (report.format, report.faults) == (format_, ())
    assert validate(tmp_path / "e").faults == (
        "export.json: counts.queries is 4, the files have 2",
    )


def test_a_folder_that_is_neither_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        CollectionError, match=r"neither a collection nor an export: it has no manifest\.json"
    ):
        validate(tmp_path)
