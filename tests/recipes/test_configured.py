"""The model that DSPy is configured with, where a configuration names none."""

from contextlib import closing
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.experimental import TypeSafe

from freshstack_dspy import (
    BuildConfig,
    ModelConfig,
    ReplyStore,
    build,
    connect,
    rejudge,
)
from freshstack_dspy.errors import ConfigError

from .domain import domain
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


class Own(dspy.BaseLM):
    """A model as DSPy before 3.4 took them: it has no engine."""


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
