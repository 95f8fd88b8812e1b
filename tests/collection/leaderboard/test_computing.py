"""The values of a leaderboard, by hand; what it refuses; and every difference from what is stored."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import FreshstackError
from freshstack_dspy.collection.leaderboard import Results, compute, differences, write_results
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.evaluation import MEASURES_VERSION

from .boards import edit, write_lists, write_small_board


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_small_board(tmp_path / "board")


def test_the_values_by_hand(folder: Path) -> None:
    results = compute(folder)
    found = {
        entry.info.name: {
            topic: [of.means[measure].value for measure in ("Coverage@1", "Recall@1")]
            for topic, of in entry.topics.items()
        }
        for entry in results.entries
    }
    ada, bob, eve = results.entries

    assert found == {
        "ada": {"one": [1, 3 / 4], "two": [1, 1 / 2]},
        "bob": {"one": [1 / 4, 1 / 4], "two": [3 / 4, 1 / 2]},
        "eve": {"one": [3 / 4, 3 / 4]},
    }
    assert ada.average is not None
    assert bob.average is not None
    assert [ada.average[name].value for name in ("Coverage@1", "Recall@1")] == [1, 5 / 8]
    assert [bob.average[name].value for name in ("Coverage@1", "Recall@1")] == [1 / 2, 3 / 8]
    assert (ada.missing, eve.missing, eve.average) == ((), ("two",), None)
    assert results.measures_version == MEASURES_VERSION
    assert results.collections["two"].queries == 2
    assert results.collections["two"].labels == "openai/some-model"
    run = (folder / "runs/ada.run").read_bytes()
    assert ada.topics["one"].sha256 == hashlib.sha256(run).hexdigest()


def test_what_is_missing_from_a_run_counts_0(folder: Path) -> None:
    write_lists(folder / "runs/eve.run", "eve", {"12": "code/d.py_3_9", "99": "docs/a.md_0_5"})
    eve = compute(folder).entries[-1].topics["one"]

    assert eve.means["Recall@1"].value == 0
    assert (eve.absent, eve.unknown, eve.unjudged) == (1, 1, {1: 1.0})


def test_the_same_leaderboard_is_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    again = write_small_board(tmp_path / "again")
    head, *entries = (again / "leaderboard.toml").read_text().split("[[entries]]")
    (again / "leaderboard.toml").write_text("\n[[entries]]".join([head, *reversed(entries)]))
    for board in (folder, again):
        write_results(board, compute(board))
    one, two = ((board / "leaderboard.json").read_text() for board in (folder, again))

    assert one == two
    assert Results.model_validate_json(one) == compute(folder)


def test_a_collection_may_be_elsewhere_and_is_known_by_its_hash(
    folder: Path, tmp_path: Path
) -> None:
    inside = compute(folder)
    (folder / "two").rename(tmp_path / "outside")
    edit(folder / "leaderboard.toml", 'path = "two"', 'path = "../outside"')

    assert compute(folder) == inside
    edit(folder / "leaderboard.toml", 'path = "one"', 'path = "../outside"')
    with pytest.raises(CollectionError, match="topic one is of content hash"):
        compute(folder)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('"Recall@1"', '"Recal@1"', "'Recal@1'"),
        ('name = "bob"', 'name = "EVE"', "two entries are called"),
        ('type = "proprietary"', 'type = "closed"', "type is 'closed'"),
        ("https://example.org/bob", "javascript:alert(1)", "link is 'javascript"),
        ('["Coverage@1", "Recall@1"]', "[]", "measures is an array of 0"),
        ('{ one = "runs/eve.run" }', '{ six = "runs/eve.run" }', "'six', which is no topic"),
        ("[collections.two]", "[collections.average]", "no topic is called 'average'"),
        ('name = "Small"', "name = Small", "not valid TOML"),
        ("runs/eve", "../eve", "leads out of the leaderboard"),
        ("runs/eve", "/etc/eve", "leads out of the leaderboard"),
        ("runs/eve.run", "runs/gone.run", "gone.run: cannot be read"),
    ],
)
def test_what_is_not_allowed_is_named(folder: Path, old: str, new: str, fault: str) -> None:
    edit(folder / "leaderboard.toml", old, new)

    with pytest.raises(FreshstackError, match=fault):
        compute(folder)


# Compared with what is stored


@pytest.fixture
def stored(folder: Path) -> Path:
    write_results(folder, compute(folder))
    assert differences(folder, compute(folder)) == []
    return folder


def _made_up(values: Any) -> None:
    values["entries"][1]["average"]["Recall@1"]["value"] = 0.9


def _last_bits(values: Any) -> None:
    values["entries"][1]["average"]["Recall@1"]["value"] += 1e-12


def _another_entry(values: Any) -> None:
    values["entries"][0]["info"]["name"] = "zoe"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (_made_up, {"entries.bob.average.Recall@1.value: stored 0.9, now 0.375"}),
        (_last_bits, set()),
        (
            _another_entry,
            {
                'entries.zoe.info.name: stored "zoe", now "nothing"',
                'entries.ada.info.name: stored "nothing", now "ada"',
            },
        ),
    ],
)
def test_what_was_changed_by_hand_is_named(
    stored: Path, change: Callable[[Any], None], named: set[str]
) -> None:
    path = stored / "leaderboard.json"
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))

    lines = differences(stored, compute(stored))
    assert named <= set(lines)
    assert bool(named) == bool(lines)
