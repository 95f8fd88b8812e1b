"""What must not be opened with SQLite is told before it is."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from freshstack_dspy.lm.store import unsafe_file
from tests.lm.planted import plant_journal


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "lock.db"
    path.touch()
    return path


def test_plain_files_and_absent_ones_are_safe(database: Path) -> None:
    database.with_name("lock.db-journal").write_bytes(b"\0" * 512)

    assert unsafe_file(database, writing=True) is None
    assert unsafe_file(database / "absent" / "x.db", writing=True) is None


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("make", [lambda file: file.symlink_to("elsewhere"), Path.mkdir, os.mkfifo])
def test_links_folders_and_pipes_are_told(
    tmp_path: Path, suffix: str, make: Callable[[Path], None]
) -> None:
    file = tmp_path / f"lock.db{suffix}"
    make(file)

    found = unsafe_file(tmp_path / "lock.db", writing=False)

    assert found is not None
    assert found[0] == file.name
    assert "link or no plain file" in found[1]


def test_a_hard_link_is_told_to_a_writer(database: Path) -> None:
    os.link(database, database.with_name("precious"))

    assert unsafe_file(database, writing=False) is None
    found = unsafe_file(database, writing=True)
    assert found is not None
    assert "hard link" in found[1]


def test_a_journal_that_makes_sqlite_delete_a_file_is_told(database: Path) -> None:
    precious = database.with_name("precious")
    precious.write_text("mine")
    plant_journal(database, precious)

    found = unsafe_file(database, writing=False)

    assert found is not None
    assert found[0] == "lock.db-journal"
    assert "names another file" in found[1]
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
    assert not precious.exists(), "SQLite would have deleted it"
