"""Which model a command opens, and what it is told."""

from pathlib import Path

import pytest

from freshstack_dspy.cli.models import opened_model
from tests.recipes.domain import write_domain

PRIVATE = {"api_base": "http://127.0.0.1:9/v1", "api_key": "sk-very-secret"}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_domain(tmp_path, model={"name": "openai/one", "temperature": 0.5, **PRIVATE})


def test_without_anything_it_is_the_baseline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with opened_model(None, None) as lm:
        assert lm.model == "extractive/baseline"


def test_another_model_of_the_provider_keeps_its_address_and_key(config: Path) -> None:
    with opened_model(config, "openai/other") as lm:
        model = lm.client.model

    assert (model.name, model.temperature) == ("openai/other", 0.5)
    assert model.api_base == PRIVATE["api_base"]
    assert model.api_key is not None


def test_a_model_of_another_provider_gets_neither(config: Path) -> None:
    """A key goes to nobody but whom it is for."""
    with opened_model(config, "anthropic/other") as lm:
        model = lm.client.model

    assert (model.name, model.temperature) == ("anthropic/other", 0.5)
    assert (model.api_base, model.api_key) == (None, None)
