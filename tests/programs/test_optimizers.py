"""DSPy's optimizers on a typed question."""

from typing import Any

import dspy
import pytest
from dspy.teleprompt import BootstrapFewShot, LabeledFewShot

from freshstack_dspy.lm.typed import TypedPredict
from freshstack_dspy.programs.support_judge import SupportJudge
from freshstack_dspy.signatures.judge_support import (
    ChunkVerdict,
    JudgeSupport,
    NumberedChunk,
    NumberedNugget,
)

from .conftest import Answering

VERDICTS = [ChunkVerdict(chunk=1, reason="it says so", supported=[1])]


def example(number: int) -> dspy.Example:
    return dspy.Example(
        question=f"question {number}",
        nuggets=[NumberedNugget(number=1, text="fact")],
        chunks=[NumberedChunk(number=1, path="a.py", text="code")],
        verdicts=VERDICTS,
    ).with_inputs("question", "nuggets", "chunks")


def right(example: dspy.Example, prediction: Any, trace: Any = None) -> bool:
    return bool(prediction.verdicts[0].supported == example.verdicts[0].supported)


@pytest.mark.parametrize(
    ("optimizer", "asked"),
    [
        (LabeledFewShot(k=2), 0),
        (BootstrapFewShot(metric=right, max_bootstrapped_demos=2, max_labeled_demos=2), 2),
    ],
    ids=["labeled", "bootstrap"],
)
def test_an_optimizer_finds_demonstrations_that_are_sent(
    answering: Answering, optimizer: Any, asked: int
) -> None:
    model = answering(JudgeSupport={"verdicts": [VERDICTS[0].model_dump()]})
    compiled = optimizer.compile(
        TypedPredict(JudgeSupport), trainset=[example(number) for number in range(4)]
    )

    assert len(model.inputs) == asked
    assert len(compiled.demos) == 2
    answer = compiled(**example(9).inputs())
    *demonstrations, last = model.turns[-1]
    assert answer.verdicts == VERDICTS
    assert last["question"] == "question 9"
    assert [turn.keys() for turn in demonstrations] == [
        {"question", "nuggets", "chunks"},
        {"verdicts"},
    ] * 2
    assert demonstrations[1] == {"verdicts": [VERDICTS[0].model_dump()]}


def test_a_whole_program_can_be_compiled(answering: Answering) -> None:
    answering(JudgeSupport={"verdicts": [VERDICTS[0].model_dump()]})
    judge = SupportJudge()
    compiled = LabeledFewShot(k=1).compile(judge, trainset=[example(1)])

    assert (len(judge.predict.demos), len(compiled.predict.demos)) == (0, 1)
