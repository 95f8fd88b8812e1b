"""`freshstack index`, `search`, `retrieve` and `fuse`: what they print, and what is an error."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from freshstack_dspy import Collection, evaluate, read_run
from freshstack_dspy.index import models
from freshstack_dspy.stored.passages import read_passages
from tests.index.pieces import Letters

from .conftest import Command


@pytest.fixture
def indexed(freshstack: Command, config: Path) -> Path:
    """A configuration with an index."""
    assert freshstack("index", config).code == 0
    return config


def test_index_builds_and_then_keeps_up_to_date(
    freshstack: Command, config: Path, tmp_path: Path
) -> None:
    first = freshstack("index", config)
    (tmp_path / "corpus/docs/dial.md").write_text("# The dial\n\nIt shows the tide.\n")
    (tmp_path / "corpus/docs/reset.md").unlink()
    second, third = freshstack("index", config), freshstack("index", config)
    found = json.loads(freshstack("index", config, "--json").out)

    assert (first.code, second.code, third.code) == (0, 0, 0)
    assert "5 chunks of 5 files" in " ".join(first.out.split())
    assert "retrievers: bm25, lsa, hybrid" in first.out.splitlines()
    assert first.out.splitlines()[-1] == "1 file skipped (1 binary)"
    assert third.out == second.out
    assert (found["chunks"], found["files"], found["skipped"]) == (4, 4, 1)
    assert "1 of 1 files" in second.err
    assert [line.split("  ")[0] for line in third.err.splitlines()] == ["files", "chunks"]


def test_search_prints_rank_score_id_and_the_line_with_the_words(
    freshstack: Command, indexed: Path
) -> None:
    words = ("search", indexed, "reset", "twice", "--retriever", "bm25")
    done = freshstack(*words)
    found = json.loads(freshstack(*words, "--k", 1, "--json").out)

    assert done.code == 0
    assert [(chunk["rank"], chunk["path"]) for chunk in found] == [(1, "docs/reset.md")]
    assert freshstack("search", indexed, "zzz", "--retriever", "bm25").out == "nothing found\n"
    first, second = done.out.splitlines()[:2]
    rank, score, chunk_id = first.split("  ")[-3:]
    assert (rank.strip(), chunk_id.split("_")[0]) == ("1", "dial/docs/reset.md")
    assert float(score) > 0
    assert second == "    If the dial sticks, call reset twice."


def test_what_is_found_moves_no_cursor(freshstack: Command, config: Path, tmp_path: Path) -> None:
    hostile = "\n\n dial \x1b[2J\x1b[31m \x9b2J \u202e red\u2028 dial and more\n" + "Words.\n" * 40
    (tmp_path / "corpus/docs/hostile.md").write_text(hostile, encoding="utf-8", newline="")
    freshstack("index", config)

    found = freshstack("search", config, "red", "--retriever", "bm25").out

    assert "hostile.md" in found
    assert all(letter.isprintable() for letter in found.replace("\n", ""))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--retriever", "bm52"), "no retriever 'bm52'; there are: bm25, lsa, hybrid"),
        (("--retriever", "hybrid+rerank"), "needs a reranker"),
    ],
)
def test_a_search_that_cannot_be_done_is_one_line(
    freshstack: Command, indexed: Path, words: tuple[str, ...], said: str
) -> None:
    done = freshstack("search", indexed, "dial", *words)

    assert (done.code, done.out) == (1, "")
    assert len(done.err.splitlines()) == 1
    assert said in done.err


def test_retrieve_writes_a_run_for_every_query_with_a_nugget(
    freshstack: Command, built: Path, tmp_path: Path
) -> None:
    done = freshstack("retrieve", built, "--retriever", "bm25", "--k", 2)
    named = freshstack("retrieve", built, "--out", "runs/mine.run")

    queries = {nugget.query_id for nugget in Collection.load(built).nuggets}
    assert (done.code, " ".join(done.out.split())) == (
        0,
        (
            f"bm25.run: {len(queries)} queries by bm25 "
            f"measure it: freshstack evaluate {built} bm25.run"
        ),
    )
    run = read_run(tmp_path / "bm25.run")
    assert set(run.rankings) <= queries
    assert max(map(len, run.rankings.values())) == 2
    assert named.out.startswith(f"runs/mine.run: {len(queries)} queries by hybrid\n")


def test_retrieve_overwrites_nothing_unless_told(
    freshstack: Command, built: Path, tmp_path: Path
) -> None:
    """It overwrote a file of questions."""
    questions = tmp_path / "keep.jsonl"
    questions.write_text("mine")
    words = ("retrieve", built, "--retriever", "bm25", "--out", questions)

    done = freshstack(*words)

    assert (done.code, "add --replace" in done.err) == (1, True)
    assert questions.read_text() == "mine"
    assert freshstack(*words, "--replace").code == 0
    assert read_passages(questions)


def test_retrieve_takes_an_embedder_without_a_configuration(
    freshstack: Command, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On any collection, also an imported one."""

    class Folder(Letters):
        def __init__(self, config: object, engine: object) -> None:
            super().__init__(config.name)  # type: ignore[attr-defined]

        def close(self) -> None: ...

    monkeypatch.setattr(models, "FolderEmbedder", Folder)
    (tmp_path / "models/mini lm.v2").mkdir(parents=True)

    alone = freshstack("retrieve", built, "--embedder", "models/mini lm.v2")
    fused = freshstack(
        "retrieve", built, "--embedder", "models/mini lm.v2", "--retriever", "hybrid"
    )

    assert (alone.code, alone.err.count("error")) == (0, 0)
    assert alone.out.startswith("mini-lm.v2.run: 3 queries by mini-lm.v2")
    assert fused.out.startswith("hybrid.run: 3 queries by hybrid")
    scores = [score for _, score in read_run(tmp_path / "mini-lm.v2.run").rankings["2"]]
    assert scores == sorted(scores, reverse=True)
    assert np.all(np.array(scores) <= 1)


