"""`freshstack leaderboard`, as it is typed."""

import csv
import io
import json
from pathlib import Path

import pytest

from freshstack_dspy.cli.leaderboard_progress import LateProgress
from freshstack_dspy.measures.evaluation import FRESHSTACK_MEASURES, MEASURES_VERSION
from tests.collection.leaderboard.boards import edit, write_lists, write_small_board

from .conftest import Command


@pytest.fixture
def board(tmp_path: Path) -> Path:
    return write_small_board(tmp_path / "board")


def test_the_table_has_an_average_and_every_topic_with_intervals_and_holes(
    freshstack: Command, board: Path
) -> None:
    done = freshstack("leaderboard", board)

    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[:2] == ["Small, of the topics one, two", "mean over 2 topics"]
    assert [line.split(",")[0] for line in lines if "content" in line] == [
        "one: 2 queries",
        "two: 2 queries",
    ]
    assert "0.6250" in done.out
    assert "0.500–1.000" in done.out
    assert "unjudged" in done.out
    assert lines[-1] == f"{board}/leaderboard.json written, measures version {MEASURES_VERSION}"


def test_a_missing_topic_is_a_dash_and_no_0(freshstack: Command, board: Path) -> None:
    lines = freshstack("leaderboard", board).out.splitlines()

    average, _, two = [place for place, line in enumerate(lines) if "eve" in line]
    for place in (average, two):
        cells = [cell.strip() for cell in lines[place].strip("│").split("│")]
        assert cells[0] == "eve"
        assert set(cells[1:]) == {"–"}
    assert "open_source, no run for two" in lines[average + 1]
    assert "open_source, no run" in lines[two + 1]


LONG = "An embedder of nine billion parameters, asked with the question and its answer"


@pytest.mark.parametrize("measures", ['["Coverage@1", "Recall@1"]', f"{list(FRESHSTACK_MEASURES)}",
    '["Coverage@1", "alpha_nDCG@10", "Recall@50", "MRR@10", "MAP@10", "Coverage@20"]'])  # fmt: skip
def test_eighty_columns_hold_the_tables(freshstack: Command, board: Path, measures: str) -> None:
    edit(board / "leaderboard.toml", '["Coverage@1", "Recall@1"]', measures)
    edit(board / "leaderboard.toml", 'name = "ada"', f'name = "{LONG}"')

    out = freshstack("leaderboard", board).out

    assert max(map(len, [line for line in out.splitlines() if str(board) not in line])) <= 80
    assert "An embedder of" in out


def test_check_writes_nothing_and_fails_where_something_differs(
    freshstack: Command, board: Path
) -> None:
    freshstack("leaderboard", board)
    stored = (board / "leaderboard.json").read_bytes()
    same = freshstack("leaderboard", board, "--check")
    write_lists(board / "runs/eve.run", "eve", {"12": "x"})

    differs = freshstack("leaderboard", board, "--check")

    version = f"measures version {MEASURES_VERSION}"
    assert same == (0, f"{board}: as stored: 3 entries, 2 topics, {version}\n", "")
    assert differs.code == 1
    assert "entries.'eve'.topics.one.figures.Recall@1.value: stored 0.75, now 0.0" in differs.out
    assert differs.out.splitlines()[-1].endswith(
        f"if they are meant: freshstack leaderboard {board}"
    )
    assert (board / "leaderboard.json").read_bytes() == stored


def test_check_says_where_results_that_were_never_written_come_from(
    freshstack: Command, board: Path
) -> None:
    done = freshstack("leaderboard", board, "--check")

    assert done.code == 1
    assert f"write it with: freshstack leaderboard {board}" in done.err


def test_json_is_what_is_written(freshstack: Command, board: Path) -> None:
    out = freshstack("leaderboard", board, "--format", "json").out

    assert out == (board / "leaderboard.json").read_text()


def test_csv_has_a_row_for_every_figure(freshstack: Command, board: Path) -> None:
    out = freshstack("leaderboard", board, "--format", "csv").out

    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 3 * 2 * 2 + 2 * 2
    assert {(row["topic"], row["value"]) for row in rows if row["entry"] == "eve"} == {
        ("one", "0.75"),
        ("two", ""),
    }
    averages = {row["entry"]: row["value"] for row in rows
                if (row["topic"], row["measure"]) == ("average", "Recall@1")}  # fmt: skip
    assert averages == {"ada": "0.625", "bob": "0.375"}


@pytest.mark.parametrize("form", ["latex", "markdown"])
def test_papers_and_pages_get_all_tables(freshstack: Command, board: Path, form: str) -> None:
    done = freshstack("leaderboard", board, "--format", form)

    assert done.code == 0
    for text in ("mean over 2 topics", "one: 2 queries", "two: 2 queries", "0.625"):
        assert text in done.out


def test_numbers_are_flush_right_in_papers(freshstack: Command, board: Path) -> None:
    done = freshstack("leaderboard", board, "--format", "latex")

    one = done.out.split("one: 2 queries")[1]
    assert r"\begin{tabular}{lllllrl}" in one  # entry, size, type, 2 measures, unjudged@1, queries
    assert " & 0.000 & all" in one


def test_progress_is_shown_where_it_takes_long(capsys: pytest.CaptureFixture[str]) -> None:
    for patience in (3600, 0):
        with LateProgress("runs measured", patience) as progress:
            for done in range(4):
                progress(done, 3)

    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("runs measured") == 1


def test_the_official_format_is_json_alone(freshstack: Command, board: Path) -> None:
    edit(board / "leaderboard.toml", 'measures = ["Coverage@1", "Recall@1"]\n', "")

    data = json.loads(freshstack("leaderboard", board, "--format", "freshstack").out)

    assert [entry["info"]["name"] for entry in data["leaderboardData"]] == ["ada", "bob", "eve"]


def test_the_official_format_needs_its_measures(freshstack: Command, board: Path) -> None:
    done = freshstack("leaderboard", board, "--format", "freshstack")

    assert done.code == 1
    assert "topic 'one' has no alpha_nDCG@10" in done.err
    assert not (board / "leaderboard.json").exists()


def test_a_collection_elsewhere_is_named(freshstack: Command, board: Path, tmp_path: Path) -> None:
    (board / "two").rename(tmp_path / "far away")
    edit(board / "leaderboard.toml", 'path = "two"\n', "")

    done = freshstack("leaderboard", board, "--collection", "two=far away")
    (board / "leaderboard.json").write_text("{}")
    checked = freshstack("leaderboard", board, "--collection", "two=far away", "--check")

    assert done.code == 0, done.err
    assert checked.out.rstrip().endswith(f"leaderboard {board} --collection 'two=far away'")
    for words, said in (
        (("--collection", "two"), "type --collection TOPIC=FOLDER"),
        (("--collection", "two=a", "--collection", "two=b"), "names 'two' twice"),
        ((), "say where it is: --collection two=FOLDER"),
    ):
        refused = freshstack("leaderboard", board, *words)
        assert refused.code == 1
        assert said in refused.err
