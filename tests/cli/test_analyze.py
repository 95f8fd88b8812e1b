"""`freshstack analyze`."""

import csv
import io
import json
from pathlib import Path

import pytest

from freshstack_dspy import Collection, Run, write_run
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


def test_one_query_is_there_with_its_evidence(freshstack: Command) -> None:
    done = freshstack("analyze", "small", "a.run", "-m", "Coverage@1", "--query", "12")

    assert done.out.startswith("mine, query 12\n  | How? It fails.\n")
    assert "    | bêta" in done.out
    assert freshstack("analyze", "small", "a.run", "--query", "13").code == 1


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


def test_searches_are_the_context_of_all_that_they_showed(
    freshstack: Command, tmp_path: Path
) -> None:
    searches = [{"query_id": "12", "results": of} for of in ([A], [A, B])]
    (tmp_path / "agent.jsonl").write_text("\n".join(map(json.dumps, searches)), encoding="utf-8")
    (tmp_path / "once.run").write_text(f"12 Q0 {A} 1 2 agent\n12 Q0 {B} 2 1 agent\n")
    agent, once = (freshstack("contexts", "small", run) for run in ("agent.jsonl", "once.run"))

    assert agent.out == once.out
    (tmp_path / "texts.jsonl").write_text('{"query_id": "12", "results": [{"text": "alpha"}]}')
    assert (
        "here results are the ids of chunks" in freshstack("contexts", "small", "texts.jsonl").err
    )


def test_groups_of_one_query_are_shown_and_long_ids_leave_a_table_whole(
    freshstack: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, chunk = f"ticket-{'x' * 63}", f"docs/{'y' * 66}"
    Collection.of(
        queries=[{"query_id": query, "title": "How?", "tags": ["urgent"]}],
        nuggets=[
            {"nugget_id": f"{query}_{number}", "query_id": query, "text": "A fact."}
            for number in range(2)
        ],
        judgments=[
            {"nugget_id": f"{query}_{number}", "chunk_id": f"{chunk}{number}", "label": 1}
            for number in range(2)
        ],
    ).save(tmp_path / "tickets")
    write_run(Run.from_scores({query: {f"{chunk}0": 1.0}}, name="mine"), tmp_path / "t.run")
    monkeypatch.setenv("COLUMNS", "80")

    out = freshstack("analyze", "tickets", "t.run", "-m", "Coverage@1").out

    assert next(line.split() for line in out.splitlines() if "urgent" in line)[:8] == [
        *("│", "urgent", "│", "1", "│", "2", "│", "1")
    ]
    (header,) = [line for line in out.splitlines() if "rank ┃" in line]
    assert "supports" in header
    assert len(header) <= 80
