"""What stops a build, and what it says then."""

import shutil
from pathlib import Path

import pytest

from freshstack_dspy.errors import CollectionError, ReplayMissError, SourceError
from freshstack_dspy.recipes.build import build

from .domain import domain
from .scripted import ScriptedProvider

BASELINE = {"name": "extractive/baseline", "concurrency": 2}


def test_a_replay_without_the_reply_says_how_to_record_it(tmp_path: Path) -> None:
    with pytest.raises(ReplayMissError, match="--mode live"):
        build(domain(tmp_path), mode="replay")

    assert not (tmp_path / "collection").exists()


def test_a_corpus_of_binary_files_stops_the_build_in_one_line(tmp_path: Path) -> None:
    config = domain(tmp_path)
    shutil.rmtree(tmp_path / "corpus")
    (tmp_path / "corpus").mkdir()
    for name in ("a.png", "b.bin"):
        (tmp_path / "corpus" / name).write_bytes(b"\x00\x01")

    with pytest.raises(SourceError) as caught:
        build(config, provider=ScriptedProvider())

    assert str(caught.value) == (
        f"corpus 'dial': no file of {tmp_path / 'corpus'} can be indexed (2 skipped: "
        "binary (a NUL at byte 0)); name one with text or code in it"
    )


def test_filters_that_leave_no_question_stop_the_build(tmp_path: Path) -> None:
    """An empty collection would be of no use, and a wrong filter is easily written."""
    config = domain(tmp_path, queries={"min_score": 5})

    with pytest.raises(SourceError) as caught:
        build(config, provider=ScriptedProvider())

    assert str(caught.value) == (
        f"{tmp_path / 'questions.jsonl'}: no question is left (3 no score to compare with min_score); "
        "widen the filters of [queries], or name another file"
    )


def test_a_folder_of_something_else_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    config = domain(tmp_path)
    config.out.mkdir(parents=True)
    (config.out / "thesis.tex").write_text("years of work")
    provider = ScriptedProvider()

    with pytest.raises(CollectionError, match="not a collection"):
        build(config, provider=provider)

    assert not provider.calls
    assert (config.out / "thesis.tex").read_text() == "years of work"
