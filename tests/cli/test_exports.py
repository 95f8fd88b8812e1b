import json
from pathlib import Path

import pytest

from freshstack_dspy.collection.collection import Collection
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
    evaluated = set(collection.query_ids())
    queries, chunks = len(collection.query_ids()), len(collection.corpus.rows)
    told = f"out: {queries} queries and {chunks} chunks in the {format_} layout\n"
    if format_ == "nuggetizer":
        judged = len({one.chunk_id for one in collection.judgments if one.query_id in evaluated})
        told = (
            f"out: {queries} queries and {judged} judged chunks in the nuggetizer layout\n"
            f"the other chunks of the corpus, which has {chunks}, are left out"
        )

    assert first.code == 0
    assert first.out.startswith(told)
    assert (tmp_path / "out/export.json").is_file()
    assert second.code == 1
    assert "not empty" in second.err


def test_export_says_how_many_passages_of_crux_the_chunks_are(
    freshstack: Command, built: Path, tmp_path: Path
) -> None:
    done = freshstack("export", built, "--format", "crux", "--out", "out")
    passages = (tmp_path / "out/passages/test_psgs.jsonl").read_bytes().count(b"\n")

    assert (
        f"its {passages} passages are these chunks: a chunk stands once for each query" in done.out
    )
    assert f"There are {passages:,} passages of" in (tmp_path / "out/README.md").read_text()


def test_export_says_which_slices_have_queries(freshstack: Command, tmp_path: Path) -> None:
    write_odd(tmp_path / "c")
    done = freshstack("export", "c", "--out", "out", "--slices", "unanswerable")

    assert done.code == 1
    assert "no query is in the slices unanswerable; there are: " in done.err


def test_import_never_writes_over_a_collection(freshstack: Command, tmp_path: Path) -> None:
    write_odd(tmp_path / "c")
    before = (tmp_path / "c/manifest.json").read_bytes()
    assert freshstack("export", "c", "--format", "beir", "--out", "e").code == 0
    done = freshstack("import", "beir", "e", "--out", "c")

    assert done.code == 1
    assert "c: a collection stands already; name another folder, or move it" in done.err
    assert (tmp_path / "c/manifest.json").read_bytes() == before


def test_import_of_the_baselines_labels_warns(
    freshstack: Command, built: Path, tmp_path: Path
) -> None:
    freshstack("export", built, "--format", "beir", "--out", "e")
    done = freshstack("import", "beir", "e", "--out", "again")

    assert done.code == 0
    assert "they are no ground for choosing a retriever" in " ".join(done.out.split())


@pytest.mark.parametrize(
    ("word", "said"), [("mteb", "is read as beir"), ("hf", "cannot be read"), ("x", "allowed")]
)
def test_import_answers_a_word_of_export(freshstack: Command, word: str, said: str) -> None:
    done = freshstack("import", word, "e", "--out", "again")

    assert done.code == 1
    assert said in done.err


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
    assert "'easy' is no slice; allowed: supported" in wrong.err


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
