"""Our nuggetizer and judge as an AutoJudge: merging, settings, and a run by the real runner."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dspy
import pytest

from freshstack_autojudge.judges import (
    CITATION_SUPPORTS,
    Judge,
    Settings,
    asking,
    runner_config,
)
from freshstack_dspy import Nugget, Query
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.records import Importance
from tests.formats.loading import lines_of, needs, stopwords

ROOT = Path(__file__).parents[2]
LOOP = "Each for loop calls the next method until StopIteration is raised. That ends the loop."
SORT = "Lists are sorted in place by the sort method, which returns None."
WORKFLOW = """
nugget_class: "freshstack_autojudge.judges:Nuggets"
qrels_class: "freshstack_autojudge.judges:Qrels"
judge_class: "freshstack_autojudge.judges:Judge"
judge_uses_nuggets: true
settings: {filebase: "{_name}"}
"""
TOPICS = {"191": "When does a for loop stop?", "192": "How are lists sorted?"}
RUNS = {
    "good": {
        "191": "A for loop calls the next method until StopIteration is raised.",
        "192": "The sort method sorts lists in place and returns None.",
    },
    "half": {"191": "The loop calls next until StopIteration is raised.", "192": "Nobody knows."},
    "bad": {"191": "Loops are nice.", "192": "Nobody knows."},
}
EVALUATED = """
good all SCORE 3
half all SCORE 2
bad all SCORE 1
"""


def nugget(text: str, importance: Importance = "vital", **fields: Any) -> Nugget:
    return Nugget(
        **{"nugget_id": "q_0", "query_id": "q", "call_id": None, **fields},
        text=text,
        importance=importance,
    )


def test_nuggets_of_several_responses_are_merged(tmp_path: Path) -> None:
    """Vital ones first, then those that more responses state; one stated twice is there once."""
    first = [
        nugget("Snow is white.", "okay"),
        nugget("Grass is green in May."),
        nugget("A sea is deep."),
    ]
    second = [
        nugget("In May grass is green."),
        nugget("Old.", doubtful=True),
        nugget("Ice is cold."),
    ]
    old = nugget("A sea is deep!", nugget_id="q_7")

    runner = SimpleNamespace(model="extractive/baseline", base_url=None, cache_dir=tmp_path)
    query = Query(query_id="q", title="What?", body="")
    with asking(runner, Settings(limit=3)) as session:
        found = session.merged(query, [old], [first, second])

    assert [(one.nugget_id, one.text) for one in found] == [
        ("q_r1", "In May grass is green."),
        ("q_r2", "Ice is cold."),
    ]


@pytest.mark.parametrize(
    ("model", "base", "name"),
    [
        ("gpt-4o", None, "openai/gpt-4o"),
        ("openai/gpt-4o", None, "openai/gpt-4o"),
        ("Qwen/Qwen3", "http://127.0.0.1:8000/v1", "openai/Qwen/Qwen3"),
        ("anthropic/claude", None, "anthropic/claude"),
        ("extractive/baseline", "http://127.0.0.1:8000/v1", "extractive/baseline"),
    ],
)
def test_the_runner_names_the_model(tmp_path: Path, model: str, base: str, name: str) -> None:
    given = SimpleNamespace(model=model, base_url=base, cache_dir=tmp_path)
    config = runner_config(given, Settings())

    assert config.model.name == name
    assert config.model.api_base == (base if name.startswith("openai/") else None)
    assert config.cache.path == tmp_path / "freshstack"


def test_a_configuration_goes_before_the_runner() -> None:
    given = SimpleNamespace(model="gpt-4o", base_url=None, cache_dir=None)
    config = runner_config(given, Settings(config=ROOT / "examples/quickstart/build.toml"))

    assert (config.model.name, config.name) == ("written/by-hand", "quickstart")


class Sentences(dspy.Module):
    """A nuggetizer that asks nobody."""

    def forward(self, query: Any) -> dspy.Prediction:
        return dspy.Prediction(nuggets=[one.strip(" .") for one in query.answer.split(". ")])


@pytest.mark.parametrize(
    "program", ["tests.autojudge.test_judges:Sentences", Sentences, Sentences()]
)
def test_nuggets_are_made_by_ones_own_program(tmp_path: Path, program: Any) -> None:
    runner = SimpleNamespace(model="extractive/baseline", base_url=None, cache_dir=tmp_path)
    query = Query(query_id="191", title="Loops?", body="", answer=LOOP)
    settings = Settings.model_validate({"programs": {"nuggetizer": program}})

    with asking(runner, settings) as session:
        (nuggets,) = session.each(session.cut, [query])

    assert [one.text for one in nuggets] == LOOP.rstrip(".").split(". ")
    assert not session.failures
    wrong = Settings.model_validate({"programs": {"nugetizer": program}})
    with asking(runner, wrong) as session, pytest.raises(ConfigError, match="no program"):
        session.each(session.cut, [query])


@pytest.mark.formats
@needs("autojudge_base")
def test_wrong_settings_and_missing_nuggets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopwords(tmp_path)
    monkeypatch.setenv("NLTK_DATA", str(tmp_path / "nltk_data"))
    given = SimpleNamespace(model="extractive/baseline", base_url=None, cache_dir=None)
    with pytest.raises(ConfigError, match="limits: Extra inputs"):
        Judge().judge([], [], given, limits=3)
    with pytest.raises(ConfigError, match="nugget_class"):
        Judge().judge([], [], given)
    with pytest.raises(ConfigError, match="nuggets come from responses"):
        Judge().create_nuggets(None, [], given)


def called(folder: Path, name: str, *words: object) -> str:
    """Run a command of theirs, offline."""
    own = {"HOME": str(folder), "OPENAI_MODEL": "extractive/baseline", "CACHE_DIR": "cache"}
    done = subprocess.run(
        [Path(sys.executable).parent / name, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=folder,
        env={
            **os.environ,
            **own,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "plugins/autojudge")]),
        },
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.formats
@needs("autojudge_evaluate")
def test_their_runner_runs_it_and_replays_it(tmp_path: Path) -> None:
    stopwords(tmp_path)
    (tmp_path / "runs").mkdir()
    documents = {id_: {"id": id_, "text": text} for id_, text in (("c1", LOOP), ("c2", SORT))}
    for run, texts in RUNS.items():
        given = [
            {
                "metadata": {"team_id": "t", "run_id": run, "topic_id": topic},
                "responses": [{"text": text, "citations": ["c1"]}],
                "documents": documents,
            }
            for topic, text in texts.items()
        ]
        (tmp_path / "runs" / run).write_text("".join(f"{json.dumps(row)}\n" for row in given))
    topics = [
        {"request_id": id_, "title": text, "problem_statement": ""} for id_, text in TOPICS.items()
    ]
    (tmp_path / "topics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in topics))
    (tmp_path / "w.yml").write_text(WORKFLOW)
    (tmp_path / "truth.txt").write_text(EVALUATED.strip() + "\n")
    words = (
        "run",
        "--workflow",
        "w.yml",
        "--rag-responses",
        "runs/",
        "--rag-topics",
        "topics.jsonl",
    )
    for mode in ("live", "replay"):
        called(tmp_path, "auto-judge", *words, "--out-dir", mode, "--set", f"mode={mode}")

    claim = {"claim": "Old.", "query_id": "191", "references": [{"doc_id": "c9"}]}
    (tmp_path / "old.jsonl").write_text(json.dumps({"query_id": "191", "claim_bank": [claim]}))
    more = ("--out-dir", "d", "--set", "source=documents", "--nugget-banks", "old.jsonl")
    called(tmp_path, "auto-judge", *words, *more)
    banks = lines_of(tmp_path / "d/default.nuggets.jsonl")
    found = [claim for bank in banks for claim in bank["claim_bank"].values()]
    assert {one["doc_id"] for of in found for one in of["references"]} == {"c1", "c2", "c9"}

    out, again = tmp_path / "live", tmp_path / "replay"
    for file in ("nuggets.jsonl", "qrels.txt", "eval.txt", "assignments.jsonl", "citations.jsonl"):
        assert (out / f"default.{file}").read_bytes() == (again / f"default.{file}").read_bytes()
    assert (out / "default.qrels.txt").read_text().splitlines()[-2:] == ["192 0 c1 0", "192 0 c2 1"]
    (claim,) = lines_of(out / "default.nuggets.jsonl")[1]["claim_bank"].values()
    (reference,) = claim["references"]
    assert (claim["claim"], reference["doc_id"], reference["text"]) == (
        RUNS["good"]["192"],
        "c2",
        SORT,
    )
    lines = (out / "default.eval.txt").read_text().splitlines()
    rows = (line.split("\t") for line in lines)
    scores = {run: float(n) for run, *of, n in rows if of == ["all", "A_strict"]}
    assert scores["good"] == 1
    assert scores["good"] > scores["half"] > scores["bad"] == 0
    rows = (line.split("\t") for line in lines)
    cited = {(run, topic): float(n) for run, topic, name, n in rows if name == CITATION_SUPPORTS[0]}
    assert cited["good", "191"] == 1
    assert cited["good", "192"] == 0  # it cites c1, which does not say so

    called(
        tmp_path,
        "auto-judge-evaluate",
        "meta-evaluate",
        *("--truth-leaderboard", "truth.txt", "--truth-format", "ir_measures"),
        *("--eval-format", "ir_measures", "--eval-measure", "A_strict", "--correlation", "kendall"),
        *("--aggregate", "--output", "tau.jsonl", "live/default.eval.txt"),
    )
    (correlation,) = lines_of(tmp_path / "tau.jsonl")
    assert correlation["kendall"] == pytest.approx(1)
