"""Which engine does the work, and what is said where it cannot."""

import importlib.util
import shutil
from pathlib import Path

import pytest

from freshstack_dspy import build
from freshstack_dspy.config import EngineConfig
from freshstack_dspy.engines import mapper
from freshstack_dspy.errors import EngineError
from tests.recipes.domain import domain
from tests.recipes.scripted import ScriptedProvider


def doubled(number: int) -> int:
    return 2 * number


def test_the_local_engine_is_this_machine() -> None:
    assert list(mapper(EngineConfig())(doubled, range(3))) == [0, 2, 4]


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
def test_an_engine_that_is_not_installed_is_named_with_its_extra() -> None:
    with pytest.raises(
        EngineError, match=r"install it with: pip install 'freshstack_dspy\[ray\]'$"
    ):
        mapper(EngineConfig(name="ray"))


def test_a_replay_needs_no_cluster_and_is_the_collection_of_one_process(tmp_path: Path) -> None:
    live = build(domain(tmp_path), provider=ScriptedProvider())
    shutil.rmtree(tmp_path / "collection")
    shutil.rmtree(tmp_path / "index")
    engine = {"name": "ray", "address": "127.0.0.1:1"}
    away = domain(tmp_path, engine=engine, model={"api_key": "planted-51"})

    with pytest.raises(EngineError, match="Ray"):
        build(away)
    replayed = build(away, mode="replay")

    assert replayed.manifest.content_hash == live.manifest.content_hash
    assert "engine" not in replayed.manifest.config
