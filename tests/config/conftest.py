from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the inputs of `LEAST`."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "questions.jsonl").write_text("{}")
    return tmp_path
