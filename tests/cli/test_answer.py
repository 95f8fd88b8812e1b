"""`freshstack answer`, as it is typed."""

import json
import shutil
from pathlib import Path

import pytest

from freshstack_dspy.cli.answer_tables import say_failed
from freshstack_dspy.recipes.answering.answering import Answering
from freshstack_dspy.records import Answer, OmittedChunk
from tests.recipes.domain import files_of

from .conftest import Command


@pytest.fixture
def desk(freshstack: Command, built: Path, tmp_path: Path) -> Path:
    """A copy of the collection with two runs and the configuration of a model."""
    shutil.copytree(built, tmp_path / "collection")
    for name in ("bm25", "lsa"):
        done = freshstack("retrieve", "collection", "--retriever", name, "--index", "index")
        assert done.code == 0, done.err
    (tmp_path / "judge.toml").write_text('[model]\nname = "extractive/baseline"\n')
    return tmp_path


def test_answers_are_written_and_what_they_are_worth_is_said(
    freshstack: Command, desk: Path
) -> None:
    words = ("answer", "collection", "bm25.run", "lsa.run", "--config", "judge.toml")

    done = freshstack(*words, "--out", "answers", "--depth", "5")
    again = freshstack(*words, "--out", "again", "--depth", "5", "--mode", "replay")
    over = freshstack(*words, "--out", "answers", "--depth", "5", "--mode", "replay")

    assert done.code == again.code == over.code == 0, done.err + again.err + over.err
    assert "agreement with the answers from the gold chunks, top 5" in done.out
    assert "nuggets that the answers hold" in done.out
    assert "Coverage@5" in done.out
    assert "a dry run: extractive/baseline" in done.out
    assert all(len(line) <= 80 for line in done.out.splitlines() if line[:1] in "┏┃│└")
    assert "answers: 4 answers from 2 runs" in done.out
    assert files_of(desk / "answers") == files_of(desk / "again")
    told = json.loads((desk / "answers" / "answering.json").read_text())
    assert (told["depth"], told["queries"], told["model"]) == (5, 2, "extractive/baseline")
    scored = freshstack("score", "agreement", "answers/agreement.jsonl")
    assert scored.code == 0, scored.err


def test_queries_without_gold_chunks_are_named(freshstack: Command, desk: Path) -> None:
    done = freshstack(
        "answer", "collection", "bm25.run", "--config", "judge.toml", "--out", "answers",
        "--slices", "all",
    )  # fmt: skip

    assert done.code == 0, done.err
    assert "above: the measure's value is above 0" in done.out
    assert "1 query without gold chunks, in no figure of agreement: x" in done.out


@pytest.mark.parametrize(
    ("out", "more", "said"),
    [
        ("collection", (), "is inside"),
        ("collection/answers", (), "is inside"),
        ("bm25.run", (), "is read by this command"),
        (".", (), "is inside"),
        ("index", (), "holds"),
        (
            "answers",
            ("--log", "answers/log.jsonl"),
            "is inside answers, which this command replaces",
        ),
    ],
)
def test_nothing_that_is_read_or_stands_is_written_over(
    freshstack: Command, desk: Path, out: str, more: tuple[str, ...], said: str
) -> None:
    before = files_of(desk)

    done = freshstack(
        "answer", "collection", "bm25.run", "--config", "judge.toml", "--out", out, *more
    )

    assert done.code == 1
    assert said in done.err
    assert {name: data for name, data in files_of(desk).items() if ".freshstack" not in name} == {
        name: data for name, data in before.items() if ".freshstack" not in name
    }


def test_a_chunk_that_the_corpus_lacks_stops_it_unless_told(
    freshstack: Command, desk: Path
) -> None:
    (desk / "odd.run").write_text("2 Q0 gone 1 1.0 odd\n77 Q0 gone 1 1.0 odd\n")
    words = ("answer", "collection", "odd.run", "--config", "judge.toml", "--out", "answers")

    refused = freshstack(*words)
    nothing = freshstack(*words, "--unknown", "skip")
    with (desk / "odd.run").open("a") as file:
        first = (desk / "bm25.run").read_text().splitlines()[0].rsplit(maxsplit=1)[0]
        file.write(f"{first} odd\n")
    passed = freshstack(*words, "--unknown", "skip")

    assert refused.code == nothing.code == 1
    assert "not in the corpus" in refused.err
    assert "holds no chunk of" in nothing.err
    assert passed.code == 0, passed.err
    assert "odd: 1 chunks passed over, not in the corpus: gone for 2" in passed.out
    assert "odd: 1 query not in the collection or without nuggets: 77" in passed.out


def test_chunks_left_out_of_gold_contexts_are_said_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    omitted = OmittedChunk(chunk_id="c", reason="no_room")
    gold = Answer(
        run_id="gold", topic_id="1", topic="How?", references=("d",), response_length=0,
        answer=(), omitted=(omitted,), status="ok", call_id="k",
    )  # fmt: skip

    say_failed(tmp_path, Answering((), (gold,), (), (), (), (), ()))

    assert "1 chunk not shown to the generator, of 1 answer (1 of them gold)" in (
        capsys.readouterr().out
    )
