"""Which model a command opens, and what it is told."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from freshstack_dspy.cli.models import opened_model
from freshstack_dspy.config import load_config
from freshstack_dspy.errors import BudgetError
from freshstack_dspy.lm.batch.jobs import Job, JobFolder
from freshstack_dspy.lm.budget import Spent
from tests.lm.asking import request
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


def test_what_batches_have_reserved_counts_towards_a_cap(tmp_path: Path) -> None:
    """Without it a command could go over the cap while a batch of the same collection is underway."""
    model = {"name": "openai/scripted", "retries": 0, **PRIVATE}
    config = write_domain(tmp_path, model=model, budget={"tokens": 200_000})
    JobFolder.of(load_config(config)).save(
        Job(
            submission="0" * 16,
            model="openai/scripted",
            endpoint="openai:default",
            keys=("k",),
            upper_bound=Spent(calls=1, tokens=199_999),
            begun_at=datetime.now(UTC),
        )
    )

    with opened_model(config, None) as lm, pytest.raises(BudgetError, match="199,999 spent"):
        lm(request())
