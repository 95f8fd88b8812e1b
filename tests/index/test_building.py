"""What holds when builds and updates die, fail, meet each other or run elsewhere."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.index.settings import IndexSettings
from tests.index import building
from tests.index.building import CHUNKS, NAME, QUERIES, SETTINGS
from tests.index.pieces import SMALL, files_of, piece, rankings

ROOT = Path(__file__).parents[2]
PARTS = ["bm25", "lsa", "rows", "table"]


def start(*arguments: str, **environment: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.index.building", *arguments],
        cwd=ROOT,
        env=os.environ | environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def finish(process: "subprocess.Popen[bytes]", line: bytes = b"") -> Any:
    output, _ = process.communicate(line, timeout=120)
    assert process.returncode == 0
    return json.loads(output)


def as_read_back(index: HybridIndex) -> Any:
    """The rankings as `building.py` prints them."""
    return json.loads(json.dumps(rankings(index, QUERIES)))


def parts_in(folder: Path) -> list[str]:
    return sorted(entry.name.partition("-")[0] for entry in folder.glob("*-*"))


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """The rankings before and after the update."""
    root = tmp_path_factory.mktemp("known")
    before = as_read_back(building.build(root, []))
    return before, as_read_back(building.update(root, []))


def check_survives(root: Path, known: tuple[Any, Any], killed: bool) -> None:
    """What stands after an update, killed or not, is one of the two states, and can go on."""
    standing = as_read_back(HybridIndex.open(root, name=NAME))
    assert standing in known if killed else standing == known[1]

    updated = building.update(root, [])

    assert as_read_back(updated) == known[1]
    assert parts_in(updated.path) == PARTS


@pytest.mark.parametrize(
    "event", [3, 24, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 60, 6))]
)
def test_an_update_killed_at_any_file_leaves_an_index_that_goes_on(
    tmp_path: Path, known: tuple[Any, Any], event: int
) -> None:
    building.build(tmp_path, [])
    killed = start(str(tmp_path), "update", str(event))
    killed.communicate(timeout=120)
    assert killed.returncode in (0, -signal.SIGKILL)

    check_survives(tmp_path, known, killed.returncode != 0)


@pytest.mark.slow
def test_an_update_killed_at_any_time_leaves_an_index_that_goes_on(
    tmp_path: Path, known: tuple[Any, Any]
) -> None:
    """This meets moments in which only LanceDB's own code writes."""
    rng = random.Random(0)
    for number in range(5):
        root = tmp_path / str(number)
        building.build(root, [])
        killed = start(str(root), "update")
        while killed.poll() is None and len(list((root / NAME).glob("*-*"))) == len(PARTS):
            time.sleep(0.001)
        time.sleep(rng.random() * 0.05)
        killed.kill()
        killed.communicate(timeout=120)

        check_survives(root, known, killed.returncode != 0)


@pytest.mark.parametrize("event", [12, pytest.param(30, marks=pytest.mark.slow)])
def test_a_killed_build_leaves_nothing_to_open_and_nothing_behind(
    tmp_path: Path, event: int
) -> None:
    killed = start(str(tmp_path), "build", str(event))
    killed.communicate(timeout=120)
    assert killed.returncode == -signal.SIGKILL
    assert parts_in(tmp_path / NAME)

    with pytest.raises(IndexingError, match="no index here"):
        HybridIndex.open(tmp_path)
    index = building.build(tmp_path, [])

    assert parts_in(index.path) == PARTS


@pytest.mark.slow
def test_of_two_processes_one_builds_and_both_open(tmp_path: Path) -> None:
    racers = [start(str(tmp_path), "build"), start(str(tmp_path), "build")]
    (one_built, *one), (other_built, *other) = map(finish, racers)

    assert sorted([one_built, other_built]) == [False, True]
    assert one == other


def test_a_reader_keeps_its_snapshot_through_updates_and_builds(
    tmp_path: Path, known: tuple[Any, Any]
) -> None:
    """It has read no text, vector or vocabulary when what it reads is replaced, twice."""
    building.build(tmp_path, [])
    reader = start(str(tmp_path), "read")
    assert reader.stdout is not None
    assert reader.stdout.readline() == b"opened\n"
    building.update(tmp_path, [])
    HybridIndex.build(tmp_path, NAME, SMALL)

    _, _, found = finish(reader, b"go on\n")

    assert found == known[0]
    index = HybridIndex.build(tmp_path, NAME, SMALL[:3])
    assert parts_in(index.path) == PARTS


@pytest.mark.slow
def test_writers_wait_for_each_other(tmp_path: Path, known: tuple[Any, Any]) -> None:
    building.build(tmp_path, [])
    writers = [start(str(tmp_path), "update") for _ in range(3)]

    found = [finish(writer)[2] for writer in writers]

    assert found == [known[1]] * 3


@pytest.mark.slow
def test_rankings_do_not_depend_on_threads_vector_units_or_hash_seed(
    tmp_path: Path, known: tuple[Any, Any]
) -> None:
    """Replays on another machine must pool the same chunks (OpenBLAS takes its kernel by name)."""
    _, _, found = finish(
        start(
            str(tmp_path),
            "build",
            OMP_NUM_THREADS="1",
            OPENBLAS_CORETYPE="Nehalem",
            PYTHONHASHSEED="7",
        )
    )

    assert found == known[0]


