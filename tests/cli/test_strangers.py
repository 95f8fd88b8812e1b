"""What an installed package adds to ours, by a package that lies here: see tests/strangers."""

from pathlib import Path

import pytest

from freshstack_dspy import export_collection, import_collection
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.formats import FORMATS
from freshstack_dspy.formats.beir import BEIR
from tests.collection.small import write_small

from .conftest import Command


@pytest.fixture(autouse=True)
def _strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "strangers")


def test_a_format_is_written_read_and_validated_by_its_name(
    freshstack: Command, tmp_path: Path
) -> None:
    small = write_small(tmp_path / "c")
    done = [
        freshstack("export", tmp_path / "c", "--format", "lines", "--out", tmp_path / "e"),
        freshstack("validate", tmp_path / "e"),
        freshstack("import", tmp_path / "e", "--format", "lines", "--out", tmp_path / "b"),
    ]
    wrong = freshstack("export", tmp_path / "c", "--format", "line", "--out", tmp_path / "x")

    assert [one.code for one in done] == [0, 0, 0], done
    assert "Read its lines." in (tmp_path / "e/README.md").read_text()
    assert small.load(tmp_path / "b").qrels().nuggets == small.qrels().nuggets
    assert wrong.code == 1
    assert f"no format 'line'; allowed: {', '.join(FORMATS.ours)}, gone, lines" in wrong.err


def test_an_object_does_without_a_name(tmp_path: Path) -> None:
    layout = FORMATS.get("lines")
    export_collection(write_small(tmp_path / "c"), layout, tmp_path / "e")

    assert import_collection(layout, tmp_path / "e", tmp_path / "b").query_ids() == ("12", "123")


def test_a_name_of_ours_stays_ours_and_what_cannot_be_imported_is_named() -> None:
    assert FORMATS.get("beir") is BEIR
    with pytest.raises(ConfigError, match=r"format gone strangers:GONE: .*strangers.py has no"):
        FORMATS.get("gone")
