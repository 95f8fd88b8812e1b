"""What `agree` and `rejudge` print of grades and of several annotators."""

from pathlib import Path

import pytest

from freshstack_dspy.calibration.labels import write_labels
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.records import HumanLabel

from .conftest import Command


@pytest.fixture
def graded(freshstack: Command, built: Path) -> Path:
    """The pairs of the collection, judged with grades from 0 to 3."""
    Path("judge.toml").write_text(
        '[model]\nname = "extractive/baseline"\n[judge]\nscale = "graded_3"\n'
    )
    done = freshstack("rejudge", built, "--config", "judge.toml", "--out", "graded")
    assert done.code == 0, done.err
    return Path("graded")


def write_people(collection: Path, *annotators: str) -> Path:
    """Labels of everybody, who all agree with the judge."""
    labels = [
        HumanLabel(
            query_id=judgment.query_id,
            nugget_id=judgment.nugget_id,
            chunk_id=judgment.chunk_id,
            label=judgment.label,
            annotator=annotator,
        )
        for judgment in Collection.load(collection).judgments
        if judgment.label is not None
        for annotator in annotators
    ]
    write_labels(labels, "people.jsonl")
    return Path("people.jsonl")


def rows(out: str) -> dict[str, str]:
    return {
        cells[0].strip(): cells[1].strip()
        for cells in (line.strip("│").split("│") for line in out.splitlines() if line[0] == "│")
    }


def test_grades_have_weighted_kappas_beside_the_plain_one(
    freshstack: Command, graded: Path
) -> None:
    out = freshstack("agree", graded, write_people(graded, "ada")).out

    assert ", read as support from 2 on\n" in out
    names = [name for name in rows(out) if "kappa" in name]
    assert names == [
        "Cohen's kappa",
        "kappa, plain",
        "kappa, linear weights",
        "kappa, quadratic weights",
        "kappa, were support from 1 on",
        "kappa, were support from 3 on",
    ]
    assert rows(out)["kappa, quadratic weights"] == "1.000"


def test_several_annotators_are_compared_among_themselves(
    freshstack: Command, graded: Path
) -> None:
    lines = freshstack("agree", graded, write_people(graded, "ada", "bob")).out.splitlines()

    start = next(i for i, line in enumerate(lines) if line.startswith("annotators among them"))
    assert [line.split(": ") for line in lines[start + 1 : -1]] == [
        ["  kappa, the mean of each two", "1.000"],
        ["  Fleiss' kappa", "1.000"],
        ["  Krippendorff's alpha", "1.000"],
        ["  Krippendorff's alpha of the grades, nominal", "1.000"],
        ["  Krippendorff's alpha of the grades, ordinal", "1.000"],
        ["  Krippendorff's alpha of the grades, interval", "1.000"],
    ]


def test_yes_and_no_have_neither_weights_nor_levels(freshstack: Command, built: Path) -> None:
    out = freshstack("agree", built, write_people(built, "ada", "bob")).out

    assert "weights" not in out
    assert "ordinal" not in out
    assert "  Krippendorff's alpha: 1.000" in out


def test_judging_again_on_one_graded_scale_prints_weighted_kappas(
    freshstack: Command, graded: Path
) -> None:
    out = freshstack("rejudge", graded, "--config", "judge.toml", "--out", "again").out

    for line in (
        "kappa: 1.000",
        "kappa, linear weights: 1.000",
        "kappa, quadratic weights: 1.000",
        "kappa of support or none: 1.000",
    ):
        assert line in out.splitlines()
