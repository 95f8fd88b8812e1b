import json
import os
from pathlib import Path

import pytest

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.collection.exports import export_collection
from freshstack_dspy.collection.layouts import CRUX_JUDGEMENTS, NUGGETIZER_INPUT, ExportFormat
from freshstack_dspy.collection.manifest import MANIFEST_FILE
from freshstack_dspy.collection.slices import slice_queries
from freshstack_dspy.collection.validate import validate, vote_fault
from freshstack_dspy.collection.writing import write_collection
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.records import Judgment, Nugget, Vote

from .small import CHUNKS, CONTENTS, PROVENANCE, candidate, write_small

FORMATS: tuple[ExportFormat, ...] = (
    "freshstack", "beir", "mteb", "trec", "hf", "crux", "nuggetizer",
)  # fmt: skip


def sound(path: Path, **changed: object) -> Collection:
    """The small collection, with what its judgments give in every record."""
    slices = slice_queries(CONTENTS.queries, CONTENTS.nuggets, CONTENTS.judgments)
    judged = {(one.query_id, one.chunk_id) for one in CONTENTS.judgments}
    records = {
        **{name: getattr(CONTENTS, name) for name in Contents.__dataclass_fields__},
        "slices": tuple(slices),
        "pool": tuple(candidate(*pair) for pair in judged),
        **changed,
    }
    return write_collection(path, Contents(**records), CHUNKS, PROVENANCE)


def said(path: Path) -> list[str]:
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

    found = said(tmp_path / "c")

    assert any("judgments.jsonl:2: not a Judgment" in line for line in found)
    assert any("names chunk 'gone/" in line for line in found)
    assert any("judgments.jsonl: is not the file whose hash" in line for line in found)
    assert "expansions.jsonl: the file is missing" in found
    assert any("counts.judgments is 8, and the files have 7" in line for line in found)


def test_a_newer_schema_is_said_and_nothing_else(tmp_path: Path) -> None:
    sound(tmp_path / "c")
    path = tmp_path / "c" / MANIFEST_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": 99}))

    (fault,) = said(tmp_path / "c")

    assert "schema version 99 is newer" in fault


def test_a_span_outside_of_the_answer_is_a_fault(tmp_path: Path) -> None:
    first, *rest = CONTENTS.nuggets
    wrong = Nugget.model_validate({**first.model_dump(), "answer_span": (3, 1000)})
    sound(tmp_path / "c", nuggets=(wrong, *rest))

    assert any("answer_span is 3 to 1000" in line for line in said(tmp_path / "c"))


def test_a_slice_that_the_judgments_do_not_give_is_a_fault(tmp_path: Path) -> None:
    slices = slice_queries(CONTENTS.queries, CONTENTS.nuggets, CONTENTS.judgments)
    wrong = slices[0].model_copy(update={"slice": "unanswerable"})
    sound(tmp_path / "c", slices=(wrong, *slices[1:]))

    assert any("slice is 'unanswerable', and its" in line for line in said(tmp_path / "c"))


@pytest.mark.parametrize(
    ("labels", "label", "is_right"),
    [
        ((1, 1, 0), 1, True),
        ((1, 1, 0), 0, False),
        ((2, 1, 0), 0, True),  # a tie: the lower one
        ((1, None, None), None, True),  # no majority of all votes has a label
        ((1, 1, None), 1, True),
    ],
)
def test_a_label_is_that_of_most_votes(
    labels: tuple[int | None, ...], label: int | None, is_right: bool
) -> None:
    judgment = Judgment(
        query_id="q",
        nugget_id="n",
        chunk_id="c",
        label=label,
        status="ok" if label is not None else "failed",
        reason="",
        call_id="k",
        votes=tuple(
            Vote(
                vote=number,
                label=one,
                status="ok" if one is not None else "failed",
                reason="",
                call_id="k",
            )
            for number, one in enumerate(labels, start=1)
        ),
    )

    assert (vote_fault(judgment) is None) == is_right


