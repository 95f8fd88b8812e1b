"""The model that DSPy is configured with, where a configuration names none."""

from contextlib import closing
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.experimental import TypeSafe
from dspy.utils.callback import BaseCallback

from freshstack_dspy import (
    BuildConfig,
    ModelConfig,
    Query,
    ReplyStore,
    build,
    connect,
    plan,
    rejudge,
)
from freshstack_dspy.config import BudgetConfig
from freshstack_dspy.errors import BudgetError, ConfigError
from freshstack_dspy.lm.budget import Account

from .domain import domain, write_domain
from .scripted import ScriptedProvider


def without_model(folder: Path, **values: Any) -> BuildConfig:
    """What `domain` makes, made in Python."""
    made = domain(folder)
    given = {name: getattr(made, name) for name in made.model_fields_set - {"model", "cache"}}
    return BuildConfig(**{**given, **values})


def test_a_build_asks_a_connected_model_as_it_is(tmp_path: Path) -> None:
    provider, config = ScriptedProvider(), without_model(tmp_path)
    model = ModelConfig(name="openai/mine", retries=0)
    with closing(ReplyStore(tmp_path / "replies")) as store:
        lm = connect(model, store=store, provider=provider)
        with dspy.context(lm=lm.copy(temperature=0.7)):
            made = build(config)
            labels = rejudge(config.out, config, sample=2).agreement
        keys = {one.key for one in store.replies()}
    replay = connect(model, store=tmp_path / "replies", mode="replay")
    with dspy.context(lm=replay.copy(temperature=0.7)):
        again = build(config, replace=True)

    settings: Any = made.manifest.config["model"]
    assert (made.manifest.model, settings["temperature"]) == ("openai/mine", 0.7)
    assert {one.call_id for one in made.nuggets} <= keys
    assert provider.calls["NuggetizeAnswer"] == 3
    assert again.manifest.content_hash == made.manifest.content_hash
    assert labels


def test_the_caps_of_a_connected_model_are_those_of_the_build(tmp_path: Path) -> None:
    account = Account(caps=BudgetConfig(calls=2))
    lm = connect("openai/mine", store=tmp_path, provider=ScriptedProvider(), account=account)
    with dspy.context(lm=lm), pytest.raises(BudgetError, match="calls = 2"):
        build(without_model(tmp_path / "domain"))


def test_what_a_configuration_says_of_its_model_is_kept(tmp_path: Path) -> None:
    base = "http://127.0.0.1:9/v1"
    lm = dspy.LM("openai/plain", api_base=base, api_key="planted", max_tokens=500, timeout=7)
    named = without_model(tmp_path, model=ModelConfig(name="extractive/baseline"))
    with dspy.context(lm=lm):
        planned = plan(without_model(tmp_path, model=ModelConfig(reasks=0)))
        assert plan(named).model == "extractive/baseline"

    assert (planned.model, planned.missing_key) == ("openai/plain", None)


class Heard(BaseCallback):
    """A callback of DSPy's, that of an LM."""

    def __init__(self) -> None:
        self.asked = 0

    def on_lm_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        self.asked += 1


class Own(dspy.BaseLM):
    """A model as DSPy before 3.4 took them: it has no engine."""


class Sentences(dspy.Module):
    """Nuggets by a prompt of one's own."""

    def __init__(self) -> None:
        super().__init__()
        self.list = dspy.ChainOfThought("answer -> nuggets: list[str]")

    def forward(self, query: Query) -> dspy.Prediction:
        return self.list(answer=query.answer)


def test_an_engine_of_ones_own_answers_a_build_and_is_recorded(tmp_path: Path) -> None:
    engine: Any = ScriptedProvider()
    config = without_model(tmp_path / "domain", cache={"path": tmp_path / "replies"})
    with dspy.context(lm=dspy.LM("openai/mine", engine=engine)):
        made = build(config)
        again = build(config, mode="replay", replace=True)

    assert engine.calls["NuggetizeAnswer"] == 3
    assert again.manifest.content_hash == made.manifest.content_hash


@pytest.mark.parametrize(
    ("lm", "said"),
    [
        (Own("mine"), r"Own mine cannot be recorded as it is; give one of connect\(…\), a dspy.LM"),
        (
            dspy.LM("openai/x", top_p=0.5, seed=1),
            r"with seed; .*ModelConfig\(name=.openai/x",
        ),
        (dspy.LM("openai/x", model_type="responses"), "LM openai/x cannot be recorded"),
        (dspy.LM("openai/x", temperature=7.0), "openai/x: temperature: .* 2"),
        (TypeSafe(), "TypeSafe is no language model that takes a prompt"),
    ],
    ids=["class", "settings", "type", "value", "decisions"],
)
def test_a_model_that_cannot_be_recorded_as_it_is_is_refused(
    tmp_path: Path, lm: Any, said: str
) -> None:
    with dspy.context(lm=lm), pytest.raises(ConfigError, match=said):
        build(without_model(tmp_path))


def test_a_file_names_its_model(tmp_path: Path) -> None:
    file = write_domain(tmp_path)
    file.write_text(file.read_text().replace('name = "openai/scripted"\n', ""))
    with (
        dspy.context(lm=dspy.LM("openai/x")),
        pytest.raises(ConfigError, match=r'names no model.*\[model\]: name = "openai/x"'),
    ):
        build(file)
