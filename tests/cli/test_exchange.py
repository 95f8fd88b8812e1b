"""`freshstack export`, `import`, `validate` and `leaderboard`."""

import contextlib
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.collection.small import write_small
from tests.collection.test_leaderboard import write_lists, write_small_board
from tests.formats.odd import write_odd


def test_export_says_what_it_wrote_and_what_it_left_out(
    freshstack: Command, tmp_path: Path
) -> None:
    write_odd(tmp_path / "odd")
    write_small(tmp_path / "c")
    first = freshstack("export", "c", "--format", "beir", "--out", "out")
    second = freshstack("export", "odd", "--format", "trec", "--out", "out")
    replaced = freshstack("export", "odd", "--format", "trec", "--out", "out", "--replace")
    none = freshstack("export", "c", "--out", "no", "--slices", "partly_supported")

    not_measured = "agreement with people: not measured\n"
    assert (first.code, first.out) == (0, f"out: 2 queries and 3 chunks\n{not_measured}")
    assert "2 of 4 queries" in first.err
    assert (second.code, second.out) == (1, "")
    assert "--replace" in second.err
    assert "out is an export, not a collection" in freshstack("evaluate", "out", "x.run").err
    assert replaced.out.endswith("out/ids.json: ids that had to change, and what they were\n")
    assert none.code == 1
    assert "no query is in the slices partly_supported" in none.err


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("--format", "hf"), "--out FOLDER"),
        (("--format", "beir", "--push", "ada/small"), "--out FOLDER"),
        (("--format", "hf", "--push", "ada/small"), "set HF_TOKEN"),
        (("--format", "beir", "--out", "missing.txt/x/y"), "missing.txt"),
    ],
)
def test_export_checks_its_words_first(
    freshstack: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    fault: str,
) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    (tmp_path / "missing.txt").write_text("")
    write_small(tmp_path / "c")
    done = freshstack("export", "c", *words)

    assert done.code == 1
    assert fault in done.err


def test_import_names_who_made_the_labels(freshstack: Command, built: Path, tmp_path: Path) -> None:
    freshstack("export", built, "--format", "beir", "--out", "e")
    done = freshstack("import", "e", "--format", "beir", "--out", "again")

    assert done.code == 0, done.err
    assert "labels by extractive/baseline, a word counter" in done.out
    assert "beir has no nuggets: each query is its own one" in done.err


def test_validate_lists_faults_and_fails(freshstack: Command, tmp_path: Path) -> None:
    write_small(tmp_path / "c")
    whole = freshstack("validate", "c")
    with contextlib.chdir("c"):
        assert freshstack("validate", ".").out == whole.out.replace("c: ", ".: ", 1)
    (tmp_path / "c/skipped.jsonl").unlink()
    broken = freshstack("validate", "c")

    assert whole.code == 0, whole.out
    assert "fault: skipped.jsonl: cannot be read" in broken.out
    assert broken.code == 1
    assert json.loads(freshstack("validate", "c", "--json").out)["format"] == "collection"


@pytest.fixture
def board(tmp_path: Path) -> Path:
    return write_small_board(tmp_path / "board")


def test_leaderboard_has_an_average_and_every_topic(freshstack: Command, board: Path) -> None:
    done = freshstack("leaderboard", board)

    assert done.code == 0, done.err
    for text in ("Small: mean over 2 topics", "one: 2 queries", "two: 2 queries", "0.625",
                 "[0.500, 1.000]", "unjudged ", "no run for two", "labels by openai/some-model"):  # fmt: skip
        assert text in done.out
    assert (board / "leaderboard.json").is_file()


def test_leaderboard_check_writes_nothing_and_fails_where_something_differs(
    freshstack: Command, board: Path
) -> None:
    assert freshstack("leaderboard", board, "--check").code == 1
    freshstack("leaderboard", board)
    stored = (board / "leaderboard.json").read_bytes()
    same = freshstack("leaderboard", board, "--check")
    write_lists(board / "runs/eve.run", "eve", {"12": "code/d.py_3_9"})
    differs = freshstack("leaderboard", board, "--check")

    assert same.code == 0
    assert "as stored: 3 entries" in " ".join(same.out.split())
    assert differs.code == 1
    assert "entries.eve.topics.one.means.Recall@1.value: stored 0.75, now 0.0" in differs.out
    assert (board / "leaderboard.json").read_bytes() == stored


def test_validate_is_a_gate_for_labels_that_are_missing_or_not_calibrated(
    freshstack: Command, tmp_path: Path
) -> None:
    """One pair of this collection has no label, and nobody has labelled any."""
    write_small(tmp_path / "c")

    plain, strict = freshstack("validate", "c"), freshstack("validate", "c", "--strict")
    required = freshstack("validate", "c", "--require", "calibrated")

    assert plain.code == 0, plain.out
    assert (strict.code, required.code) == (1, 1)
    assert "c: pairs without a label: 1, failures: " in strict.err
    assert required.err == "c: agreement with people: not measured\n"
