"""`freshstack score`."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Command


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def assigned(run: str, query: str, *pairs: tuple[str, str | None]) -> dict[str, Any]:
    nuggets = [
        {"text": f"n{place}", "importance": importance, "assignment": assignment}
        for place, (importance, assignment) in enumerate(pairs)
    ]
    return {"run_id": run, "qid": query, "nuggets": nuggets}


@pytest.fixture
def assignments(tmp_path: Path) -> Path:
    return write(
        tmp_path / "assignments.jsonl",
        assigned("a", "1", ("vital", "support"), ("okay", "not_support")),
        assigned("a", "2", ("vital", "failed"), ("okay", "support")),
        assigned("b", "1", ("vital", "partial_support"), ("okay", "not_support")),
    )


def test_assignments_have_a_row_for_each_run_and_what_was_missing(
    freshstack: Command, assignments: Path
) -> None:
    done = freshstack("score", "assignments", assignments)
    as_json = freshstack("score", "assignments", assignments, "--json")

    assert done.code == 0, done.err
    text = " ".join(done.out.split())
    assert done.out.startswith("2 runs, 2 queries; each query the same weight")
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.out.splitlines()]
    assert ["V_strict", "a", "1.0000", "–"] in rows
    assert ["a", "2", "4", "1", "0", "0"] in rows
    assert max(map(len, done.out.splitlines())) <= 80
    assert "1 nuggets without an assignment: they do not count" in text
    assert "they do not count, such as that of 'b' to query '2'" in text
    assert "as V_strict of a: none of 1 nuggets has an assignment" in text
    assert json.loads(as_json.out)["runs"][0]["means"]["V"] == 1


def test_runs_of_answers_are_compared_with_tests(freshstack: Command, tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        *(assigned("a", str(query), ("vital", "support")) for query in range(12)),
        *(assigned("b", str(query), ("vital", "not_support")) for query in range(12)),
    )

    done = freshstack("score", "assignments", path, "--compare", "--json")
    alone = freshstack("score", "assignments", write(path, assigned("a", "1")), "--compare")

    difference = json.loads(done.out)["comparison"]["differences"][0]
    assert (difference["run"], difference["verdict"]) == ("b", "lower")
    assert alone.code == 1


def test_citations(freshstack: Command, tmp_path: Path) -> None:
    cited = [[{"reference": "d", "support": 1}], [{"reference": None, "support": 2}], []]
    sentences = [{"sentenceID": place, "citations": each} for place, each in enumerate(cited)]
    path = write(
        tmp_path / "support.jsonl", {"run_id": "r", "topic_id": "1", "sentences": sentences}
    )

    shown = freshstack("score", "citations", path)
    table = freshstack("score", "citations", path, "--format", "csv").out

    assert "1 citations outside of the references: they support nothing" in shown.out
    (row,) = csv.DictReader(io.StringIO(table))
    assert (row["weighted_precision_first"], row["outside"]) == ("0.25", "1")


def test_a_leaderboard_is_written_and_read(
    freshstack: Command, assignments: Path, tmp_path: Path
) -> None:
    """In its means a topic that a run does not answer counts 0; a failure has no row."""
    board = tmp_path / "eval.txt"
    done = freshstack("score", "assignments", assignments, "--leaderboard", board)
    again = freshstack("score", "assignments", assignments, "--leaderboard", board)
    read = freshstack("score", "leaderboard", board, "--json")
    lines = board.read_text().splitlines()
    means = {run["run"]: run["means"]["A"] for run in json.loads(read.out)["runs"]}

    assert done.code == 0, done.err
    assert (again.code, "exists" in again.err) == (1, True)
    assert [line for line in lines if "\tA\t" in line] == [
        "a\t1\tA\t0.5",
        "a\t2\tA\t1.0",
        "b\t1\tA\t0.25",
        "a\tall\tA\t0.75",
        "b\tall\tA\t0.125",
    ]
    assert "a\t2\tV" not in board.read_text()
    assert means == {"a": 0.75, "b": 0.25}
