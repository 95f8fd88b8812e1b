"""`freshstack analyze`."""

import csv
import io
import json
from pathlib import Path

import pytest

from freshstack_dspy import Run, write_run
from tests.collection.small import A, B, write_small

from .conftest import Command


@pytest.fixture(autouse=True)
def _runs_of_small(tmp_path: Path) -> None:
    write_small(tmp_path / "small")
    (tmp_path / "main").mkdir()
    found = {"12": {A: 2.0, B: 1.0}, "123": {B: 1.0}}
    write_run(Run.from_scores(found, name="mine"), tmp_path / "a.run")
    write_run(Run.from_scores({"123": {A: 1.0}}, name="mine"), tmp_path / "main/a.run")


def test_the_worst_queries_stand_with_what_they_miss_and_why(freshstack: Command) -> None:
    done = freshstack("analyze", "small", "a.run", "-m", "Coverage@1")

    assert done.code == 0
    assert done.out.startswith("small: what mine misses, by Coverage@1\nmean 0.2500 on 2 queries;")
    for line in (
        "not in corpus: no judged chunk supports it.",
        "12_1 ranked low, rank 2: fact 12_1",
        "123_0 not retrieved: fact 123_0",
        "12_0 found, rank 1: fact 12_0",
    ):
        assert line in done.out
    assert done.out.index("\n123: ") < done.out.index("\n12: ") < done.out.index("\n5: ")
    assert max(map(len, done.out.splitlines())) <= 80


def test_against_another_run_what_was_lost_comes_first(freshstack: Command) -> None:
    done = freshstack(
        *("analyze", "small", "a.run", "--against", "main/a.run"),
        *("-m", "Coverage@1", "--limit", "1", "--format", "markdown"),
    )

    assert done.out.startswith("# small: what a.run misses, against main/a.run, by Coverage@1\n")
    assert "| [123](#123) " in done.out
    assert " | 0.0000 | -1.0000 | 0 of 1 | 1 not retrieved |" in done.out
    assert "## 12: " not in done.out


def test_all_of_it_is_there_as_json_and_csv(freshstack: Command) -> None:
    done = json.loads(freshstack("analyze", "small", "a.run", "-m", "Coverage@1", "--json").out)
    rows = csv.DictReader(
        io.StringIO(freshstack("analyze", "small", "a.run", "--format", "csv").out)
    )

    assert [one["query_id"] for one in done["queries"]] == ["123", "12", "5"]
    assert {row["nugget_id"] for row in rows} == {"12_0", "12_1", "123_0", "5_0"}


def test_steps_are_shown_of_all_queries_and_of_one(freshstack: Command, tmp_path: Path) -> None:
    search = {"query_id": "12", "search": "why", "results": [A]}
    (tmp_path / "agent.jsonl").write_text(f"{json.dumps(search)}\n", encoding="utf-8")
    curve = freshstack("steps", "small", "agent.jsonl")
    told = freshstack("steps", "small", "agent.jsonl", "--query", "12", "--json")

    assert "agent on small: 2 queries" in curve.out
    assert max(map(len, curve.out.splitlines())) <= 80
    assert json.loads(told.out)["searches"][0]["missing"] == ["fact 12_1"]
    analyzed = freshstack("analyze", "small", "agent.jsonl", "--query", "12")
    assert "freshstack steps small agent.jsonl --query 12" in analyzed.out
