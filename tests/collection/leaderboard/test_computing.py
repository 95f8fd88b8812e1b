"""The figures of a leaderboard, by hand; and what it refuses to compute them from."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from freshstack_dspy.collection.leaderboard import (
    Results,
    compute,
    encode_results,
    read_board,
    write_results,
)
from freshstack_dspy.errors import CollectionError, ConfigError, FreshstackError
from freshstack_dspy.measures.evaluation import MEASURES_VERSION
from tests.collection.small import write_small

from .boards import TWO, edit, write_lists, write_small_board


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_small_board(tmp_path / "board")


def computed(folder: Path, **elsewhere: Path) -> Results:
    return compute(folder, read_board(folder), elsewhere)


def test_the_figures_by_hand(folder: Path) -> None:
    found = {
        entry.info.name: {
            topic: [of.figures[measure].value for measure in ("Coverage@1", "Recall@1")]
            for topic, of in entry.topics.items()
        }
        for entry in computed(folder).entries
    }

    assert found == {
        "ada": {"one": [1, 3 / 4], "two": [1, 1 / 2]},
        "bob": {"one": [1 / 4, 1 / 4], "two": [3 / 4, 1 / 2]},
        "eve": {"one": [3 / 4, 3 / 4]},
    }


def test_the_average_is_over_topics_and_needs_them_all(folder: Path) -> None:
    ada, bob, eve = computed(folder).entries

    assert ada.average is not None
    assert bob.average is not None
    assert [ada.average[name].value for name in ("Coverage@1", "Recall@1")] == [1, 5 / 8]
    assert [bob.average[name].value for name in ("Coverage@1", "Recall@1")] == [1 / 2, 3 / 8]
    assert (ada.missing, eve.missing) == ((), ("two",))
    assert eve.average is None


def test_the_table_is_ordered_by_the_first_measure_and_ties_by_name(folder: Path) -> None:
    path = folder / "runs/ada.run"
    names = [entry.info.name for entry in computed(folder).ranked()]
    path.write_text((folder / "runs/bob.run").read_text())
    tied = [entry.info.name for entry in computed(folder).ranked()]
    edit(folder / "leaderboard.toml", 'name = "bob"', 'name = "abe"')
    renamed = [entry.info.name for entry in computed(folder).ranked()]

    assert names == ["ada", "bob", "eve"]
    assert tied == ["ada", "bob", "eve"]
    assert renamed == ["abe", "ada", "eve"]


def test_what_the_figures_were_made_from_is_told(folder: Path) -> None:
    results = computed(folder)

    assert results.measures_version == MEASURES_VERSION
    assert list(results.collections) == ["one", "two"]
    assert results.collections["two"].content_hash in (folder / "leaderboard.toml").read_text()
    assert results.collections["two"].queries == 2
    ada = results.entries[0].topics["one"]
    assert ada.sha256 == hashlib.sha256((folder / "runs/ada.run").read_bytes()).hexdigest()
    assert results.conventions["ties"] == "score descending, then chunk id ascending"


def test_what_is_missing_from_a_run_counts_0_and_is_told(folder: Path) -> None:
    write_lists(folder / "runs/eve.run", "eve", {"12": "unjudged", "99": "x"})

    eve = computed(folder).entries[-1].topics["one"]

    assert eve.figures["Recall@1"].value == 0
    assert (eve.absent, eve.unknown, eve.unjudged) == (1, 1, {1: 1.0})


def test_a_measure_without_a_cutoff_still_has_its_holes(folder: Path) -> None:
    edit(folder / "leaderboard.toml", '["Coverage@1", "Recall@1"]', '["Recall"]')

    assert computed(folder).entries[0].topics["one"].unjudged == {10: 0.0}


def test_the_same_leaderboard_is_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    again = write_small_board(tmp_path / "again")
    text = (again / "leaderboard.toml").read_text()
    head, *entries = text.split("[[entries]]")
    (again / "leaderboard.toml").write_text("\n[[entries]]".join([head, *reversed(entries)]))

    assert encode_results(computed(folder)) == encode_results(computed(again))


def test_the_results_read_back(folder: Path) -> None:
    results = computed(folder)

    path = write_results(folder, results)

    assert Results.model_validate_json(path.read_text()) == results


def test_a_collection_may_be_elsewhere(folder: Path, tmp_path: Path) -> None:
    inside = computed(folder)
    (folder / "two").rename(tmp_path / "outside")
    edit(folder / "leaderboard.toml", 'path = "two"\n', "")

    assert computed(folder, two=tmp_path / "outside") == inside
    with pytest.raises(CollectionError, match="two names no path, so say where it is"):
        computed(folder)
    with pytest.raises(ConfigError, match="'six' is no topic of 'Small'; topics are one, two"):
        computed(folder, six=tmp_path / "outside")


def test_another_collection_is_refused_by_its_hash(folder: Path, tmp_path: Path) -> None:
    other = write_small(tmp_path / "other", TWO)

    with pytest.raises(
        CollectionError, match=r"wrong collections: one is content .* here, and"
    ) as raised:
        computed(folder, one=tmp_path / "other")
    assert other.manifest.content_hash in str(raised.value)


def swap(path: Path, target: Path) -> None:
    """Put a link in the place of a file."""
    path.rename(target)
    path.symlink_to(target)


def pipe(path: Path) -> None:
    """Put in the place of a file what never ends."""
    path.unlink()
    os.mkfifo(path)


def half_swapped(folder: Path, target: Path) -> None:
    """A collection that stands under its hidden name, as after a swap that was cut short."""
    swap(folder / "nuggets.jsonl", target)
    folder.rename(folder.with_name(f".{folder.name}.previous"))


TRAPS: list[tuple[Callable[[Path, Path], object], str]] = [
    (lambda folder, _: edit(folder / "leaderboard.toml", "runs/eve", "../eve"), "leads out of"),
    (lambda folder, _: edit(folder / "leaderboard.toml", "runs/eve", "/etc/eve"), "is absolute"),
    (lambda folder, _: edit(folder / "leaderboard.toml", '"two"', '"../elsewhere"'), "leads out of"),
    (lambda folder, _: edit(folder / "leaderboard.toml", "eve.run", "eve\\u0000.run"), "is no path"),
    (lambda folder, out: swap(folder / "runs/eve.run", out / "secret"), "leads out of"),
    (lambda folder, out: swap(folder / "two/nuggets.jsonl", out / "secret"), "leads out of"),
    (lambda folder, out: swap(folder / "two", out / "secret"), "leads out of"),
    (lambda folder, _: (folder / "runs/eve.run").unlink(), "cannot be read: No such file"),
    (lambda folder, _: pipe(folder / "runs/eve.run"), "not a regular file"),
    (lambda folder, out: half_swapped(folder / "two", out / "secret"), "leads out of"),
    (lambda folder, _: (folder / "runs/eve.run").write_text("12 Q0 x\n"), r"eve\.run:1: "),
    (
        lambda folder, _: write_lists(folder / "runs/eve.run", "eve", {"77": "x"}),
        "entry 'eve', topic 'one': none of the 1 queries of run 'eve' is in the collection",
    ),
    (
        lambda folder, _: edit(folder / "one/nuggets.jsonl", "fact 12_0", "fact 12_9"),
        r"nuggets\.jsonl: not the file that the manifest was written for",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("trap", "said"), TRAPS)
def test_what_is_damaged_or_leads_out_is_refused(
    folder: Path, tmp_path: Path, trap: Callable[[Path, Path], object], said: str
) -> None:
    trap(folder, tmp_path)

    with pytest.raises(FreshstackError, match=said):
        computed(folder)


def test_a_link_in_the_place_of_the_results_is_replaced(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (folder / "leaderboard.json").symlink_to(tmp_path / "precious")

    write_results(folder, computed(folder))

    assert (tmp_path / "precious").read_text() == "mine"
    assert not (folder / "leaderboard.json").is_symlink()


def by_its_name(folder: Path, name: str) -> str:
    return name


def by_a_detour(folder: Path, name: str) -> str:
    return f"runs/../{name}"


def by_a_link(folder: Path, name: str) -> str:
    (folder / "runs/x.run").symlink_to(folder / name)
    return "runs/x.run"


def by_a_hard_link(folder: Path, name: str) -> str:
    (folder / "runs/x.run").hardlink_to(folder / name)
    return "runs/x.run"


@pytest.mark.parametrize("name", ["leaderboard.json", "leaderboard.toml"])
@pytest.mark.parametrize("way", [by_its_name, by_a_detour, by_a_link, by_a_hard_link])
def test_a_run_is_none_of_the_leaderboards_own_files(
    folder: Path, name: str, way: Callable[[Path, str], str]
) -> None:
    (folder / "leaderboard.json").write_text((folder / "runs/eve.run").read_text())
    edit(folder / "leaderboard.toml", "runs/eve.run", way(folder, name))

    with pytest.raises(
        CollectionError, match=f"entry 'eve', topic 'one': .* is {name}, which the leaderboard"
    ):
        computed(folder)


def test_no_run_is_the_file_that_the_results_are_to_be(folder: Path) -> None:
    edit(folder / "leaderboard.toml", "runs/eve.run", "leaderboard.json")

    with pytest.raises(CollectionError, match="give the run another name"):
        computed(folder)


def test_progress_is_told_by_runs(folder: Path) -> None:
    told: list[tuple[int, int]] = []

    compute(folder, read_board(folder), progress=lambda done, total: told.append((done, total)))

    assert told == [(0, 5), (2, 5), (4, 5), (5, 5)]


def test_a_long_path_is_cut_in_the_message(folder: Path) -> None:
    edit(folder / "leaderboard.toml", "runs/eve.run", f"../{'r' * 400}")

    with pytest.raises(CollectionError, match="leads out of the leaderboard") as raised:
        computed(folder)
    assert len(str(raised.value)) < 400 + len(str(folder))
