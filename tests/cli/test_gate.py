"""The gate of a change of the retriever, and the steps of the GitHub Action, run as a runner does."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from freshstack_dspy import Run, build, read_run, retrieve, write_run

from .conftest import Command

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample, its replies, and the run of a baseline."""
    folder = tmp_path_factory.mktemp("sample")
    for name in ("examples", "caches"):
        shutil.copytree(ROOT / name, folder / name)
    collection = build(folder / "examples/quickstart/build.toml", mode="replay")
    run = retrieve(collection, "hybrid", index_path=folder / ".freshstack/index")
    write_run(run, folder / "baseline.run")
    worse = {query: dict([*scores.items()][20:]) for query, scores in run.scores.items()}
    write_run(Run("worse", worse), folder / "worse.run")
    return folder


@pytest.fixture
def desk(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(sample, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


COLLECTION = "collections/quickstart"


@pytest.mark.parametrize(
    ("new", "options", "code"),
    [
        ("baseline.run", (), 0),
        ("baseline.run", ("--strict",), 7),  # 16 questions cannot show that nothing changed
        ("baseline.run", ("--strict", "--matters", ".3"), 0),
        ("worse.run", (), 5),
    ],
)
def test_what_may_be_merged(
    freshstack: Command, desk: Path, new: str, options: tuple[str, ...], code: int
) -> None:
    done = freshstack("gate", COLLECTION, "--baseline", "baseline.run", "--run", new, *options)
    assert done.code == code, done.err
    data = json.loads(
        freshstack("gate", COLLECTION, "--baseline", "baseline.run", "--run", new, "--json").out
    )
    (decision,) = data["comparison"]["decisions"]
    assert (decision["run"], decision["against"]) == ("new", "baseline")
    assert (data["analysis"]["run"], data["analysis"]["against"]) == ("new", "baseline")


def test_what_is_worse_and_not_decided_is_said_to_be_worse(freshstack: Command, desk: Path) -> None:
    """Ties are in the order of the ids: most of the new top is unjudged, and it is found lower."""
    old = read_run("baseline.run")
    write_run(
        Run("ties", {query: dict.fromkeys(scores, 1.0) for query, scores in old.scores.items()}),
        "ties.run",
    )
    done = freshstack("gate", COLLECTION, "--baseline", "baseline.run", "--run", "ties.run")
    assert done.code == 5
    assert "Worse: a difference was found: new is lower than baseline" in done.out


def test_changed_documents_are_no_regression(freshstack: Command, desk: Path) -> None:
    config = desk / "examples/quickstart/build.toml"
    (page, *_) = sorted((desk / "examples/quickstart").rglob("xylochron/README.md"))
    page.write_text(page.read_text() + "\nAnd one more thing about rings and years.\n")
    done = freshstack("gate", config, "--baseline", "baseline.run", "--retriever", "bm25")
    assert done.code == 6
    assert "documents changed" in done.out
    old = read_run("baseline.run")
    gone = {
        query: {f"old/{chunk}": 1.0 for chunk in scores} for query, scores in old.scores.items()
    }
    write_run(Run("gone", gone), "gone.run")
    done = freshstack("gate", COLLECTION, "--baseline", "gone.run", "--run", "baseline.run")
    assert done.code == 6


def test_one_new_run_is_needed(freshstack: Command, desk: Path) -> None:
    assert freshstack("gate", COLLECTION, "--baseline", "baseline.run").code == 1


@pytest.mark.slow
@pytest.mark.parametrize(("retriever", "code"), [("hybrid", 0), ("mine:search", 5), ("nobody", 1)])
def test_the_steps_of_the_action(desk: Path, retriever: str, code: int) -> None:
    """As a runner runs them: inputs in the environment, the summary and the outputs in files."""
    first = next(chunk for scores in read_run("baseline.run").scores.values() for chunk in scores)
    (desk / "mine.py").write_text(f"def search(text):\n    return [{first!r}]\n")
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    (step,) = [each for each in action["runs"]["steps"] if each.get("id") == "gate"]
    inputs = {name: str(each.get("default", "")) for name, each in action["inputs"].items()}
    inputs |= {"config": "examples/quickstart/build.toml", "baseline": "baseline.run"}
    inputs |= {"retriever": retriever}
    values = {
        name: inputs[value.removeprefix("${{ inputs.").removesuffix(" }}")]
        for name, value in step["env"].items()
    }
    files = {name: desk / name.lower() for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, **values, **{name: str(file) for name, file in files.items()}}
    env |= {"RUNNER_TEMP": str(desk), "PATH": path}
    done = subprocess.run(["bash", "-e", "-c", step["run"]], env=env, cwd=desk, check=False)
    assert done.returncode == code
    assert files["GITHUB_OUTPUT"].read_text() == f"code={code}\n"
    said = files["GITHUB_STEP_SUMMARY"].read_text()
    assert ("no retriever" if code == 1 else "# quickstart") in said
