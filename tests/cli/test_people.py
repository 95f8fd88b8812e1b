"""`freshstack agree` and `optimize`: what they print, and the program that is written."""

import json
from pathlib import Path

import pytest

from freshstack_dspy import Collection, HumanLabel, load_config
from freshstack_dspy.files import encode_records
from freshstack_dspy.records import AnswerLabel, NuggetLabel
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


def rows(out: str) -> dict[str, str]:
    return {
        cells[0].strip(): cells[1].strip()
        for cells in (
            line.strip("│").split("│") for line in out.splitlines() if line.startswith("│")
        )
    }


def test_agreement_is_a_table_or_json(
    freshstack: Command, built: Path, labels_of_built: Path
) -> None:
    table = freshstack("agree", built, labels_of_built)
    report = json.loads(freshstack("agree", built, labels_of_built, "--json").out)["support"]

    counts = f"{report['pairs']} pairs, {report['labels']} labels"
    assert f"judge compared with 1 annotator: {counts}" in table.out
    assert rows(table.out)["share agreed"] == "1.000"
    assert report["metrics"]["share agreed"]["judge"]["value"] == 1.0
    assert "each pair counts the same" in table.out
    assert "\nlabels by extractive/baseline, a word counter\n" in table.out
    assert 'build again: [trust] labels = "FILE"' in " ".join(table.out.split())


def test_disagreements_and_nuggets_are_shown(freshstack: Command, built: Path) -> None:
    judged = next(one for one in Collection.load(built).judgments if one.label == 0)
    ids = {"query_id": judged.query_id, "nugget_id": judged.nugget_id, "annotator": "ada"}
    wrong = HumanLabel(**ids, chunk_id=judged.chunk_id, label=2, note="It is in the table.")
    nugget = NuggetLabel(**ids, precise=True, grounded=True, vital=False)
    answer = AnswerLabel(query_id="1", run_id="r", agrees=True, annotator="ada")
    Path("mixed.jsonl").write_bytes(encode_records([wrong, nugget]))
    Path("answers.jsonl").write_bytes(encode_records([answer]))

    out = freshstack("agree", built, "mixed.jsonl", "--disagreements", 20).out

    assert f"chunk {judged.chunk_id!r}: judge 0, ada 2" in out
    assert "  ada 2: It is in the table." in out
    passage = Collection.load(built).chunk(judged.chunk_id).text
    assert f"  the passage begins:\n    | {passage.splitlines()[0]}"[:80] in out
    assert max(len(line) for line in out.splitlines() if line.startswith("  ")) <= 80
    assert rows(out)["grounded"] == "1.000"
    assert "--answers" in freshstack("agree", built, "answers.jsonl").err


def optimize(freshstack: Command, labels: Path, *words: object) -> Done:
    Path("tune.toml").write_text('[model]\nname = "extractive/baseline"\n')
    return freshstack("optimize", "tune.toml", labels, "--out", "judge.json", *words)


def test_an_optimized_program_is_one_that_a_build_takes(
    freshstack: Command, labels: Path, tmp_path: Path
) -> None:
    done = optimize(freshstack, labels)
    config = write_domain(tmp_path, model=BASELINE, programs={"support_judge": "judge.json"})
    built = freshstack("build", config)

    out = " ".join(done.out.split())
    assert out.startswith(
        "bootstrap for extractive/baseline: 3 queries to train, 1 to choose by, 2 to test (12 pairs) "
    )
    assert "the plain program stays: kappa is 1 already on the train and dev queries " in out
    assert (done.code, built.code) == (0, 0)
    assert load_config(config).programs.named["support_judge"].state == tmp_path / "judge.json"


def test_optimization_is_reported_as_json_and_replaces_nothing_unasked(
    freshstack: Command, labels: Path
) -> None:
    words = ("--optimizer", "labeled", "--json")
    report = json.loads(optimize(freshstack, labels, *words).out)
    again = optimize(freshstack, labels, *words)

    assert (report["optimizer"], report["queries"]["train"]) == ("labeled", 3)
    assert report["test"]["kappa"].keys() == {"before", "after", "difference"}
    assert again.code == 1
    assert "add --replace" in again.err
    assert optimize(freshstack, labels, *words, "--replace").code == 0


def test_any_program_is_tuned_by_a_metric_of_ones_own(
    freshstack: Command, built: Path, tmp_path: Path
) -> None:
    (tmp_path / "mymetrics.py").write_text(
        "import dspy\n\n\n"
        "def words(example, prediction, trace=None):\n"
        "    return len(prediction.expansion.texts[0].split()) / example.wanted\n\n\n"
        "def bootstrap(metric):\n"
        "    return dspy.BootstrapFewShot(metric=metric, max_labeled_demos=0)\n"
    )
    rows = [{"query_id": one.query_id, "wanted": 9} for one in Collection.load(built).queries]
    Path("wanted.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    own = ("--metric", "mymetrics:words", "--optimizer", "mymetrics:bootstrap")
    words = ("--collection", built, *own, "--replace")

    done = optimize(freshstack, Path("wanted.jsonl"), "--program", "question_decomposer", *words)
    imported = optimize(
        freshstack, Path("wanted.jsonl"), "--program", "freshstack_dspy:ClosedBookAnswerer", *words
    )
    unknown = optimize(freshstack, Path("wanted.jsonl"), "--program", "bogus", *words)

    assert (done.code, imported.code) == (0, 0), done.err + imported.err
    assert done.out.startswith("bootstrap for extractive/baseline: 1 queries to train, ")
    assert 'NAME = {program = "freshstack_dspy:ClosedBookAnswerer", state = ' in " ".join(
        imported.out.split()
    )
    assert "no program 'bogus'; allowed: closed_book_answerer, comparer, " in unknown.err
