"""What an installed package adds to ours, by a package that lies here: see tests/strangers."""

from pathlib import Path

import pytest

from freshstack_dspy import Collection
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.formats import FORMATS
from freshstack_dspy.formats.beir import BEIR
from tests.collection.small import write_small

from .conftest import Command

BUILD = """
name = "gates"
out = "out"

[queries]
source = "forum"
path = "forum.txt"

[[corpus]]
name = "docs"
path = "docs"

[model]
name = "extractive/baseline"
"""


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
    assert wrong.code == 2
    assert "gone, lines" in wrong.err


def test_a_name_of_ours_stays_ours_and_what_cannot_be_imported_is_named() -> None:
    assert FORMATS.get("beir") is BEIR
    with pytest.raises(ConfigError, match=r"format gone strangers:GONE: .*strangers.py has no"):
        FORMATS.get("gone")


def test_a_source_a_measure_and_a_recipe_are_used_by_their_names(
    freshstack: Command, tmp_path: Path
) -> None:
    (tmp_path / "forum.txt").write_text(
        "How do I close a gate?\nCall gate.close() with a key.\n", encoding="utf-8"
    )
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/gate.md").write_text("Call gate.close() with a key.\n", encoding="utf-8")
    config = tmp_path / "build.toml"
    config.write_text(f'recipe = "strangers:WithLengths"\n{BUILD}', encoding="utf-8")
    run = tmp_path / "a.run"
    run.write_text("f1 Q0 docs/gate.md_0_30 1 1.0 a\n", encoding="utf-8")

    built = freshstack("build", config)
    words = ("--measure", "firstisshort@40")
    measured = freshstack("evaluate", tmp_path / "out", run, *words)
    grouped = freshstack("evaluate", tmp_path / "out", run, *words, "--by", "length")
    wrong = freshstack("evaluate", tmp_path / "out", run, "--measure", "zzz@40")
    config.write_text(BUILD.replace("forum", "forums", 1), encoding="utf-8")
    unknown = freshstack("build", config)

    assert (built.code, measured.code, grouped.code) == (0, 0, 0), (built, measured, grouped)
    assert "short" in grouped.out
    assert [query.title for query in Collection.load(tmp_path / "out").queries] == [
        "How do I close a gate?"
    ]
    assert "FirstIsShort@40" in measured.out
    assert "1.000" in measured.out
    assert "FirstIsShort" in wrong.err
    assert "synthetic, forum" in unknown.err
