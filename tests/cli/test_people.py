"""`freshstack agree` and `optimize`: what they print, and the program that is written."""

import json
from pathlib import Path

import pytest

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.config import load_config
from freshstack_dspy.files import encode_records
from freshstack_dspy.records import HumanLabel
from tests.recipes.domain import write_domain

from .conftest import BASELINE, Command, Done


@pytest.fixture
def graded(freshstack: Command, built: Path) -> Path:
    """The pairs of the collection, judged with grades from 0 to 3."""
    Path("judge.toml").write_text(
        '[model]\nname = "extractive/baseline"\n[judge]\nscale = "graded_3"\n'
    )
    done = freshstack("rejudge", built, "--config", "judge.toml", "--out", "graded")
    assert done.code == 0, done.err
    return Path("graded")


def write_people(collection: Path, *annotators: str, highest: int = 9) -> Path:
    """Labels of everybody, who all agree with the judge."""
    labels = [
        HumanLabel(
            query_id=judgment.query_id,
            nugget_id=judgment.nugget_id,
            chunk_id=judgment.chunk_id,
            label=min(highest, judgment.label),
            annotator=annotator,
        )
        for judgment in Collection.load(collection).judgments
        if judgment.label is not None
        for annotator in annotators
    ]
    Path("people.jsonl").write_bytes(encode_records(labels))
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
    out = freshstack("agree", built, write_people(built, "ada", "bob", highest=1)).out

    assert "weights" not in out
    assert "ordinal" not in out
    assert "  Krippendorff's alpha: 1.000" in out


def test_agreement_is_a_table_or_json(
    freshstack: Command, built: Path, labels_of_built: Path
) -> None:
    table = freshstack("agree", built, labels_of_built)
    report = json.loads(freshstack("agree", built, labels_of_built, "--json").out)

    pairs = report["metrics"]["pairs"]
    assert table.out.startswith(
        f"judge compared with 1 annotator, {pairs} pairs, read as support from 1 on\n"
    )
    assert rows(table.out)["exact match"] == "1.000"
    assert report["metrics"]["exact_match"]["value"] == 1.0
    assert "no item was labelled by two annotators" in table.out
    assert table.out.splitlines()[-1] == "labels by extractive/baseline, a word counter"


def test_labels_of_pairs_that_were_not_judged_are_counted(
    freshstack: Command, built: Path, tmp_path: Path
) -> None:
    judged = Collection.load(built).judgments[0]
    label = HumanLabel(
        query_id=judged.query_id,
        nugget_id=judged.nugget_id,
        chunk_id=judged.chunk_id,
        label=1,
        annotator="ada",
    )
    labels = [label, label.model_copy(update={"nugget_id": "9_9"})]
    (tmp_path / "one.jsonl").write_bytes(encode_records(labels))

    out = freshstack("agree", built, "one.jsonl").out

    assert "1 label left out, of pairs not in judgments.jsonl" in out
    assert "nugget '9_9'" in out
    assert "no interval for " in out


def optimize(freshstack: Command, labels: Path, *words: object) -> Done:
    Path("tune.toml").write_text('[model]\nname = "extractive/baseline"\n')
    return freshstack("optimize", "tune.toml", labels, "--out", "judge.json", *words)


def test_an_optimized_program_is_one_that_a_build_takes(
    freshstack: Command, labels: Path, tmp_path: Path
) -> None:
    done = optimize(freshstack, labels)
    config = write_domain(tmp_path, model=BASELINE, programs={"support_judge": "judge.json"})
    built = freshstack("build", config)

    assert done.out.startswith(
        "bootstrap for extractive/baseline: 4 queries to train, 2 to test (12 pairs)\n"
    )
    assert (done.code, built.code) == (0, 0)
    assert load_config(config).programs.support_judge == tmp_path / "judge.json"


def test_optimization_is_reported_as_json_and_replaces_nothing_unasked(
    freshstack: Command, labels: Path
) -> None:
    words = ("--optimizer", "labeled", "--json")
    report = json.loads(optimize(freshstack, labels, *words).out)
    again = optimize(freshstack, labels, *words)

    assert (report["optimizer"], report["train_queries"]) == ("labeled", 4)
    assert report["before"].keys() == report["after"].keys() == {"metrics", "failed"}
    assert again.code == 1
    assert "add --replace" in again.err
    assert optimize(freshstack, labels, *words, "--replace").code == 0


def test_the_texts_of_labels_may_be_a_collections(
    freshstack: Command, built: Path, labels_of_built: Path
) -> None:
    without = optimize(freshstack, labels_of_built)
    within = optimize(freshstack, labels_of_built, "--collection", built)

    assert without.code == 1
    assert "name the collection with --collection" in without.err
    assert within.code == 0
