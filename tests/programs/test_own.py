"""Programs as DSPy's users change them: other modules and adapters inside, saved, loaded, copied."""

import asyncio
import copy
import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.utils import DummyLM

from freshstack_dspy import (
    ModelConfig,
    Nugget,
    Nuggetizer,
    Query,
    ReplyStore,
    SupportJudge,
    connect,
)
from freshstack_dspy.errors import ReplyError
from freshstack_dspy.signatures.nuggets import NuggetizeAnswer
from tests.lm.asking import Scribe

from .conftest import QUERY, Answering
from .test_programs import chunk, said

ONE = {"nuggets": [said("Use `width`.", "`width`")]}


def call_id(program: Nuggetizer) -> str:
    (nugget,) = program(QUERY).nuggets
    assert nugget.text == "Use `width`."
    return str(nugget.call_id)


def saved(program: Nuggetizer, folder: Path) -> Nuggetizer:
    """What DSPy loads of what it saved."""
    program.save(folder / "program.json")
    loaded = Nuggetizer()
    loaded.load(folder / "program.json")
    return loaded


def instructed(program: Nuggetizer, _: Path) -> Nuggetizer:
    program.predict.signature = NuggetizeAnswer.with_instructions(NuggetizeAnswer.instructions)
    return program


@pytest.mark.parametrize(
    "changed",
    [saved, instructed, lambda program, _: copy.deepcopy(program)],
    ids=["saved", "with_instructions", "deepcopy"],
)
def test_what_is_sent_in_the_same_words_has_the_same_key(
    answering: Answering, tmp_path: Path, changed: Callable[[Nuggetizer, Path], Nuggetizer]
) -> None:
    model = answering(NuggetizeAnswer=ONE)
    program = Nuggetizer()
    program.predict.demos = [
        dspy.Example(question={"title": "Heights?"}, answer="", limit=3, nuggets=[]),
    ]

    assert call_id(program) == call_id(changed(program, tmp_path))
    assert len(model.asked) == 1


class Mine(dspy.Module):
    """One of a user's own."""

    def __init__(self) -> None:
        super().__init__()
        self.think = dspy.ChainOfThought(NuggetizeAnswer)

    def forward(self, **inputs: Any) -> dspy.Prediction:
        return dspy.Prediction(nuggets=self.think(**inputs).nuggets)


@pytest.mark.parametrize(
    "inside", [dspy.ChainOfThought(NuggetizeAnswer), Mine()], ids=["ChainOfThought", "own"]
)
def test_another_module_inside_gets_its_call_from_the_recorded_model(
    answering: Answering, inside: Any
) -> None:
    answering(NuggetizeAnswer={"reasoning": "Look.", **ONE})
    program = Nuggetizer()
    program.predict = inside

    assert len(call_id(program)) == 64


@pytest.mark.parametrize("module", [dspy.BestOfN, dspy.Refine])
def test_several_attempts_inside_are_each_recorded(answering: Answering, module: Any) -> None:
    model = answering(NuggetizeAnswer=ONE)
    attempts: list[Any] = []

    def reward(_: Any, made: Any) -> float:
        attempts.append(made)
        return len(attempts) - 1.0

    program = Nuggetizer()
    program.predict = module(program.predict, N=2, reward_fn=reward, threshold=1.0)

    assert len(call_id(program)) == 64
    assert len(attempts) == 2
    assert sum("nuggets" not in str(one.keys()) for one in model.asked) >= 2


