"""`freshstack optimize --program reranker`: with no labels, planned, and used."""

import sys
from pathlib import Path

import pytest

from freshstack_dspy import write_run
from tests.calibration.ranked import collection, run

from .conftest import Command

MODEL = """
import hashlib, json, sys
prompt = sys.stdin.read()
with open("asked.log", "a") as log:
    log.write(hashlib.sha256(prompt.encode()).hexdigest() + "\\n")
texts = [each["text"] for each in json.loads(prompt[prompt.rindex("\\n\\n{"):])["passages"]]
places = list(range(len(texts)))
if prompt.count("\\n\\n{") > 1 or "quartz" < prompt[prompt.rindex("does ") + 5 :]:
    places.sort(key=lambda place: "cave" in texts[place])
print(json.dumps({"ranking": [place + 1 for place in places]}))
"""
"""It puts passages that hold a fact first for questions from quartz on, and all if shown how."""
OPTIMIZE = (
    *("optimize", "rerank.toml", "given.run", "--program", "reranker"),
    *("--collection", "minerals", "--optimizer", "bootstrap_random"),
)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a collection, a run of candidates, and a model that is a program."""
    monkeypatch.chdir(tmp_path)
    collection().save("minerals")
    write_run(run(), Path("given.run"))
    Path("model.py").write_text(MODEL)
    Path("rerank.toml").write_text(
        f'[model]\nname = "command/{sys.executable} model.py"\nconcurrency = 2\n'
        '[reranker]\nmethod = "listwise"\n[cache]\npath = "replies"\n'
    )
    return tmp_path


def asked() -> list[str]:
    log = Path("asked.log")
    return log.read_text().splitlines() if log.exists() else []


def test_a_reranker_needs_a_collection_and_no_labels(freshstack: Command, desk: Path) -> None:
    words = ("optimize", "rerank.toml", "--program", "reranker", "--out", "reranker.json")

    planned = freshstack(*words, "--collection", "minerals", "--retriever", "bm25", "--plan")
    assert planned.code == 0, planned.err
    assert "optimize: 25 questions" in planned.out
    shown = " ".join(planned.out.split())
    assert "alpha_nDCG@10 is 0.656 in the order of bm25, and 1.000 in the best order" in shown
    assert not Path("reranker.json").exists()
    Path("plain.toml").write_text('[model]\nname = "extractive/baseline"\n')
    for typed, said in (
        (words, "name their --collection"),
        ((*words, "--collection", "minerals", "--retriever", "bm25+rerank"), "is reranked, bm25"),
        (
            ("optimize", "plain.toml", *words[2:], "--collection", "minerals"),
            'write under [reranker]: method = "listwise"',
        ),
        (
            (*words, "--collection", "minerals", "--retriever", "bm25", "--metric", "nDGC@10"),
            "there is no measure 'nDGC@10'",
        ),
        (("optimize", "plain.toml", "--out", "judge.json"), "support_judge is tuned on labels"),
    ):
        refused = freshstack(*typed)
        assert (refused.code, said in refused.err) == (1, True), refused.err
    assert not asked()


@pytest.mark.slow
def test_the_program_of_an_optimization_reranks(freshstack: Command, desk: Path) -> None:
    done = freshstack(*OPTIMIZE, "--out", "tuned.json")
    assert done.code == 0, done.err
    assert len(asked()) == len({*asked()})

    with Path("rerank.toml").open("a") as config:
        config.write('[programs]\nreranker = "tuned.json"\n')
    before = len(asked())
    words = ("--config", "rerank.toml", "--retriever", "bm25+rerank", "--out", "tuned.run")
    retrieved = freshstack("retrieve", "minerals", *words)
    assert retrieved.code == 0, retrieved.err
    assert len(asked()) - before <= 10  # dev and test queries were asked before
