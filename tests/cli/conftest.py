"""The command line, called as its entry point is."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from freshstack_dspy import Collection, build, load_config
from freshstack_dspy.calibration.labels import pair_of
from freshstack_dspy.cli import main
from freshstack_dspy.files import encode_records
from tests.calibration.people import label, synthetic_labels
from tests.recipes.domain import write_domain

BASELINE = {"name": "extractive/baseline", "concurrency": 2}


class Done(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


Command = Callable[..., Done]


@pytest.fixture
def freshstack(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Command:
    """Run a command in the test's folder."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["freshstack", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            main()
        code = left.value.code
        assert isinstance(code, int | None)
        return Done(code or 0, *capsys.readouterr())

    return run


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration whose model is the baseline."""
    return write_domain(tmp_path, model=BASELINE)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a collection that no test changes."""
    folder = tmp_path_factory.mktemp("built")
    build(load_config(write_domain(folder, model=BASELINE)))
    return folder / "collection"


@pytest.fixture
def built_config(built: Path, tmp_path: Path) -> Path:
    """The configuration of a copy of that build, whose replies are recorded."""
    shutil.copytree(built.parent, tmp_path, dirs_exist_ok=True)
    return tmp_path / "build.toml"


@pytest.fixture
def desk(freshstack: Command, built: Path, tmp_path: Path) -> Path:
    """A copy of the collection with two runs and the configuration of a model."""
    shutil.copytree(built, tmp_path / "collection")
    for name in ("bm25", "lsa"):
        done = freshstack("retrieve", "collection", "--retriever", name)
        assert done.code == 0, done.err
    (tmp_path / "judge.toml").write_text('[model]\nname = "extractive/baseline"\n')
    return tmp_path


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    """Labels with their texts, for optimizing."""
    path = tmp_path / "labels.jsonl"
    path.write_bytes(encode_records(synthetic_labels()))
    return path


@pytest.fixture
def labels_of_built(tmp_path: Path, built: Path) -> Path:
    """Labels of the collection's judged pairs, by one who always agrees with the judge."""
    return write_labels(tmp_path / "agreeing.jsonl", built, "ada")


def write_labels(path: Path, collection: Path, *annotators: str) -> Path:
    """Write labels of people who always agree with the judge."""
    labels = [
        label(*pair_of(judgment), judgment.label, annotator)
        for judgment in Collection.load(collection).judgments
        if judgment.label is not None
        for annotator in annotators
    ]
    path.write_bytes(encode_records(labels))
    return path
