"""The locks of an index from strangers: what SQLite would do with them is not done."""

from pathlib import Path

import pytest

from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.workplace import hold, new_part, sole_writer, sweep
from tests.lm.planted import plant_journal


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    path = tmp_path / "precious"
    path.write_text("mine")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "index"
    path.mkdir()
    return path


def test_a_writer_is_not_led_to_delete_a_file(folder: Path, precious: Path) -> None:
    plant_journal(folder / ".lock", precious)

    with (
        pytest.raises(IndexingError, match=r"\.lock-journal names another file.*; delete it$"),
        sole_writer(folder),
    ):
        raise AssertionError("it was let in")
    assert precious.read_text() == "mine"


def test_sweeping_is_not_led_to_delete_a_file(folder: Path, precious: Path) -> None:
    part = new_part(folder / "rows-1")
    plant_journal(part / "readers.lock", precious)

    with pytest.raises(IndexingError, match=r"rows-1/readers\.lock-journal names another file"):
        sweep(folder, keep=())
    assert precious.read_text() == "mine"


def test_reading_opens_no_lock_that_leads_elsewhere(folder: Path, precious: Path) -> None:
    part = new_part(folder / "rows-1")
    plant_journal(part / "readers.lock", precious)
    with pytest.raises(IndexingError, match="names another file"):
        hold(part)

    (part / "readers.lock-journal").unlink()
    (part / "readers.lock").unlink()
    (part / "readers.lock").symlink_to(precious)
    with pytest.raises(IndexingError, match=r"readers\.lock is a link or no plain file"):
        hold(part)


def test_a_writer_follows_no_link(folder: Path, tmp_path: Path) -> None:
    (folder / ".lock").symlink_to(tmp_path / "absent")

    with (
        pytest.raises(IndexingError, match=r"\.lock is a link or no plain file.*; delete it$"),
        sole_writer(folder),
    ):
        raise AssertionError("it was let in")
    assert not (tmp_path / "absent").exists()