OWN = """
def search(text, k):
    return [{"path": "docs/reset.md", "text": "If the dial sticks"}, {"path": "no.md", "text": "x"}][:k]

def make():
    return lambda text: ["dial/docs/reset.md_0_60"]

def stale(text):
    return ["dial/docs/reset.md_0_61", "dial/docs/reset.md_0_60"]

def broken(text):
    raise ValueError("two\\nlines")
"""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[str]:
    """A module in the current folder, with retrievers."""
    name = f"own_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(OWN)
    path = list(sys.path)
    yield name
    sys.path[:] = path


def test_a_retriever_of_ones_own_gives_passages(
    freshstack: Command, built: Path, own: str, tmp_path: Path
) -> None:
    done = freshstack("retrieve", built, "--retriever", f"{own}:search")
    lines = [json.loads(line) for line in (tmp_path / "search.jsonl").read_text().splitlines()]

    assert done.out.startswith("search.jsonl: 3 queries by search, at most 2 results each\n")
    assert done.err.count("warning: 3 of 6 results of search cannot be placed") == 1
    freshstack("retrieve", built, "--retriever", "bm25")
    gate = freshstack("gate", built, "--baseline", "bm25.run", "--retriever", f"{own}:search")
    assert gate.code == 1
    assert "UserWarning" not in gate.err
    assert gate.err.count("warning: 3 of 6 results of search cannot be placed") == 1
    stale = freshstack("retrieve", built, "--retriever", f"{own}:stale", "--out", "stale.run")
    assert (stale.code, (tmp_path / "stale.run").exists()) == (1, False)
    assert "such as 'dial/docs/reset.md_0_61': its index is of another version" in stale.err
    place = {"source": "dial", "path": "docs/reset.md", "start": 22, "end": 40}
    assert lines[0] == {"query_id": "10", **place, "score": -1.0}
    assert lines[3:] == [{"query_id": q, "path": None, "score": -2.0} for q in ("10", "2", "x")]
    assert (
        "search.jsonl exists" in freshstack("retrieve", built, "--retriever", f"{own}:search").err
    )
    oracle = freshstack("retrieve", built, "--retriever", f"{own}:search", "--with", "answer")
    renamed = (tmp_path / "search@answer.jsonl").rename(tmp_path / "renamed.jsonl")
    assert (oracle.code, evaluate(built, renamed).run) == (0, "search@answer")
    one = freshstack("retrieve", built, "--retriever", f"{own}:search", "--k", 1, "--replace")
    assert (one.code, "warning" in one.err) == (0, False)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:search", "--retriever no_such_module:search: No module named 'no_such"),
        ("{}:serach", "has no serach; did you mean {}:search?"),
        ("{}:broken", "broken raised ValueError: two lines, at query '10', after 0 of 3"),
        ("{}.search", "one of your own is package.module:name"),
    ],
)
def test_a_retriever_that_cannot_be_used_is_one_line(
    freshstack: Command, built: Path, own: str, name: str, message: str
) -> None:
    done = freshstack("retrieve", built, "--retriever", name.format(own))

    assert done.code == 1
    assert message.format(own) in done.err
    assert done.err.splitlines()[-1].startswith("error: ")


def test_a_shortlist_is_one_command(
    freshstack: Command, built: Path, config: Path, tmp_path: Path
) -> None:
    """Of the configuration of a build, whose documents need not be there."""
    words = ("retrieve", built, "--all", config, "--k", 2)

    done = freshstack(*words, "--out", "runs")
    (tmp_path / "runs/lsa.run").write_text("mine\n")
    kept = freshstack(*words, "--out", "runs")

    lines = [f"runs/{name}.run: {name}" for name in ("bm25", "lsa", "hybrid")]
    assert done.out.splitlines()[:3] == lines
    assert (kept.code, kept.err.count("\n")) == (1, 1)
    assert "runs/lsa.run" in kept.err
    assert "--replace" in kept.err
    assert freshstack(*words, "--out", "runs", "--replace").code == 0
    oracles = freshstack(*words, "--out", "runs", "--with", "nuggets")
    lines = [f"runs/{name}@nuggets.run: {name}@nuggets" for name in ("bm25", "lsa", "hybrid")]
    assert oracles.out.splitlines()[:3] == lines


def test_run_files_of_any_systems_are_fused_by_the_names_of_their_files(
    freshstack: Command, tmp_path: Path
) -> None:
    (tmp_path / "a.run").write_text("1 Q0 x 1 2.0 indri\n1 Q0 y 2 1.0 indri\n")
    (tmp_path / "b.run").write_text("1 Q0 y 1 9.0 indri\n1 Q0 z 2 8.0 indri\n")
    words = ("fuse", "a.run", "b.run", "--out", "fused.run", "--replace")

    done = freshstack(*words, "--weight", "a.run=0.5", "--name", "ours", "--k", 2)

    assert done.out == "fused.run: 1 query by ours of a.run and b.run\n"
    assert (tmp_path / "fused.run").read_text() == "1 Q0 y 1 1.0 ours\n1 Q0 x 2 0.5 ours\n"
    for weight, fault in (("a=1", "there are: a.run, b.run"), ("a.run=-1", "weights.'a.run'")):
        assert fault in freshstack(*words, "--weight", weight).err
    assert "twice" in freshstack(*words, "--weight", "a.run=2", "--weight", "a.run=0").err
    assert "a run is named twice" in freshstack("fuse", "a.run", *words[1:]).err
