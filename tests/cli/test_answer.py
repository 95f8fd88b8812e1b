"""`freshstack answer`, as it is typed."""

import json
import re
from pathlib import Path

from tests.recipes.domain import files_of

from .conftest import Command


def test_answers_are_written_and_what_they_are_worth_is_said(
    freshstack: Command, desk: Path
) -> None:
    words = ("answer", "collection", "bm25.run", "lsa.run", "--config", "judge.toml")

    done = freshstack(*words, "--out", "answers", "--k", "5")
    saved = freshstack("replies", "export", "judge.toml", "--all", "--out", "all.jsonl")
    assert saved.code == 0, saved.err
    elsewhere = '[model]\nname = "extractive/baseline"\n[cache]\npath = "empty"\n'
    (desk / "theirs.toml").write_text(f'{elsewhere}bundles = ["all.jsonl"]\n')
    theirs = (*words[:-1], "theirs.toml")
    again = freshstack(*theirs, "--out", "again", "--k", "5", "--mode", "replay")
    over = freshstack(*words, "--out", "answers", "--k", "5", "--mode", "replay")

    assert done.code == again.code == 0, done.err + again.err
    assert over.code == 1
    assert "answers exists; add --replace" in over.err
    assert "agreement: with the answers from the gold chunks, top 5" in done.out
    assert done.out.startswith("dry run:")
    assert "Coverage@5" in done.out
    assert "judged by extractive/baseline, a word counter" in done.out
    assert all(len(line) <= 80 for line in done.out.splitlines() if line[:1] in "┏┃│└")
    assert "answers: 4 answers from 2 runs" in done.out
    assert files_of(desk / "answers") == files_of(desk / "again")
    account = json.loads((desk / "answers" / "answering.json").read_text())
    assert (account["k"], account["queries"], account["model"]) == ([5], 2, "extractive/baseline")
    scored = freshstack("score", "agreement", "answers/agreement.jsonl")
    assert scored.code == 0, scored.err


def test_answers_from_an_oracle_are_compared_with_none(freshstack: Command, desk: Path) -> None:
    assert freshstack("retrieve", "collection", "--with", "nuggets").code == 0
    words = ("collection", "bm25.run", "hybrid@nuggets.run")

    done = freshstack("answer", *words, "--config", "judge.toml", "--out", "answers", "--k", "5")
    shown = freshstack("report", *words, "--answers", "answers")

    assert (done.code, shown.code) == (0, 0), done.err + shown.err
    assert "hybrid@nuggets" in done.out
    assert "differences" not in done.out


def test_a_plan_counts_what_is_then_asked(freshstack: Command, desk: Path) -> None:
    words = ["answer", "collection", "bm25.run", "--config", "judge.toml", "--out", "answers"]
    words += ["--k", "1", "--k", "2", "--comparer", "graded"]

    def total(text: str) -> list[int]:
        (row, *_) = re.findall(r"│ ?total +│ *(\d+) │ *(\d+) │", text)
        return [int(each) for each in row]

    before = freshstack(*words, "--plan")
    assert before.code == 0, before.err
    assert not (desk / "answers").exists()
    done = freshstack(*words)
    assert done.code == 0, done.err
    after = freshstack(*words, "--plan", "--replace")

    asked = sum(int(each) for each in re.findall(r"(\d+) calls", done.err))
    requests, recorded = total(before.out)
    assert requests - recorded == asked > 0
    assert total(after.out) == [requests, requests]
    as_json = json.loads(freshstack(*words, "--plan", "--replace", "--json").out)
    assert sum(step["requests"] for step in as_json["steps"]) == requests


def test_answers_of_a_system_are_planned_judged_and_replayed(
    freshstack: Command, desk: Path
) -> None:
    rows = [
        {"query_id": "2", "text": "Install it with pip.", "citations": ["gone"]},
        {"query_id": "10", "text": "Call reset twice."},
    ]
    (desk / "mine.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    words = ("answer", "collection", "--answers", "mine.jsonl", "--config", "judge.toml")

    plan = json.loads(freshstack(*words, "--out", "answers", "--plan", "--json").out)
    done = freshstack(*words, "--out", "answers")
    again = freshstack(*words, "--out", "again", "--mode", "replay")

    assert done.code == again.code == 0, done.err + again.err
    asked = sum(int(each) for each in re.findall(r"(\d+) calls", done.err))
    assert sum(step["requests"] for step in plan["steps"]) == asked > 0
    assert files_of(desk / "answers") == files_of(desk / "again")
    assert not (desk / "answers" / "agreement.jsonl").read_text()  # no run, no gold answers
    assert done.out.startswith("dry run:")
    assert done.out.index("right") < done.out.index("mean")
    assert "mine to 2: the collection has no chunk 'gone'" in done.out
    for kind, name in (
        ("agreement", "accepted"),
        ("assignments", "assignments"),
        ("checks", "checks"),
    ):
        scored = freshstack("score", kind, f"answers/{name}.jsonl")
        assert (scored.code, "mine" in scored.out) == (0, True), scored.err
    (desk / "mine.run").write_text((desk / "bm25.run").read_text().replace(" bm25", " mine"))
    shown = freshstack("report", "collection", "mine.run", "--answers", "answers")
    assert shown.code == 0, shown.err
    assert "accepted answer" in (desk / "report.html").read_text()
    assert freshstack("answer", "collection", *words[4:], "--out", "none").code == 2


def test_a_comparer_has_a_name_and_a_threshold(freshstack: Command, desk: Path) -> None:
    words = ("answer", "collection", "bm25.run", "--config", "judge.toml", "--out", "answers")

    for wrong in ("bleu", "bleu=0.5", "token_f1=high"):
        done = freshstack(*words, "--comparer", wrong)
        assert done.code == 1
        assert f"--comparer {wrong}: allowed: yes_no, graded" in done.err
    done = freshstack(*words, "--comparer", "token_f1=0.25", "--comparer", "exact_match")
    assert done.code == 0, done.err
    assert "by token_f1 ≥ 0.25; next to it exact_match ≥ 1" in " ".join(done.out.split())
    account = json.loads((desk / "answers" / "answering.json").read_text())
    assert account["comparers"] == {"token_f1": 0.25, "exact_match": 1.0}


def test_a_writer_without_a_key_is_refused_before_anything_is_asked(
    freshstack: Command, desk: Path
) -> None:
    writers = {"generator": "openai/first", "gold_generator": "openai/second"}
    for role, name in writers.items():
        (desk / "keyless.toml").write_text(
            f'[model]\nname = "extractive/baseline"\n[{role}]\nmodel = "{name}"\n'
        )
        words = ("answer", "collection", "bm25.run", "--config", "keyless.toml", "--out", "a")

        done = freshstack(*words)

        assert (done.code, f"{name} has no key" in done.err) == (1, True), done.err
        assert "calls" not in done.err
