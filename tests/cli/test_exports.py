import json
from pathlib import Path

import pytest

from freshstack_dspy.collection import Collection
from freshstack_dspy.collection.exports import FORMATS
from tests.cli.conftest import Command
from tests.collection.exports.odd import write_odd


@pytest.mark.parametrize("format_", FORMATS)
def test_export_writes_each_layout_once(
    freshstack: Command, built: Path, tmp_path: Path, format_: str
) -> None:
    first = freshstack("export", built, "--format", format_, "--out", "out")
    second = freshstack("export", built, "--format", format_, "--out", "out")
    collection = Collection.load(built)
    queries, chunks = len(collection.query_ids()), len(collection.corpus.rows)
    told = f"out: {queries} queries and {chunks} chunks in the {format_} layout\n"

    assert first.code == 0
    assert first.out.startswith(told)
    assert (tmp_path / "out/export.json").is_file()
    assert second.code == 1
    assert "not empty" in second.err


def test_export_says_where_changed_ids_are(freshstack: Command, tmp_path: Path) -> None:
    write_odd(tmp_path / "c")
    done = freshstack("export", "c", "--format", "trec", "--out", "out")

    assert done.code == 0
    assert done.out.endswith("out/ids.json: ids that had to change, and what they were\n")


def test_export_takes_slices(freshstack: Command, built: Path, tmp_path: Path) -> None:
    done = freshstack(
        "export", built, "--out", "out", "--slices", "answerable", "--slices", "unanswerable"
    )
    wrong = freshstack("export", built, "--out", "again", "--slices", "easy")

    assert done.code == 0
    assert json.loads((tmp_path / "out/export.json").read_bytes())["slices"] == [
        "answerable",
        "unanswerable",
    ]
    assert wrong.code == 1
    assert "'easy' is no slice; allowed: answerable" in wrong.err


def test_export_writes_nothing_into_the_collection(freshstack: Command, tmp_path: Path) -> None:
    write_odd(tmp_path / "c")
    done = freshstack("export", "c", "--out", "c/export")

    assert done.code == 1
    assert "c/export is inside c" in done.err
    assert not (tmp_path / "c/export").exists()


def test_push_needs_a_token(
    freshstack: Command, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    done = freshstack("push", built, "ada/small")

    assert (done.code, done.out) == (1, "")
    assert "set HF_TOKEN" in done.err
