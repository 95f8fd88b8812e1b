"""`freshstack sample` and `import-labels`: what they print, write and keep."""

import json
from pathlib import Path

import pytest

from freshstack_dspy import read_labels
from freshstack_dspy.calibration.label_files import label_formats
from freshstack_dspy.calibration.optimization import OPTIMIZERS
from freshstack_dspy.calibration.sampling import Purpose
from freshstack_dspy.calibration.scoring import METRICS
from freshstack_dspy.cli import people
from freshstack_dspy.files import encode_records
from freshstack_dspy.records import TaskKind

from .conftest import Command


def test_a_sample_is_a_table_and_a_file_that_grows(freshstack: Command, built: Path) -> None:
    first = freshstack("sample", built, "--limit", 4, "--out", "tasks.jsonl")
    second = freshstack("sample", built, "--limit", 6, "--out", "tasks.jsonl")
    whole = freshstack("sample", built, "--for", "runs", "--limit", 2, "--out", "whole.jsonl")
    table = freshstack("sample", built, "--format", "csv", "--out", "tasks.jsonl")
    again = json.loads(freshstack("sample", built, "--out", "other.jsonl", "--json").out)

    assert again["strata"]
    assert first.out.startswith("tasks.jsonl: 4 tasks of kind support\n")
    assert first.out.endswith("label them: freshstack label tasks.jsonl --annotator NAME\n")
    assert "│ label 0 │" in first.out
    assert "4 of them were there before, and stay\n" in second.out
    assert "they do not tell the value of a run" in " ".join(first.out.split())
    assert "2 queries are too few, 10 are needed" in " ".join(whole.out.split())
    assert "│ whole queries │" in whole.out
    assert "│ part          │ queries │ drawn │ probability │".replace("│", "┃") in whole.out
    assert (table.code, table.err) == (1, "error: tasks.jsonl exists; name another\n")


def test_labels_are_imported_counted_and_never_overwritten(
    freshstack: Command, built: Path, labels_of_built: Path
) -> None:
    labels = read_labels(labels_of_built)
    freshstack("sample", built, "--limit", 6, "--out", "tasks.jsonl")
    Path("some.jsonl").write_bytes(encode_records(labels[:5]))
    words = ("import-labels", labels_of_built, "--collection", built, "--tasks", "tasks.jsonl")

    done = freshstack(*words, "--out", "labels.jsonl")
    again = freshstack(*words, "--out", "labels.jsonl")
    partly = freshstack("import-labels", "some.jsonl", *words[2:])

    assert done.out.splitlines() == [
        f"labels.jsonl: {len(labels)} labels",
        f"  ada: {len(labels)} of kind support",
        "6 of 6 tasks labelled by ada",
    ]
    assert [one.stratum is not None for one in read_labels("labels.jsonl")].count(True) == 6
    assert again.err.startswith("error: labels.jsonl exists; add --replace")
    assert " of 6 tasks labelled by ada" in partly.out


def test_options_allow_what_the_functions_take(freshstack: Command) -> None:
    """They are written again, as the list of commands imports no data model."""
    labels, tuning = (
        "".join(freshstack(command, "--help").out.split())
        for command in ("import-labels", "optimize")
    )

    assert [name for name in label_formats() if name not in labels] == []
    assert people.TaskKind == TaskKind
    assert people.Purpose == Purpose
    assert all(f"({name})" in tuning for name in OPTIMIZERS)
    assert all(name in tuning for name in METRICS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tasks.jsonl",), "say with --annotator who labels"),
        (("tasks.jsonl", "--annotator", "ana", "--query", "1"), "--query"),
        (("{}", "--annotator", "ana", "--blind"), "draw tasks with: freshstack sample"),
        (("{}", "--annotator", " "), "--annotator is empty"),
        (("{}", "--annotator", "../ana"), "--out"),
        (("{}", "--labels", "tasks.jsonl"), "tasks.jsonl:1: not a label"),
    ],
)
def test_what_cannot_be_labelled_or_looked_at_is_one_line(
    freshstack: Command, built: Path, words: tuple[str, ...], said: str
) -> None:
    freshstack("sample", built, "--limit", 2, "--out", "tasks.jsonl")

    done = freshstack("label", *(word.format(built) for word in words), "--no-browser")

    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert said in done.err
