"""What goes wrong is one clean line and an exit code."""

import json
from pathlib import Path

import pytest

from freshstack_dspy.pages.page import one_line
from tests.recipes.domain import write_domain

from .conftest import BASELINE, Command, Done


def assert_one_line(done: Done, said: str) -> None:
    assert done.code == 1, done
    line = done.err.splitlines()[-1]
    assert line.startswith("error: "), done.err
    assert said in line
    assert "Traceback" not in done.err
    assert line.isprintable()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("retrieve gone", "gone: no such collection"),
        ("retrieve folder", "not a collection"),
        ("explain bio.toml 1 a", "bio.toml: not a collection"),
        ("validate bio.toml", "bio.toml: neither a collection nor an export"),
        ("evaluate bio.toml bio.toml", "bio.toml: the qrels are empty"),
        ("optimize x gone.jsonl --out a", "gone.jsonl: cannot be read"),
        ("synthesize gone --config gone.toml --out a", "gone.toml: no such file"),
    ],
)
def test_what_is_missing_or_something_else_is_named(
    freshstack: Command, tmp_path: Path, words: str, said: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "bio.toml").touch()

    assert_one_line(freshstack(*words.split()), said)


def test_a_run_that_is_missing_or_damaged_is_named(
    freshstack: Command, built: Path, tmp_path: Path
) -> None:
    (tmp_path / "damaged.run").write_text("1 Q0 a\n")
    (tmp_path / "questions.jsonl").write_text('{"query_id": "1", "title": "Why?"}\n')
    (tmp_path / "runs").mkdir()

    assert_one_line(freshstack("evaluate", built, "gone.run"), "gone.run: no such file")
    assert_one_line(freshstack("evaluate", built, "damaged.run"), "damaged.run:1: ")
    assert_one_line(freshstack("evaluate", built, "questions.jsonl"), ":1: not a passage: ")
    assert_one_line(freshstack("evaluate", built, "runs"), "runs/*")
    assert_one_line(freshstack("show", built.parent), "not a collection")


@pytest.mark.parametrize(
    "words",
    [
        "",
        "judge",
        "build",
        "build a.toml --mode record",
        "build a.toml --fast",
        "retrieve a --k 0",
        "export a --out b --format ranx",
        "synthesize a --out b --limit 21",
        "requests delete",
    ],
)
def test_wrong_words_are_exit_code_2(freshstack: Command, words: str) -> None:
    done = freshstack(*words.split())

    assert done.code == 2
    assert "Usage: freshstack" in done.out + done.err
    assert "Traceback" not in done.err


def tune() -> Path:
    """A configuration with the baseline as its model."""
    Path("tune.toml").write_text('[model]\nname = "extractive/baseline"\n')
    return Path("tune.toml")


def test_what_cannot_be_written_is_named(
    freshstack: Command, built: Path, labels: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.md").write_text("# Dials\n\nA dial shows the phase of the moon.\n")
    (tmp_path / "file").write_text("")

    for command in (("synthesize", "a.md", "--config", tune()), ("optimize", tune(), labels)):
        assert_one_line(freshstack(*command, "--out", "file/x"), "file/x cannot be written")
    assert_one_line(freshstack("export", built, "--out", "file/x"), "file/x")


@pytest.mark.slow
def test_a_key_never_reaches_the_screen(freshstack: Command, tmp_path: Path) -> None:
    """No server is at the address: the error, with its address and key, is shown redacted."""
    secret = "sk-very-secret-1234"
    model = {
        "name": "openai/some-model",
        "api_base": "http://someone:pass-word@127.0.0.1:9/v1",
        "api_key": secret,
        "retries": 0,
    }

    done = freshstack("build", write_domain(tmp_path, model=model))

    assert_one_line(done, "nobody answers at")
    assert secret not in done.out + done.err
    assert "pass-word" not in done.out + done.err


def test_a_name_of_others_cannot_move_the_cursor(freshstack: Command, tmp_path: Path) -> None:
    """A file name may hold escape sequences; what is printed does not."""
    config = write_domain(tmp_path, model=BASELINE)
    question = {"query_id": "1\x1b[2J", "title": "", "body": "", "answer": "a"}
    (tmp_path / "questions.jsonl").write_text(json.dumps(question))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/\x1b[2J\n.png").write_bytes(b"\x00")
    (tmp_path / "docs/b.md").write_text("# Dials\n\nA dial shows the phase of the moon.\n")

    assert_one_line(freshstack("build", config), "white space and control characters")
    done = freshstack("synthesize", "docs", "--config", tune(), "--out", "q.jsonl")
    assert done.code == 0
    assert "\x1b" not in done.out + done.err
    assert one_line("a\nb\x1b[2Jc\u202ed é – 索") == "a b [2Jc d é – 索"
