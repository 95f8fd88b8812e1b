"""Optimized programs: demonstrations that are sent, and programs on disk."""

import json
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.experimental import Score

from freshstack_dspy import Nuggetizer, Query, SupportJudge
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.lm.typed import messages_of
from freshstack_dspy.programs.saved import load_program, save_program, state_of
from freshstack_dspy.signatures.judge_support import (
    ChunkSupport,
    NumberedChunk,
    NumberedNugget,
    SupportedNugget,
)
from freshstack_dspy.signatures.question import ShownQuestion

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


class Rated(dspy.Module):
    """Decides with cuts, by another model's settings, in a field that has another prefix."""

    def __init__(self) -> None:
        super().__init__()
        self.decide = dspy.Predict(
            dspy.Signature(
                "text -> level",
                "Rate.",
            ).with_updated_fields(
                "level", type_=Score["low", "middle", "high"], desc="How good is it?"
            )
        )


@pytest.mark.parametrize("by", ["us", "DSPy"])
def test_a_file_restores_all_that_changes_answers(path: Path, by: str) -> None:
    program = Rated()
    program.decide.signature = program.decide.signature.with_updated_fields(
        "level", prefix="Now:"
    ).with_instructions("Rate well.")
    program.decide.fields = {"level": {"cuts": [0.25, 1.75]}}
    program.decide.demos = [
        dspy.Example(text="fine", level=2, augmented=True),
        dspy.Example(level=1),
        dspy.Example(query="of the module around it"),
    ]
    program.decide.config = {"temperature": 0.9, "rollout_id": 3}
    if by == "us":
        save_program(program, path)
    else:
        path.parent.mkdir()
        program.save(path)

    loaded, by_dspy = load_program(Rated(), path), Rated()
    by_dspy.load(path)

    lost: dict[str, Any] = {} if by == "us" else {"config": {}}  # DSPy saves none
    assert state_of(loaded)["decide"] == {**state_of(program)["decide"], **lost}
    assert state_of(by_dspy) == state_of(loaded)
    assert loaded.decide.get_criteria("level") == ["low", "middle", "high"]
    assert state_of(loaded)["decide"]["demos"] == [{"text": "fine", "level": 2}]


def test_what_the_default_bootstrap_made_is_loaded_as_it_is(
    path: Path, answering: Answering
) -> None:
    """Its labelled demonstrations are examples of the program, which lack what a predictor asks."""
    answering(NuggetizeAnswer={"nuggets": []})
    query = Query(query_id="1", title="What?", body="", answer="It is.")
    example = dspy.Example(query=query, wanted=1).with_inputs("query")
    other = dspy.Example(query=query, wanted=2).with_inputs("query")
    compiled = dspy.BootstrapFewShot(max_bootstrapped_demos=1).compile(
        Nuggetizer(), trainset=[example, other]
    )
    path.parent.mkdir()
    compiled.save(path)

    loaded = load_program(Nuggetizer(), path)

    assert len(compiled.predict.demos) == 2
    assert state_of(loaded) == state_of(compiled)
    assert len(state_of(loaded)["predict"]["demos"]) == 1


def test_a_setting_that_a_file_may_not_hold_is_refused_when_it_is_saved(path: Path) -> None:
    program = Nuggetizer()
    program.predict.config = {"api_key": "sk-secret"}

    with pytest.raises(CollectionError, match=r"sets api_key; allowed") as caught:
        save_program(program, path)
    assert "sk-secret" not in str(caught.value)
    assert not path.exists()


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
        {"predict.demos": ["text"]},
        {"predict.fields": {"verdicts": {"threshold": 0.5}}},
        {"predict.config": {"api_base": "http://elsewhere"}},
        {"predict.config": {"extensions": {"api_base": "http://elsewhere"}}},
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