@pytest.mark.parametrize("format_", FORMATS)
def test_every_export_is_sound_and_known_by_its_files(
    tmp_path: Path, format_: ExportFormat
) -> None:
    export_collection(write_small(tmp_path / "c"), format_, tmp_path / "e")

    report = validate(tmp_path / "e")
    (tmp_path / "e" / "export.json").unlink()

    assert (report.format, report.faults) == (format_, ())
    assert validate(tmp_path / "e").format == format_


def test_qrels_that_point_to_nothing_are_named(tmp_path: Path) -> None:
    export_collection(write_small(tmp_path / "c"), "beir", tmp_path / "e")
    with (tmp_path / "e" / "qrels" / "test.tsv").open("a", encoding="utf-8") as file:
        file.write("12\tgone\t1\nnobody\tgone\tx\n12\tgone\t1\n1\t\n")

    found = said(tmp_path / "e")

    assert any("names chunk 'gone' and 2 more" in line for line in found)
    assert any("names query 'nobody'" in line for line in found)
    assert any("the grade is 'x'" in line for line in found)
    assert any("has 2 fields; a line has 3" in line for line in found)
    assert any("'12', 'gone' stand at qrels/test.tsv:" in line for line in found)


def test_a_count_that_the_files_do_not_have_is_a_fault(tmp_path: Path) -> None:
    export_collection(write_small(tmp_path / "c"), "trec", tmp_path / "e")
    path = tmp_path / "e" / "export.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    told["counts"]["chunks"] = 4
    path.write_text(json.dumps(told), encoding="utf-8")

    assert said(tmp_path / "e") == ["export.json: counts.chunks is 4, and the files have 3"]


def test_a_folder_that_is_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="neither a collection nor an export"):
        validate(tmp_path)
    with pytest.raises(CollectionError, match="no such folder"):
        validate(tmp_path / "nowhere")


def damaged(folder: Path, format_: ExportFormat, pattern: str, **changed: object) -> list[str]:
    """Export, change the first row of a file, and say what is found."""
    out = folder / "out"
    export_collection(sound(folder / "c"), format_, out)
    file = next(iter(sorted(out.glob(pattern))))
    first, *others = file.read_text(encoding="utf-8").splitlines()
    lines = [json.dumps({**json.loads(first), **changed}), *others]
    file.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return said(out)


@pytest.mark.parametrize("rating", [5, True, "4", {"a": 1}, None])
def test_a_rating_that_is_no_list_is_found(tmp_path: Path, rating: object) -> None:
    found = damaged(tmp_path, "crux", f"**/{CRUX_JUDGEMENTS}", rating=rating)

    assert any("rating is no list" in line for line in found)


def test_a_row_of_the_input_that_is_wrong_does_not_hide_the_others(tmp_path: Path) -> None:
    found = damaged(tmp_path, "nuggetizer", NUGGETIZER_INPUT, query="What?")

    assert any(":1: query is 'What?'; allowed: an object" in line for line in found)


@pytest.mark.parametrize("grade", ["--5", "-", "1-", "5_0", "\u0663"])
def test_a_grade_that_is_no_number_is_found(tmp_path: Path, grade: str) -> None:
    export_collection(sound(tmp_path / "c"), "beir", tmp_path / "out")
    table = next((tmp_path / "out" / "qrels").glob("*.tsv"))
    text = table.read_text(encoding="utf-8").rstrip("\n")
    table.write_text(f"{text[: text.rindex(chr(9))]}\t{grade}\n", encoding="utf-8")

    assert any(f"the grade is {grade!r}" in line for line in said(tmp_path / "out"))


def test_a_pipe_beside_the_files_is_warned_of_and_not_read(tmp_path: Path) -> None:
    sound(tmp_path / "c")
    os.mkfifo(tmp_path / "c" / "pipe")

    assert any(finding.place == "pipe" for finding in validate(tmp_path / "c").warnings)


def test_a_judgment_where_the_names_of_the_columns_belong_is_found(tmp_path: Path) -> None:
    export_collection(sound(tmp_path / "c"), "beir", tmp_path / "out")
    table = next((tmp_path / "out" / "qrels").glob("*.tsv"))
    table.write_text(table.read_text(encoding="utf-8").partition("\n")[2], encoding="utf-8")

    assert any(":1: a judgment where the names" in line for line in said(tmp_path / "out"))
