"""What is wrong with a model, a place or a collection is found before anything is cut or paid for."""

from pathlib import Path

import pytest

from freshstack_dspy.errors import ConfigError, FatalModelError
from freshstack_dspy.recipes.build import build
from freshstack_dspy.recipes.plan import plan
from tests.recipes.domain import domain, write_domain
from tests.recipes.scripted import ScriptedProvider


class NoStep:
    """Progress that must not begin a step of the corpus."""

    def start(self, step: str, total: int) -> None:
        raise AssertionError(f"{step} began")

    def advance(self, step: str) -> None: ...

    def finish(self, step: str, note: str = "") -> None: ...


@pytest.mark.parametrize("name", ["opnai/gpt-4o", "gpt-4o", "openai/gpt-4o"])
def test_a_model_without_provider_or_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    with pytest.raises(FatalModelError):
        build(write_domain(tmp_path, model={"name": name}), progress=NoStep())


def test_a_plan_finds_a_misspelt_model_first_and_says_that_a_key_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    with pytest.raises(FatalModelError, match="opnai/gpt-4o"):
        plan(write_domain(tmp_path, model={"name": "opnai/gpt-4o"}), progress=NoStep())
    found = plan(write_domain(tmp_path, model={"name": "openai/gpt-4o"}))

    assert "OPENAI_API_KEY" in (found.missing_key or "")


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    config = domain(tmp_path).model_copy(update={"out": tmp_path / "file" / "collection"})

    with pytest.raises(ConfigError, match="no folder that can be written"):
        build(config, provider=ScriptedProvider(), progress=NoStep())


def test_another_collection_is_replaced_only_if_that_is_said(tmp_path: Path) -> None:
    first = build(domain(tmp_path), provider=ScriptedProvider())
    other = domain(tmp_path, nuggets={"limit": 1})

    with pytest.raises(ConfigError, match=r"'small', built with other settings: nuggets.limit"):
        build(other, provider=ScriptedProvider(), progress=NoStep())
    replaced = build(other, provider=ScriptedProvider(), replace=True)

    assert replaced.manifest.content_hash != first.manifest.content_hash
