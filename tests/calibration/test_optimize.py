"""Optimizing the judge: on labels of people, tested on queries that it never saw."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dspy
import pytest

from freshstack_dspy.calibration.examples import judge_examples, split_by_query
from freshstack_dspy.calibration.optimization import (
    OptimizationReport,
    Optimized,
    optimize,
    share_agreed,
)
from freshstack_dspy.config import ModelConfig
from freshstack_dspy.errors import BudgetError, CollectionError, ConfigError, FatalModelError
from freshstack_dspy.lm.client import RecordedLM, connect
from freshstack_dspy.lm.engine import Provider
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.lm.typed import messages_of
from freshstack_dspy.records import HumanLabel, Scale, ScaleName
from freshstack_dspy.signatures.judge_support import ChunkVerdict
from tests.recipes.scripted import Inputs, Said, ScriptedProvider, judge, question_of

from .people import synthetic_labels

Connect = Callable[..., RecordedLM]


@pytest.fixture
def lm_to(tmp_path: Path) -> Iterator[Connect]:
    store = ReplyStore(tmp_path / "cache")

    def lm(provider: Provider | None = None, mode: Any = "live") -> RecordedLM:
        name = "openai/scripted" if provider else "extractive/baseline"
        model = ModelConfig(name=name, retries=0, concurrency=2)
        return connect(model, mode=mode, store=store, provider=provider)

    yield lm
    store.close()


def prompts(optimized: Optimized) -> list[dict[str, Any]]:
    """What the optimized judge sends for a question."""
    predict = optimized.program.predict
    inputs = {"question": "?", "nuggets": [], "chunks": []}
    return messages_of(predict.signature, predict.demos, inputs)


def texts_of(labels: tuple[HumanLabel, ...], query_ids: set[str]) -> set[str]:
    return {one.chunk or "" for one in labels if one.query_id in query_ids}


@pytest.mark.parametrize("optimizer", ["labeled", "bootstrap"])
def test_demonstrations_are_of_train_queries_and_go_into_the_prompt(
    lm_to: Connect, optimizer: Any
) -> None:
    labels = synthetic_labels()
    split = split_by_query(judge_examples(labels, None, 5), 0.4, 0)

    optimized = optimize(labels, lm_to(), optimizer=optimizer)

    report = optimized.report
    assert (report.train_queries, report.test_queries) == (4, 2)
    assert (report.train_examples, report.test_examples) == (4, 2)
    assert report.demonstrations == len(optimized.program.predict.demos) == 4
    assert OptimizationReport.model_validate_json(report.model_dump_json()) == report
    for demo in optimized.program.predict.demos:
        assert demo.keys() == {"question", "nuggets", "chunks", "verdicts"}
    messages = prompts(optimized)
    assert [message["role"] for message in messages] == [
        "system",
        *["user", "assistant"] * 4,
        "user",
    ]
    shown = json.dumps(messages, ensure_ascii=False)
    trained, tested = ({one.query_id for one in part} for part in split)
    assert all(text in shown for text in texts_of(labels, trained))
    assert not any(text in shown for text in texts_of(labels, tested))


def test_a_judge_that_agrees_keeps_its_own_words_as_demonstrations(lm_to: Connect) -> None:
    """BootstrapFewShot shows what the model itself answered, where people agree with it."""
    provider = ScriptedProvider()

    optimized = optimize(synthetic_labels(), lm_to(provider))

    assert "whether the words are there" in json.dumps(prompts(optimized))
    assert optimized.report.after.metrics.exact_match.value == 1


def test_before_and_after_are_measured_on_the_same_pairs(lm_to: Connect) -> None:
    """A model that only follows demonstrations is wrong before and right after."""

    class Pupil(ScriptedProvider):
        def complete(self, request: Any) -> Any:
            self._scripts = {"JudgeSupportLevel": judge if len(request.messages) > 1 else _none}
            return super().complete(request)

    def _none(inputs: Inputs) -> Any:
        return {"verdicts": [{**v, "supported": []} for v in judge(inputs)["verdicts"]]}

    report = optimize(synthetic_labels(), lm_to(Pupil()), optimizer="labeled").report

    # Per query 2 nuggets x 3 chunks, of which 2 are supported.
    assert report.before.metrics.pairs == report.after.metrics.pairs == 12
    assert report.before.metrics.exact_match.value == pytest.approx(8 / 12)
    assert report.after.metrics.exact_match.value == 1
    assert report.before.metrics.recall["support"].value == 0
    assert report.after.metrics.recall["support"].value == 1


def test_an_example_without_a_valid_reply_is_counted_and_in_no_figure(lm_to: Connect) -> None:
    def check_q3(inputs: Inputs) -> Any:
        return Said("", "content_filter") if "version 3" in question_of(inputs) else judge(inputs)

    labels = synthetic_labels()
    tested = {one.query_id for one in split_by_query(judge_examples(labels, None, 5), 0.4, 0).test}
    assert "q3" in tested
    lm = lm_to(ScriptedProvider(JudgeSupportLevel=check_q3))

    report = optimize(labels, lm, optimizer="labeled").report

    assert (report.before.failed, report.after.failed) == (1, 1)
    assert report.before.metrics.pairs == 6
    assert lm.ledger.steps()["optimize: test before"].failed == 1


def test_more_failures_than_dspy_puts_up_with_do_not_stop_the_optimizer(
    lm_to: Connect, capfd: pytest.CaptureFixture[str]
) -> None:
    """DSPy gives up after ten; here a reply that is no answer is one example that scores nothing."""
    lm = lm_to(ScriptedProvider(JudgeSupportLevel=lambda _: Said("", "content_filter")))

    optimized = optimize(synthetic_labels(24), lm)

    assert optimized.report.train_examples > 10
    assert optimized.report.demonstrations == 8, "labelled ones"
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("optimizer", ["bootstrap", "mipro"])
@pytest.mark.parametrize("kind", [BudgetError, FatalModelError])
def test_what_stops_the_model_stops_the_optimizer(
    lm_to: Connect, optimizer: Any, kind: type[Exception]
) -> None:
    """DSPy would count each refused call as a failed example, and report a program all the same."""
    calls = 0

    def judge_until_the_budget_ends(inputs: Inputs) -> Any:
        nonlocal calls
        calls += 1
        if calls > 6:
            raise kind("[budget] calls = 6 is used up")
        return judge(inputs)

    lm = lm_to(Writer(JudgeSupportLevel=judge_until_the_budget_ends))

    with pytest.raises(kind, match="used up"):
        optimize(synthetic_labels(12), lm, optimizer=optimizer)


def test_optimizing_again_asks_nobody_and_gives_the_same_program(lm_to: Connect) -> None:
    first = optimize(synthetic_labels(), lm_to())

    lm = lm_to(mode="replay")
    second = optimize(synthetic_labels(), lm)

    assert second.report == first.report
    assert prompts(second) == prompts(first)
    assert all(account.calls == 0 for account in lm.ledger.steps().values())


@pytest.mark.parametrize(
    ("optimizer", "said"),
    [
        ("gepa", "unknown optimizer 'gepa'; allowed: labeled, bootstrap, mipro"),
        ("mipro", "mipro needs a model that can write instructions"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_asked(
    lm_to: Connect, optimizer: Any, said: str
) -> None:
    lm = lm_to()

    with pytest.raises(ConfigError, match=said):
        optimize(synthetic_labels(), lm, optimizer=optimizer)

    assert lm.ledger.steps() == {}


def test_mipro_needs_two_examples_to_train_on(lm_to: Connect) -> None:
    with pytest.raises(CollectionError, match="needs 2 examples to train on, and here is 1"):
        optimize(synthetic_labels(2), lm_to(ScriptedProvider()), optimizer="mipro")


class Writer(ScriptedProvider):
    """A judge that also writes instructions, as MIPROv2 asks for, in DSPy's own format."""

    def complete(self, request: Any) -> Any:
        if (request.config.response_format or {}).get("name") == "JudgeSupportLevel":
            return super().complete(request)
        from dspy.lm15 import Message, Response, Usage

        self.calls["instructions"] += 1
        fields = ("observations", "summary", "program_description", "module_description")
        said = "".join(
            f"[[ ## {name} ## ]]\nJudge.\n\n" for name in (*fields, "proposed_instruction")
        )
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant(f"{said}[[ ## completed ## ]]"),
            finish_reason="stop",
            usage=Usage(input_tokens=1, output_tokens=1),
        )


