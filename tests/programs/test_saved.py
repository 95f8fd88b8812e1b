"""Optimized programs: demonstrations that are sent, and programs on disk."""

import json
from pathlib import Path
from typing import Any

import dspy
import pytest

from freshstack_dspy import Nuggetizer, SupportJudge
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.lm.typed import messages_of
from freshstack_dspy.programs.saved import load_program, save_program
from freshstack_dspy.signatures.checks import ShownQuestion
from freshstack_dspy.signatures.judge_support import (
    ChunkSupport,
    NumberedChunk,
    NumberedNugget,
    SupportedNugget,
)

from .conftest import Answering

VERDICTS = [
    ChunkSupport(
        chunk=1,
        reason="it says so",
        supported=[SupportedNugget(nugget=1, grade=2, quotes=["code"])],
    )
]


def example(number: int) -> dspy.Example:
    return dspy.Example(
        question=ShownQuestion(title=f"question {number}"),
        nuggets=[NumberedNugget(number=1, text="fact")],
        chunks=[NumberedChunk(number=1, path="a.py", text="code")],
        verdicts=VERDICTS,
    ).with_inputs("question", "nuggets", "chunks")


CHUNK = {"number": 1, "path": "a.md", "text": "a"}


@pytest.fixture
def judge() -> SupportJudge:
    judge = SupportJudge()
    judge.predict.signature = judge.predict.signature.with_instructions("Judge strictly.")
    bootstrapped = {**example(2).toDict(), "augmented": True, "call_id": "c"}
    judge.predict.demos = [example(1), bootstrapped, dspy.Example(question="incomplete")]
    return judge


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "programs" / "judge.json"


def messages(judge: SupportJudge) -> list[dict[str, Any]]:
    signature, demos = judge.predict.signature, judge.predict.demos
    return messages_of(signature, demos, example(9).inputs().toDict())


def test_a_loaded_program_asks_exactly_as_the_saved_one(
    judge: SupportJudge, path: Path, answering: Answering
) -> None:
    answering()
    judge.set_lm(dspy.settings.lm)
    save_program(judge, path)
    loaded = load_program(SupportJudge(), path)

    assert messages(loaded) == messages(judge)
    assert len(messages(loaded)) == 6
    assert messages(loaded)[0]["content"].startswith("Judge strictly.\n")
    assert loaded.predict.lm is None
    saved = path.read_text(encoding="utf-8")
    assert "scripted" not in saved, "the model is not in the file"
    assert json.loads(saved)["predict"]["demos"][1].keys() == {
        "question", "nuggets", "chunks", "verdicts",
    }  # fmt: skip


def test_dspy_loads_what_we_save_and_we_load_what_dspy_saves(
    judge: SupportJudge, path: Path, tmp_path: Path
) -> None:
    save_program(judge, path)
    by_dspy = SupportJudge()
    by_dspy.load(path)
    by_dspy.save(tmp_path / "theirs.json")

    assert messages(by_dspy) == messages(judge)
    assert messages(load_program(SupportJudge(), tmp_path / "theirs.json")) == messages(judge)


def test_a_program_of_another_kind_is_refused(path: Path) -> None:
    save_program(Nuggetizer(), path)

    with pytest.raises(
        CollectionError, match="a saved Nuggetizer, and a SupportJudge of scale support is needed"
    ):
        load_program(SupportJudge(), path)


@pytest.mark.parametrize(
    "change",
    [
        {"extra": 1},
        {"freshstack_dspy": {"program": "Nuggetizer"}},
        {"predict.demos": [{"question": "incomplete"}]},
        {"predict.demos.0.verdicts": []},
        {"predict.demos.0.chunks": [{"number": 1}]},
        {"predict.demos.0.chunks": [CHUNK, {**CHUNK, "number": 2}]},
        {"predict.signature.instructions": 7},
        {"predict.signature.fields": []},
    ],
    ids=str,
)
def test_a_file_that_holds_anything_else_is_refused_in_one_line(
    judge: SupportJudge, path: Path, change: dict[str, Any]
) -> None:
    save_program(judge, path)
    saved = json.loads(path.read_text(encoding="utf-8"))
    ((place, value),) = change.items()
    *parents, last = place.split(".")
    target = saved
    for parent in parents:
        target = target[int(parent) if parent.isdigit() else parent]
    target[last] = value
    path.write_text(json.dumps(saved), encoding="utf-8")
    fresh = SupportJudge()

    with pytest.raises(CollectionError, match=r"judge\.json: ") as caught:
        load_program(fresh, path)
    assert "\n" not in str(caught.value)
    assert fresh.dump_state() == SupportJudge().dump_state()
