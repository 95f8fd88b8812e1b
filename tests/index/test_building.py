"""What holds when builds die, fail, meet each other or run elsewhere."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index import HybridIndex
from tests.index.building import CHUNKS, QUERIES
from tests.index.pieces import SMALL, piece

ROOT = Path(__file__).parents[2]


def start(*arguments: str, **environment: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.index.building", *arguments],
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
    )


def finish(process: "subprocess.Popen[bytes]") -> Any:
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return json.loads(output)


def as_read_back(index: HybridIndex) -> Any:
    """The rankings as `building.py` prints them."""
    return json.loads(json.dumps([index.search(name, QUERIES, 30) for name in index.retrievers]))


@pytest.mark.parametrize("stage", ["table", pytest.param("bm25", marks=pytest.mark.slow)])
def test_a_killed_build_leaves_nothing_to_open_and_nothing_behind(
    tmp_path: Path, stage: str
) -> None:
    killed = start(str(tmp_path), stage)
    killed.communicate(timeout=120)
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / ".building").is_dir()

    with pytest.raises(IndexingError, match="no index here"):
        HybridIndex.open(tmp_path)
    index = HybridIndex.build_or_open(tmp_path, CHUNKS, dimensions=16)

    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".lock", index.path.name]


@pytest.mark.slow
def test_of_two_processes_one_builds_and_both_open(tmp_path: Path) -> None:
    racers = [start(str(tmp_path)), start(str(tmp_path))]
    (one_built, *one), (other_built, *other) = map(finish, racers)

    assert sorted([one_built, other_built]) == [False, True]
    assert one == other
    assert len([entry for entry in tmp_path.iterdir() if entry.name[0] != "."]) == 1


def test_rankings_do_not_depend_on_threads_vector_units_or_hash_seed(tmp_path: Path) -> None:
    """Replays on another machine must pool the same chunks (OpenBLAS takes its kernel by name)."""
    here = HybridIndex.build(tmp_path / "here", CHUNKS, dimensions=16)
    _, fingerprint, rankings = finish(
        start(
            str(tmp_path / "there"),
            OMP_NUM_THREADS="1",
            OPENBLAS_CORETYPE="Nehalem",
            PYTHONHASHSEED="7",
        )
    )

    assert fingerprint == here.fingerprint
    assert rankings == as_read_back(here)


def test_progress_runs_through_every_stage(tmp_path: Path) -> None:
    told: list[tuple[str, float]] = []

    HybridIndex.build(tmp_path, SMALL, progress=lambda *step: told.append(step))

    stages = ("terms", "bm25", "lsa", "table")
    assert told == [(stage, fraction) for stage in stages for fraction in (0, 1)]


def test_what_stands_is_opened_without_work(tmp_path: Path) -> None:
    told: list[str] = []
    built = HybridIndex.build_or_open(tmp_path, SMALL)

    opened = HybridIndex.build_or_open(
        tmp_path, SMALL[::-1], progress=lambda stage, _: told.append(stage)
    )

    assert told == []
    assert opened.fingerprint == built.fingerprint


def test_other_text_metadata_or_settings_make_another_index(tmp_path: Path) -> None:
    text = piece("a.py", "one two")
    builds = [
        HybridIndex.build_or_open(tmp_path, [text]),
        HybridIndex.build_or_open(tmp_path, [piece("a.py", "one six")]),
        HybridIndex.build_or_open(tmp_path, [piece("a.py", "one two", revision="c0ffee")]),
        HybridIndex.build_or_open(tmp_path, [text], dimensions=8),
    ]

    assert len({index.fingerprint for index in builds}) == 4
    assert builds[2].chunk("repo/a.py_0_7").revision == "c0ffee"


def test_building_again_replaces_the_index_and_searches_alike(tmp_path: Path) -> None:
    first = HybridIndex.build(tmp_path, CHUNKS, dimensions=16)
    before = as_read_back(first)

    second = HybridIndex.build(tmp_path, CHUNKS, dimensions=16)

    assert second.path == first.path
    assert as_read_back(second) == before
    assert as_read_back(first) == before  # who has it open does not notice


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    def interrupt(stage: str, _fraction: float) -> None:
        if stage == "lsa":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        HybridIndex.build(tmp_path, SMALL, progress=interrupt)

    assert [entry.name for entry in tmp_path.iterdir()] == [".lock"]
    assert len(HybridIndex.build(tmp_path, SMALL)) == len(SMALL)


def test_a_place_that_cannot_hold_an_index_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")

    with pytest.raises(IndexingError, match=f"{blocked}: an index cannot be written here"):
        HybridIndex.build_or_open(blocked, SMALL)
