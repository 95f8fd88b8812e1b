"""What was found in files is kept, and never where they may have changed since."""

import os
import time
from pathlib import Path

import pytest

from freshstack_dspy.corpus.seen import SeenFiles
from freshstack_dspy.corpus.tree import Folder, TreeEntry

HOUR = 3_600_000_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus/a.md").write_text("old")
    return tmp_path / "corpus"


def entry_of(folder: Path, changed: int) -> TreeEntry:
    """The file as it is listed, as if it had changed so many nanoseconds ago."""
    (entry,) = Folder(folder).entries()
    assert entry.stamp is not None
    size, _, _, number = entry.stamp
    then = time.time_ns() - changed
    return entry._replace(stamp=(size, then, then, number))


def kept(path: Path, entry: TreeEntry, of: str = "settings") -> object:
    return SeenFiles(path, of).get(entry)


def keep(path: Path, entry: TreeEntry) -> None:
    one = SeenFiles(path, "settings")
    one.keep(entry, ["found"])
    one.save()


def test_what_did_not_change_is_known(folder: Path, tmp_path: Path) -> None:
    entry = entry_of(folder, HOUR)
    keep(tmp_path / "seen.json", entry)

    assert kept(tmp_path / "seen.json", entry) == ["found"]
    assert kept(tmp_path / "seen.json", entry, of="other settings") is None


def test_what_changed_just_before_it_was_read_is_not_known(folder: Path, tmp_path: Path) -> None:
    """It could change once more, with the same size, within one tick of the clock."""
    entry = entry_of(folder, 0)
    keep(tmp_path / "seen.json", entry)

    assert kept(tmp_path / "seen.json", entry) is None


def test_a_file_whose_time_is_put_back_has_changed(folder: Path, tmp_path: Path) -> None:
    (before,) = Folder(folder).entries()
    at = (folder / "a.md").stat()
    time.sleep(0.02)
    (folder / "a.md").write_text("new")
    os.utime(folder / "a.md", ns=(at.st_atime_ns, at.st_mtime_ns))
    (after,) = Folder(folder).entries()

    assert before.stamp is not None
    assert after.stamp is not None
    assert (before.size, before.stamp[1]) == (after.size, after.stamp[1])
    assert before.stamp != after.stamp


@pytest.mark.parametrize("damaged", ["", "[]", '{"of": "settings"}', "no JSON"])
def test_a_damaged_file_of_what_was_seen_is_none(
    folder: Path, tmp_path: Path, damaged: str
) -> None:
    (tmp_path / "seen.json").write_text(damaged)

    assert kept(tmp_path / "seen.json", entry_of(folder, HOUR)) is None
