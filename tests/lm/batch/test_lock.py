"""The lock of batch jobs from strangers."""

from pathlib import Path

import pytest

from freshstack_dspy.errors import StoreError
from freshstack_dspy.lm.batch.jobs import JobFolder
from tests.lm.planted import plant_journal


def test_the_lock_is_not_led_to_delete_a_file(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    jobs = tmp_path / "batches"
    jobs.mkdir()
    plant_journal(jobs / "lock.db", precious)

    with (
        pytest.raises(StoreError, match=r"lock\.db-journal names another file.*; delete it$"),
        JobFolder(jobs).exclusive(),
    ):
        raise AssertionError("it was let in")
    assert precious.read_text() == "mine"