def test_progress_runs_through_every_stage(tmp_path: Path) -> None:
    told: list[tuple[str, float]] = []

    HybridIndex.build(tmp_path, NAME, SMALL, progress=lambda *step: told.append(step))

    stages = ("terms", "bm25", "lsa", "table")
    assert list(dict.fromkeys(stage for stage, _ in told)) == list(stages)
    for stage in stages:
        fractions = [fraction for name, fraction in told if name == stage]
        assert fractions == sorted(fractions)
        assert fractions[0] == 0
        assert fractions[-1] == 1


def test_what_stands_is_opened_without_work(tmp_path: Path) -> None:
    told: list[str] = []
    built = HybridIndex.build_or_open(tmp_path, NAME, SMALL)

    opened = HybridIndex.build_or_open(
        tmp_path, NAME, SMALL[::-1], progress=lambda stage, _: told.append(stage)
    )

    assert told == []
    assert opened.fingerprint == built.fingerprint


def test_another_revision_of_the_same_content_changes_the_manifest_only(tmp_path: Path) -> None:
    told: list[str] = []
    built = HybridIndex.build(tmp_path, NAME, [piece("a.py", "one two", revision="c0ffee")])
    parts = sorted(built.path.glob("*-*"))

    again = HybridIndex.build_or_open(
        tmp_path,
        NAME,
        [piece("a.py", "one two", revision="decade")],
        cut_by="lines",
        progress=lambda stage, _: told.append(stage),
    )

    assert told == []
    assert sorted(again.path.glob("*-*")) == parts
    assert again.fingerprint == built.fingerprint
    assert (again.revisions, again.cut_by) == ({"repo": "decade"}, "lines")
    assert again.chunk("repo/a.py_0_7").revision == "decade"
    assert built.chunk("repo/a.py_0_7").revision == "c0ffee"


def test_two_revisions_of_one_source_are_refused(tmp_path: Path) -> None:
    chunks = [piece("a.py", "one", revision="c0ffee"), piece("b.py", "two", revision="decade")]

    with pytest.raises(IndexingError, match=r"'decade'.*'repo' are of 'c0ffee'"):
        HybridIndex.build(tmp_path, NAME, chunks)


def test_other_text_or_settings_make_another_index(tmp_path: Path) -> None:
    text = piece("a.py", "one two")
    builds = [
        HybridIndex.build_or_open(tmp_path, NAME, [text]),
        HybridIndex.build_or_open(tmp_path, NAME, [piece("a.py", "one six")]),
        HybridIndex.build_or_open(tmp_path, NAME, [text], settings=IndexSettings(8)),
    ]

    assert len({index.fingerprint for index in builds}) == 3
    assert [index.chunk("repo/a.py_0_7").text for index in builds] == [
        "one two",
        "one six",
        "one two",
    ]


def test_building_again_replaces_the_index_and_searches_alike(tmp_path: Path) -> None:
    first = HybridIndex.build(tmp_path, NAME, CHUNKS, settings=SETTINGS)
    before = as_read_back(first)

    second = HybridIndex.build(tmp_path, NAME, CHUNKS, settings=SETTINGS)

    assert second.path == first.path
    assert as_read_back(second) == before
    assert as_read_back(first) == before  # who has it open does not notice


def test_a_build_of_what_stands_in_part_is_as_one_from_nothing(tmp_path: Path) -> None:
    other = [
        *CHUNKS[:150],
        *building.CHANGED,
        GREEK_SPACE := piece("ein pfad/größe.md", "wordb1 ä"),
    ]
    HybridIndex.build(tmp_path, NAME, CHUNKS, settings=SETTINGS)
    pure = HybridIndex.build(tmp_path, "pure", other, settings=SETTINGS)

    mixed = HybridIndex.build_or_open(tmp_path, NAME, other, settings=SETTINGS)

    assert mixed.fingerprint == pure.fingerprint
    assert as_read_back(mixed) == as_read_back(pure)
    assert list(mixed.chunks()) == list(pure.chunks())
    assert mixed.chunk(GREEK_SPACE.chunk_id) == GREEK_SPACE


def test_a_failed_build_leaves_what_stood(tmp_path: Path) -> None:
    def interrupt(stage: str, _fraction: float) -> None:
        if stage == "table":
            raise KeyboardInterrupt

    HybridIndex.build(tmp_path, NAME, SMALL)
    with pytest.raises(KeyboardInterrupt):
        HybridIndex.build(tmp_path, NAME, CHUNKS, progress=interrupt)

    assert len(HybridIndex.open(tmp_path)) == len(SMALL)
    assert parts_in(HybridIndex.build(tmp_path, NAME, SMALL[:2]).path) == PARTS


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    (tmp_path / NAME / "thesis.tex").write_text("years of work")

    with pytest.raises(IndexingError, match=r"holds 'thesis.tex' and no index"):
        HybridIndex.build_or_open(tmp_path, NAME, SMALL)

    assert (tmp_path / NAME / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../up", ".hidden", "a b", "-x"])
def test_a_name_that_is_none_for_a_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(IndexingError, match="cannot be called"):
        HybridIndex.build(tmp_path, name, SMALL)


def test_a_place_that_cannot_hold_an_index_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")

    with pytest.raises(IndexingError, match=f"{blocked}/{NAME}: an index cannot be written here"):
        HybridIndex.build_or_open(blocked, NAME, SMALL)


def test_files_must_be_those_of_the_chunks(tmp_path: Path) -> None:
    with pytest.raises(IndexingError, match=r"'a/license.txt' of 'repo', which is not among"):
        HybridIndex.build(tmp_path, NAME, SMALL, files=files_of(SMALL[:3]))
    with pytest.raises(IndexingError, match="told twice"):
        HybridIndex.build(tmp_path, NAME, SMALL, files=files_of(SMALL) * 2)
