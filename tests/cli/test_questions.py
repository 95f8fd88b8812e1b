"""`freshstack questions`."""

import json
from pathlib import Path
from typing import Any

LOGS = Path(__file__).parents[1] / "questions/logs"


def test_a_log_is_shown_before_a_build(freshstack: Any, tmp_path: Path) -> None:
    phoenix, answers = LOGS / "phoenix.csv", tmp_path / "mine.jsonl"
    shown = freshstack("questions", phoenix, "--answers", answers).out
    assert "2 questions, asked 3 times" in shown
    assert "[email]" in shown
    assert "example.com" not in shown + answers.read_text()
    data = json.loads(freshstack("questions", phoenix, "--sample", "1", "--json").out)
    assert data["rejected"] == {"not sampled": 1, "the same question as another": 1}
    assert [each["times"] for each in data["sampled"]] == [2]
    written = [json.loads(line) for line in answers.read_text().splitlines()]
    assert {row["text"] for row in written} == {"Use git branch -m.", "It moves commits."}


def test_other_sources_are_counted(freshstack: Any, tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text("query_id,title,answer\n1,How to undo?,Reset.\n2,And redo?,\n")
    config = tmp_path / "build.toml"
    text = 'name = "x"\nout = "x"\n[queries]\nsource = "csv"\npath = "q.csv"\n'
    config.write_text(text + '[[corpus]]\nname = "c"\npath = "."\n')
    shown = freshstack("questions", config).out
    assert "1 question" in shown
    assert "1 no accepted answer" in shown
    assert (
        "--sample and --answers are for logs" in freshstack("questions", config, "--sample", 3).err
    )
