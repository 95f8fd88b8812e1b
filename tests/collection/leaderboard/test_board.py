"""What a description of a leaderboard may say, and what it may not."""

import re
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
        ('name = "bob"', 'nam = "bob"', r"entry 2 of 3: name is missing; allowed: one line of"),
        ('name = "bob"', 'name = "bob\\u001b[2J"', "one line of 1 to 200 printable characters"),
        ('name = "bob"', 'name = ""', "entry 2 of 3: name is ''; allowed: one line"),
        (
            'name = "bob"',
            'name = "bob"\nfoo = 1',
            "entry 'bob': unknown key 'foo'; allowed here: name, ",
        ),
        (
            'type = "proprietary"',
            'type = "closed"',
            "entry 'bob': type is 'closed'; allowed: open_s",
        ),
        (
            'type = "proprietary"',
            "",
            "entry 'bob': type is missing; allowed: open_source, proprietary or upper_baseline$",
        ),
        ('"2025-12-31"', '"2025-12-32"', "entry 'bob': date is '2025-12-32'; allowed: a date"),
        ('"2025-12-31"', '"31 December"', "entry 'bob': date is '31 December'; allowed: a date"),
        ('"2025-12-31"', "20251231", "entry 'bob': date is 20251231; allowed: a date"),
        ('"2025-12-31"', "2025-12-31T10:00:00", "a date that exists, as 2026-01-31"),
        ("https://example.org/bob", "javascript:alert(1)", "an http or https address"),
        ("https://example.org/bob", 'https://e.org/\\"onclick=', "an http or https address"),
        ("https://example.org/bob", "https://e.org/\\u001b[2J", "an http or https address"),
        ("https://example.org/bob", "https://e.org/\\u202egro", "an http or https address"),
        ('{ one = "runs/eve.run" }', "{}", "entry 'eve': runs is an empty table; allowed: a table"),
        (
            '{ one = "runs/eve.run" }',
            "{ one = 1 }",
            r"entry 'eve': runs\.one is 1; allowed: a path",
        ),
        ('["Coverage@1", "Recall@1"]', "[]", "measures is an array of 0; allowed: an array of one"),
        ('["Coverage@1", "Recall@1"]', "[1]", r"measures\.0 is 1; allowed: the name of a measure"),
        ('name = "Small"', "", "name is missing; allowed: one line"),
        ('name = "Small"', f"name = {'9' * 5_000}", "a number in it is too long"),
        ('name = "Small"', f"name = 0x{'f' * 5_000}", "a number in it is too long"),
        (
            '{ one = "runs/eve.run" }',
            '{ six = "runs/eve.run" }',
            "entry 'eve' has a run for 'six', which is no topic; topics are one, two$",
        ),
        ("[collections.two]", "[collections.average]", "not 'average'; found 'average'"),
        ("[collections.two]", '[collections."a b"]', "found 'a b'"),
        (
            'path = "two"',
            'pth = "two"',
            r"collections\.two: unknown key 'pth'; allowed here: path, content_hash$",
        ),
        ('path = "two"\ncontent_hash = "', 'path = "two"\ncontent_hash = "x', "content_hash is"),
        ('name = "Small"', "name = Small", "not valid TOML"),
    ],
)
def test_what_is_not_allowed_is_named(folder: Path, old: str, new: str, said: str) -> None:
    edit(folder / "leaderboard.toml", old, new)

    with pytest.raises(ConfigError, match=said) as raised:
        read_board(folder)
    message = str(raised.value)
    assert message.isprintable()
    assert not re.search(
        "Field required|Extra inputs|at least 1 item|isoformat|Input should", message
    )


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


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('name = "bob"', f'name = "{"b" * 5_000}"'),
        ('"runs/eve.run"', f'"{"r" * 5_000}"'),
        ('"Recall@1"', f'"{"m" * 5_000}"'),
        ('{ one = "runs/eve.run" }', f'{{ {"t" * 5_000} = "runs/eve.run" }}'),
        ("[collections.two]", f"[collections.{'t' * 5_000}]"),
        ('size = "9B"', f"{'k' * 5_000} = 1"),
    ],
)
def test_a_long_text_is_cut_in_the_message(folder: Path, old: str, new: str) -> None:
    edit(folder / "leaderboard.toml", old, new)

    with pytest.raises(ConfigError, match="…") as raised:
        read_board(folder)
    assert len(str(raised.value)) < 500 + len(str(folder))


@pytest.mark.parametrize("same", ["Zoe\u0308", "ZO\u00cb", "zo\u00eb"])
def test_names_that_look_alike_are_one_name(folder: Path, same: str) -> None:
    edit(folder / "leaderboard.toml", 'name = "eve"', 'name = "Zo\u00eb"')
    edit(folder / "leaderboard.toml", 'name = "bob"', f'name = "{same}"')

    with pytest.raises(ConfigError, match=r"two entries are called .* rename one$"):
        read_board(folder)
