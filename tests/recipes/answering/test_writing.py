"""The folder of answers: what stands there, and when it is replaced."""

import json
from pathlib import Path

import pytest

from freshstack_dspy.errors import ConfigError
from freshstack_dspy.measures.answers import score_agreement
from freshstack_dspy.recipes.answering import writing
from tests.recipes.domain import files_of

from .domain_runs import answering, provider
from .found import read_back, write_to


def test_a_folder_of_something_else_is_not_replaced(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    found = answering(collection, files, provider(), tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("years of work")

    with pytest.raises(ConfigError, match=r"holds 'thesis\.tex' .* would be lost"):
        write_to(other, found, tmp_path / "answer.toml", collection, files)
    assert (other / "thesis.tex").exists()


def test_score_reads_what_is_written(collection: Path, files: list[Path], tmp_path: Path) -> None:
    found = answering(collection, files, provider(), tmp_path)

    scores = score_agreement(read_back(found, tmp_path))

    assert {run.run: run.means["agreement"].value for run in scores.runs} == {
        "bad": 0.0,
        "good": 1.0,
    }


def test_answers_of_other_inputs_are_replaced_only_if_told(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    found = answering(collection, files, provider(), tmp_path)
    out, config = tmp_path / "out", tmp_path / "answer.toml"
    write_to(out, found, config, collection, files)
    before = files_of(out)

    write_to(out, found, config, collection, files)
    assert files_of(out) == before
    with pytest.raises(ConfigError, match=r"answers of other inputs.*depth 10.*depth 3.*--replace"):
        write_to(out, found, config, collection, files, depth=3)
    with pytest.raises(ConfigError, match="answers of other inputs"):
        write_to(out, found, config, collection, files[:1])
    assert files_of(out) == before
    write_to(out, found, config, collection, files, depth=3, replace=True)
    told = json.loads((out / writing.ANSWERING).read_text())
    assert (told["depth"], told["unknown"], told["structured"], told["reasks"]) == (
        3, "refuse", "json_schema", 2,
    )  # fmt: skip


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("kind", ["folder", "link", "text"])
def test_only_regular_files_that_tell_of_answers_are_replaced(
    collection: Path, files: list[Path], tmp_path: Path, kind: str, replace: bool
) -> None:
    found = answering(collection, files, provider(), tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    standing = out / writing.ANSWERING
    if kind == "folder":
        standing.mkdir()
        (standing / "thesis.tex").write_text("years of work")
    elif kind == "link":
        standing.symlink_to(tmp_path / "answer.toml")
    else:
        standing.write_text('{"thesis": "years of work"}')

    with pytest.raises(ConfigError, match="would be lost"):
        write_to(out, found, tmp_path / "answer.toml", collection, files, replace=replace)
    assert standing.exists()
