"""`freshstack evaluate` and `compare` on a file of qrels."""

import hashlib
import json
from pathlib import Path

import pytest

from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.qrels import read_qrels
from freshstack_dspy.measures.run import read_run

from .conftest import Command

QRELS = "q1 0 d1 2\nq1 0 d2 0\nq1 0 a document 1\nq2 0 d3 1\n"
SUBTOPICS = "q1 1 d1 1\nq1 2 d1 1\nq1 2 d2 1\nq2 1 d3 1\n"


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    (tmp_path / "qrels.txt").write_text(QRELS)
    (tmp_path / "subtopics.txt").write_text(SUBTOPICS)
    (tmp_path / "a.run").write_text("q1 Q0 d1 1 3 a\nq1 Q0 d2 2 2 a\nq2 Q0 d9 1 1 a\n")
    (tmp_path / "b.run").write_text("q1 Q0 d2 1 3 b\nq1 Q0 d1 2 2 b\nq2 Q0 d3 1 1 b\n")


def test_a_file_is_read_as_qrels(freshstack: Command) -> None:
    done = freshstack("evaluate", "qrels.txt", "a.run", "-m", "map", "-m", "ndcg_cut_10")

    means = evaluate(read_qrels("qrels.txt"), read_run("a.run"), ["AP", "nDCG@10"]).means
    assert done.code == 0, done.err
    assert done.out.splitlines()[0] == "qrels.txt: 2 queries"
    assert all(f"{mean:.4f}" in done.out for mean in means.values())


def test_json_has_the_hash_of_the_file(freshstack: Command, tmp_path: Path) -> None:
    sha256 = hashlib.sha256((tmp_path / "qrels.txt").read_bytes()).hexdigest()

    for words in (("evaluate", "qrels.txt", "a.run"), ("compare", "qrels.txt", "a.run", "b.run")):
        found = json.loads(freshstack(*words, "--json").out)
        assert (found["qrels"], found["sha256"]) == ("qrels.txt", sha256)
        assert found.keys().isdisjoint({"collection", "content_hash", "slices"})


def test_the_title_says_whether_subtopics_were_read(freshstack: Command) -> None:
    titles = {
        words: freshstack("evaluate", *words, "a.run").out.splitlines()[0]
        for words in [
            ("subtopics.txt",),
            ("subtopics.txt", "--no-subtopics"),
            ("qrels.txt", "--subtopics"),
        ]
    }

    assert list(titles.values()) == [
        "subtopics.txt: 2 queries, 3 subtopics",
        "subtopics.txt: 2 queries",
        "qrels.txt: 2 queries, 2 subtopics",
    ]


def test_groups_of_ones_own_need_no_collection(freshstack: Command, tmp_path: Path) -> None:
    (tmp_path / "groups.csv").write_text("query_id,group\nq1,x\nq2,y\n")

    done = freshstack("evaluate", "qrels.txt", "a.run", "--groups", "groups.csv")

    assert done.code == 0, done.err
    assert "macro-average" in done.out


def test_runs_are_compared_on_qrels(freshstack: Command) -> None:
    done = freshstack("compare", "subtopics.txt", "a.run", "b.run", "-m", "AP", "--queries", "2")

    assert done.code == 0, done.err
    assert done.out.splitlines()[0] == "subtopics.txt: 2 queries, 3 subtopics"
    assert "│ q2" in done.out


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["--by", "tag"], "--by"),
        (["--slices", "all"], "--slices"),
        (["--exclude-contaminated"], "--exclude-contaminated"),
        (["--format", "freshstack-entry"], "--format freshstack-entry"),
    ],
)
def test_what_needs_a_collection_is_refused(
    freshstack: Command, words: list[str], option: str
) -> None:
    done = freshstack("evaluate", "qrels.txt", "a.run", *words)

    assert done.code == 1
    assert (
        f"qrels.txt is a file of qrels, and {option} needs a collection: name its folder, or leave "
        f"{option} out" in done.err
    )
    assert ("--groups groups.csv" in done.err) == (option == "--by")
    if option in ("--slices", "--exclude-contaminated"):
        assert done.err == freshstack("compare", "qrels.txt", "a.run", "b.run", *words).err


def test_the_columns_of_a_collection_are_not_told(freshstack: Command, built: Path) -> None:
    done = freshstack("evaluate", built, "a.run", "--no-subtopics")

    assert "are told of a file of qrels" in done.err


def test_the_qrels_are_not_written_over(freshstack: Command, tmp_path: Path) -> None:
    done = freshstack("evaluate", "qrels.txt", "a.run", "--per-query", "qrels.txt")

    assert done.code == 1
    assert (tmp_path / "qrels.txt").read_text() == QRELS


def test_a_file_that_is_no_qrels_is_named(freshstack: Command) -> None:
    assert "a.run:1: the grade is 'a'" in freshstack("evaluate", "a.run", "b.run").err