@pytest.mark.parametrize("adapter", [dspy.ChatAdapter(), dspy.JSONAdapter()])
def test_a_configured_adapter_is_used_and_its_replies_are_recorded(
    tmp_path: Path, adapter: dspy.Adapter
) -> None:
    nuggets = json.dumps(ONE["nuggets"])
    text = f"[[ ## nuggets ## ]]\n{nuggets}\n\n[[ ## completed ## ]]"
    scribe = Scribe(json.dumps(ONE) if isinstance(adapter, dspy.JSONAdapter) else text)
    store = ReplyStore(tmp_path / "cache")
    lm = connect(ModelConfig(name="openai/scripted"), store=store, provider=scribe)
    with closing(store), dspy.context(lm=lm, adapter=adapter):
        reply = call_id(Nuggetizer())
        assert [entry.key for entry in store.replies()] == [reply]


def test_what_another_adapter_lets_pass_is_a_failure() -> None:
    """It answers for one chunk of two, and with a grade that is not on the scale."""
    nuggets = [Nugget(nugget_id="q7_0", query_id="q7", text="Use `width`.", call_id=None)]
    chunks = [chunk("a.md", "Use `width`."), chunk("b.md")]
    verdict: dict[str, Any] = {"chunk": 1, "reason": "It says so.", "supported": [1]}
    adapter = dspy.JSONAdapter()
    with dspy.context(lm=DummyLM([{"verdicts": [verdict]}], adapter=adapter), adapter=adapter):
        judged = SupportJudge("binary")(query=QUERY, nuggets=nuggets, chunks=chunks)

    assert [one.label for one in judged.judgments] == [1, None]
    assert "nothing is said of chunks 2" in str(judged.failure)

    verdict["chunk"] = 3
    with (
        dspy.context(lm=DummyLM([{"verdicts": [verdict]}], adapter=adapter), adapter=adapter),
        pytest.raises(ReplyError, match="no chunk"),
    ):
        SupportJudge("binary")(query=QUERY, nuggets=nuggets, chunks=chunks)


def test_a_program_is_awaited(answering: Answering) -> None:
    answering(NuggetizeAnswer=ONE)

    async def all_of_them() -> list[Any]:
        texts = Nuggetizer().acall(question="Widths?", answer=QUERY.answer)
        return await asyncio.gather(texts, *(Nuggetizer().acall(QUERY) for _ in range(2)))

    by_texts, one, other = asyncio.run(all_of_them())
    assert one.nuggets == other.nuggets != ()
    assert [nugget.text for nugget in by_texts.nuggets] == [nugget.text for nugget in one.nuggets]


def numbered(number: int) -> Query:
    """One of several questions."""
    return QUERY.model_copy(update={"query_id": f"q{number}", "title": f"Width {number}?"})


def test_programs_run_in_parallel_in_a_batch_and_by_asyncify(answering: Answering) -> None:
    answering(NuggetizeAnswer=ONE)
    program, queries = Nuggetizer(), [numbered(number) for number in range(5)]
    examples = [dspy.Example(query=one).with_inputs("query") for one in queries]
    parallel = dspy.Parallel(num_threads=3, disable_progress_bar=True)

    async def gathered() -> list[Any]:
        return await asyncio.gather(*(dspy.asyncify(program)(one) for one in queries))

    made = [
        parallel([(program, {"query": one}) for one in queries]),
        parallel([(program, one) for one in examples]),
        program.batch(examples, num_threads=3, disable_progress_bar=True),
        asyncio.run(gathered()),
    ]

    ids = [[one.nuggets[0].nugget_id for one in each] for each in made]
    assert ids == [[f"q{number}_0" for number in range(5)]] * 4


@pytest.mark.parametrize("is_async", [False, True])
def test_a_program_may_be_streamed_and_gives_its_answer_in_one_piece(
    answering: Answering, is_async: bool
) -> None:
    answering(NuggetizeAnswer=ONE)

    async def streamed() -> list[Any]:
        program = dspy.streamify(Nuggetizer(), is_async_program=is_async)
        return [piece async for piece in program(query=QUERY)]

    *pieces, last = asyncio.run(streamed())

    assert len(last.nuggets[0].call_id) == 64
    assert json.loads("".join(one.choices[0].delta.content or "" for one in pieces)) == ONE
