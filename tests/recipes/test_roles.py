"""Models by role: who is asked what, what it costs, and who is said to have answered."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dspy
import pytest

from freshstack_dspy import BuildConfig, ModelConfig, build, extend, load_config, plan, refresh
from freshstack_dspy.errors import BudgetError, ConfigError, DeferredError
from freshstack_dspy.lm.store import open_store
from freshstack_dspy.progress import NoProgress
from freshstack_dspy.recipes.requests import answer_requests
from tests.lm.chat_server import ChatServer, Scripted
from tests.recipes.domain import domain, write_domain
from tests.recipes.scripted import SCRIPTS, ScriptedProvider, inputs_of

JUDGE = {"name": "openai/judge", "temperature": 0.5, "max_tokens": 2048}


def parameters(config: BuildConfig, model: str) -> set[tuple[Any, Any]]:
    """Temperature and longest reply of the requests to a model."""
    store = open_store(config.cache.path, "replay")
    assert store is not None
    asked = [one.request for one in store.replies() if one.request.model == model]
    return {(one.parameters["temperature"], one.parameters["max_tokens"]) for one in asked}


def test_each_role_asks_its_own_model_with_its_own_settings(tmp_path: Path) -> None:
    own: dict[str, Any] = {
        "model": {"temperature": 0.2, "max_tokens": 4000},
        "judge.model": JUDGE,
        "nuggets.model": {"max_tokens": 1000},
    }
    path = write_domain(tmp_path, **own)
    config = load_config(path)
    planned = plan(config)

    made = build(config, provider=ScriptedProvider())
    again = build(config, mode="replay", replace=True)

    for manifest in (made.manifest, again.manifest):
        assert manifest.model == "openai/judge"
        assert manifest.models == {
            "nuggets": ("openai/scripted",),
            "sub_questions": ("openai/scripted",),
            "closed_book_answer": ("openai/scripted",),
            "support": ("openai/judge",),
            "contamination": ("openai/judge",),
        }
    assert parameters(config, "openai/judge") == {(0.5, 2048)}
    assert parameters(config, "openai/scripted") == {(0.2, 1000), (0.2, 4000)}
    assert made.labels_by == "labels by openai/judge"
    assert "openai/scripted (nuggets" in (config.out / "README.md").read_text()
    assert planned.model == "openai/judge, openai/scripted"
    assert {one.step: one.models for one in planned.steps} == made.manifest.models
    assert "sk-" not in (config.out / "manifest.json").read_text()


def test_models_are_given_in_python_as_names_configurations_or_lms(tmp_path: Path) -> None:
    engine: Any = ScriptedProvider()
    models: Any = {
        "judge": dspy.LM("openai/own", engine=engine, temperature=0.3, max_tokens=500),
        "nuggets": ModelConfig(name="openai/writer"),
    }
    config = domain(tmp_path)

    made = build(config, provider=ScriptedProvider(), models=models)

    assert engine.calls.keys() == {"JudgeSupportLevel"}
    assert made.manifest.models["support"] == ("openai/own",)
    assert made.manifest.models["nuggets"] == ("openai/writer",)
    assert parameters(config, "openai/own") == {(0.3, 500)}
    assert build(config, mode="replay", models=models).manifest == made.manifest
    with pytest.raises(ConfigError, match="no role 'judges'; allowed: judge, nuggets"):
        build(config, models={"judges": "openai/x"})  # type: ignore[dict-item]


def test_another_judge_by_its_role_is_another_judge(tmp_path: Path) -> None:
    build(domain(tmp_path), provider=ScriptedProvider())
    other = domain(tmp_path, judge={"model": "openai/judge"})

    with pytest.raises(ConfigError, match=r"judge\.model\.name = 'openai/scripted', now 'openai/j"):
        build(other, provider=ScriptedProvider())
    with pytest.raises(ConfigError, match=r"model 'openai/scripted', now 'openai/judge'"):
        refresh(other, provider=ScriptedProvider())
    kept = refresh(other, provider=ScriptedProvider(), keep_labels=True).collection
    assert kept.labels_by == "labels by openai/scripted"


def test_prices_are_of_each_model_and_the_account_is_one(tmp_path: Path) -> None:
    judge: dict[str, Any] = {
        "judge.model": JUDGE,
        "judge.model.prices": {"input": 1.0, "output": 2.0},
    }
    config = domain(tmp_path, prices={"input": 10.0, "output": 0.0}, **judge)

    planned = {one.step: one for one in plan(config).steps}
    made = build(config, provider=ScriptedProvider())

    support = planned["support"]
    assert support.cost == pytest.approx(
        (support.input_tokens + 2 * support.output_tokens) / 1_000_000
    )
    ledger = made.manifest.ledger
    assert ledger["support"].cost == pytest.approx(ledger["support"].calls * 120e-6)
    assert ledger["nuggets"].cost == pytest.approx(ledger["nuggets"].calls * 1000e-6)
    calls = sum(one.calls for one in ledger.values())
    capped = domain(tmp_path / "capped", budget={"calls": calls - 1}, **judge)
    with pytest.raises(BudgetError, match="calls"):
        build(capped, provider=ScriptedProvider())


def answer(body: dict[str, Any]) -> Scripted:
    inputs = inputs_of([one["content"] for one in body["messages"]])
    task = body["response_format"]["json_schema"]["name"]
    return Scripted(json.dumps(SCRIPTS[task](inputs)))


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(answer).running() as running:
        yield running


def test_deferred_requests_are_answered_by_the_model_of_each(
    tmp_path: Path, server: ChatServer
) -> None:
    at = {"api_base": server.api_base, "api_key": "sk-x"}
    config = domain(
        tmp_path,
        model={"name": "hosted_vllm/writer", **at},
        **{"judge.model": {"name": "hosted_vllm/judge", **at}},
    )
    made = None
    for _ in range(4):
        try:
            made = build(config, mode="defer")
            break
        except DeferredError:
            assert answer_requests(config, NoProgress()).left_out == {}

    assert made is not None
    assert made.manifest.models["nuggets"] == ("hosted_vllm/writer",)
    assert made.manifest.models["support"] == ("hosted_vllm/judge",)
    assert {body["model"] for body in server.requests} == {"writer", "judge"}


def test_judging_needs_no_key_of_another_role(tmp_path: Path) -> None:
    config = domain(tmp_path, pool={"depth": 1, "top_k": 1, "techniques": ["question"]})
    made = build(config, provider=ScriptedProvider())
    baseline = domain(
        tmp_path, model={"name": "openai/other"}, judge={"model": "extractive/baseline"}
    )

    found = extend(
        config.out,
        [{"2": {one.chunk_id: 1.0 for one in made.chunks()}}],
        baseline,
        keep_labels=True,
    )

    assert set(found.collection.labels_by.removeprefix("labels by ").split(" and ")) == {
        "extractive/baseline, a word counter",
        "openai/scripted",
    }
