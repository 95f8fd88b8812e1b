"""The gate of a change of the retriever, and the steps of the GitHub Action, run as a runner does."""

import json
import re
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


def test_questions_that_the_baseline_lacks_are_named(freshstack: Command, desk: Path) -> None:
    """A baseline of few questions would let every run pass."""
    old = read_run("baseline.run")
    write_run(Run("part", {"1001": old.scores["1001"]}), "part.run")
    done = freshstack("gate", COLLECTION, "--baseline", "part.run", "--run", "worse.run")
    text = " ".join(done.out.split())
    assert "baseline has no results for 15 questions, such as 1002: they count as 0" in text
    assert "new has no results" not in text


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


def test_what_is_lost_is_quoted(freshstack: Command, desk: Path) -> None:
    words = ("gate", COLLECTION, "--baseline", "baseline.run", "--run")
    worse, same = (
        " ".join(freshstack(*words, run).out.split()) for run in ("worse.run", "baseline.run")
    )
    nuggets, questions, shown = map(
        int, re.findall(r"Lost: (\d+) nuggets of (\d+) questions that the first (\d+)", worse)[0]
    )

    assert nuggets > questions > shown // 4
    assert worse.count(" lost; alpha_nDCG@10 ") == 3
    assert re.search(r"\(was rank \d+, not in the results\) \S+_\d+_\d+ “", worse)
    assert "Lost nuggets of other questions: " in worse
    assert "Nothing is lost" in same


RETRIEVERS = {
    "mine": "def search(text):\n    return [next(iter(next(iter(old.scores.values()))))]\n",
    "noise": """
texts = {query.text: query.query_id for query in fs.Collection.load("collections/quickstart").queries}

def search(text):
    ranking = [*old.scores[texts[text]]]
    if int(texts[text]) % 5 == 0:  # two chunks of a few questions change places
        ranking[0], ranking[1] = ranking[1], ranking[0]
    return ranking
""",
}
COMMENTS = """#!/bin/sh
echo "$*" > "$RUNNER_TEMP/arguments"
cp "$RUNNER_TEMP/freshstack.md" "$RUNNER_TEMP/comment.md"
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("retriever", "code", "says"),
    [
        ("hybrid", 0, "**Cannot tell yet**"),
        ("noise:search", 0, "**Cannot tell yet**"),
        ("mine:search", 5, "## Lost: "),
        ("changed", 6, "**The documents changed**"),
        ("nobody", 1, "no retriever"),
    ],
)
def test_the_steps_of_the_action(desk: Path, retriever: str, code: int, says: str) -> None:
    """As a runner runs them: nothing in the environment but what it sets, a new home, two files."""
    for name, text in RETRIEVERS.items():
        begin = 'import freshstack_dspy as fs\n\nold = fs.read_run("baseline.run")\n'
        (desk / f"{name}.py").write_text(begin + text)
    if retriever == "changed":
        retriever = "hybrid"
        (page, *_) = sorted((desk / "examples/quickstart").rglob("xylochron/README.md"))
        page.write_text(page.read_text() + "\nAnd one more thing about rings and years.\n")
    (desk / "bin").mkdir()
    (desk / "bin/gh").write_text(COMMENTS)
    (desk / "bin/gh").chmod(0o755)
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    inputs = {name: str(each.get("default", "")) for name, each in action["inputs"].items()}
    inputs |= {"config": "examples/quickstart/build.toml", "baseline": "baseline.run"}
    inputs |= {"retriever": retriever, "token": "token"}
    known = {f"inputs.{name}": value for name, value in inputs.items()} | {
        "github.event.number": "7",
        "github.event_name": "pull_request",
    }
    files = {name: desk / name.lower() for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    clean = {"HOME": str(desk / "home"), "RUNNER_TEMP": str(desk)}
    clean |= {name: str(file) for name, file in files.items()}
    clean["PATH"] = f"{Path(sys.executable).parent}:{desk}/bin:/usr/bin:/bin"
    steps = [
        each
        for each in action["runs"]["steps"]
        if "pip install" not in each.get("run", "pip install")
    ]
    codes = []
    for step in steps:
        values = {
            name: known[value.removeprefix("${{ ").removesuffix(" }}")]
            for name, value in step["env"].items()
        }
        run = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        codes.append(subprocess.run(run, env=clean | values, cwd=desk, check=False).returncode)

    assert codes == [code, 0]
    assert files["GITHUB_OUTPUT"].read_text() == f"code={code}\n"
    assert says in files["GITHUB_STEP_SUMMARY"].read_text()
    assert (desk / "comment.md").read_text() == files["GITHUB_STEP_SUMMARY"].read_text()
    assert (desk / "arguments").read_text().startswith("pr comment 7 --body-file")
