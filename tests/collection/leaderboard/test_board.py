"""What a description of a leaderboard may say, and what it may not."""

from pathlib import Path

import pytest

from freshstack_dspy.collection.leaderboard import read_board
from freshstack_dspy.errors import ConfigError

from .boards import edit, write_small_board


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_small_board(tmp_path / "board")


def test_dates_are_text_however_they_are_written(folder: Path) -> None:
    board = read_board(folder)

    assert {entry.name: entry.date for entry in board.entries} == {
        "ada": "2026-01-31",
        "bob": "2025-12-31",
        "eve": "2026-01-31",
    }
    assert [board.entries[0].size, board.entries[0].link] == ["-", ""]


def test_measures_get_the_names_that_are_printed_and_are_measured_once(folder: Path) -> None:
    edit(
        folder / "leaderboard.toml", '"Recall@1"]', '"R@1", "Recall@1", "alpha_nDCG(alpha=0.5)@5"]'
    )

    assert read_board(folder).measures == ("Coverage@1", "Recall@1", "alpha_nDCG@5")


def test_freshstacks_measures_are_taken_where_none_is_named(folder: Path) -> None:
    edit(folder / "leaderboard.toml", 'measures = ["Coverage@1", "Recall@1"]\n', "")

    assert read_board(folder).measures == ("alpha_nDCG@10", "Coverage@20", "Recall@50")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"Recall@1"', '"Recal@1"', r"there is no measure 'Recal@1'"),
        ('"Coverage@1"', '"P"', "needs a cut-off"),
        ('name = "bob"', 'name = "EVE"', "two entries are called 'EVE' and 'eve'; rename one$"),
        ('name = "bob"', 'nam = "bob"', r"entries\.1\.name: Field required$"),
        ('name = "bob"', 'name = "bob\\u001b[2J"', "one line of printable characters"),
        ('name = "bob"', 'name = ""', "at least 1 character"),
        ('type = "proprietary"', 'type = "closed"', "'open_source', 'proprietary' or"),
        ('"2025-12-31"', '"2025-12-32"', r"entries\.1\.date is '2025-12-32'"),
        ('"2025-12-31"', "20251231", r"entries\.1\.date is 20251231"),
        ('"2025-12-31"', "2025-12-31T10:00:00", "a date as 2026-01-31"),
        ("https://example.org/bob", "javascript:alert(1)", "an http or https address"),
        ("https://example.org/bob", 'https://e.org/\\"onclick=', "an http or https address"),
        ('{ one = "runs/eve.run" }', "{}", "at least 1 item"),
        ('{ one = "runs/eve.run" }', "{ one = 1 }", r"entries\.0\.runs\.one is 1"),
        (
            '{ one = "runs/eve.run" }',
            '{ six = "runs/eve.run" }',
            "entry 'eve' has a run for 'six', which is no topic; topics are one, two$",
        ),
        ("[collections.two]", "[collections.average]", "not 'average'; found 'average'"),
        ("[collections.two]", '[collections."a b"]', "found 'a b'"),
        ('path = "two"', 'pth = "two"', r"collections\.two\.pth"),
        ('path = "two"\ncontent_hash = "', 'path = "two"\ncontent_hash = "x', "content_hash is"),
        ('name = "Small"', "name = Small", "not valid TOML"),
    ],
)
def test_what_is_not_allowed_is_named(folder: Path, old: str, new: str, said: str) -> None:
    edit(folder / "leaderboard.toml", old, new)

    with pytest.raises(ConfigError, match=said) as raised:
        read_board(folder)
    assert "\n" not in str(raised.value)
    assert str(raised.value).isprintable()


def test_a_folder_without_a_description_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such folder"):
        read_board(tmp_path / "gone")
    with pytest.raises(ConfigError, match=r"leaderboard\.toml: no such file"):
        read_board(tmp_path)


def test_a_description_elsewhere_is_not_read(folder: Path, tmp_path: Path) -> None:
    (folder / "leaderboard.toml").rename(tmp_path / "secret.toml")
    (folder / "leaderboard.toml").symlink_to(tmp_path / "secret.toml")

    with pytest.raises(ConfigError, match="leads out of the leaderboard"):
        read_board(folder)