@pytest.mark.slow
def test_mipro_runs_to_the_end(lm_to: Connect, capfd: pytest.CaptureFixture[str]) -> None:
    writer = Writer()
    lm = lm_to(writer)

    optimized = optimize(synthetic_labels(8), lm, optimizer="mipro")

    assert writer.calls["instructions"] > 0
    assert optimized.report.optimizer == "mipro"
    assert optimized.report.after.metrics.exact_match.value == 1
    assert optimized.program.predict.signature.__name__ == "JudgeSupportLevel"
    for demo in optimized.program.predict.demos:
        assert demo.keys() == {"question", "nuggets", "chunks", "verdicts"}
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["support", "binary"])
def test_the_judge_of_either_scale_is_optimized(lm_to: Connect, name: ScaleName) -> None:
    optimized = optimize(synthetic_labels(), lm_to(), optimizer="labeled", scale=Scale(name=name))

    assert optimized.program.scale == name
    (shown, *_) = [demo["verdicts"][0].supported for demo in optimized.program.predict.demos]
    assert shown == [1] if name == "binary" else (shown[0].grade, len(shown[0].quotes)) == (2, 1)
    with pytest.raises(ConfigError, match="on support or binary"):
        optimize(synthetic_labels(), lm_to(), scale=Scale(name="graded_3"))


def test_the_metric_is_the_share_of_pairs_agreed_on() -> None:
    labels = synthetic_labels(1)
    (labelled,) = judge_examples(labels, None, 5)
    example = labelled.example

    def prediction(*supported: list[int]) -> Any:
        given = zip(example.verdicts, supported, strict=True)
        return dspy.Prediction(
            verdicts=[
                ChunkVerdict(chunk=one.chunk, reason="why", supported=numbers)
                for one, numbers in given
            ]
        )

    right, half = prediction([1], [2], []), prediction([1, 2], [], [1])

    assert share_agreed(example, right) == 1
    assert share_agreed(example, half) == pytest.approx(3 / 6)
    assert share_agreed(example, right, trace=[]) is True
    assert share_agreed(example, half, trace=[]) is False
    assert share_agreed(example, prediction([1], [2], [1]), trace=[]) is True, "5 of 6"
