"""Builds of the domain, made once: tests read them, or change a copy."""

import functools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from freshstack_dspy import BuildConfig, Collection, build
from freshstack_dspy.recipes.provenance import export_replies
from tests.heard import Heard

from .domain import domain
from .scripted import ScriptedProvider

POOLS: dict[str, dict[str, Any]] = {
    "usual": {},
    "narrow": {"techniques": ["question"], "retrievers": ["bm25"], "depth": 1, "top_k": 1},
    "whole": {"depth": 20, "top_k": 20},
}
"""Of the narrow pool runs have unjudged chunks; the whole one has every chunk that is found."""


class Built(NamedTuple):
    folder: Path
    collection: Collection
    provider: ScriptedProvider
    heard: Heard
    bundle: Path
    """The replies that were used."""


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Built]:
    """The domain with one of the `POOLS`, built by the script; not to be changed."""

    @functools.cache
    def made(pool: str) -> Built:
        folder, bundle = tmp_path_factory.mktemp(pool), tmp_path_factory.mktemp("b") / "used.jsonl"
        provider, heard = ScriptedProvider(), Heard()
        config = domain(folder, pool=POOLS[pool])
        collection = build(config, provider=provider, progress=heard)
        export_replies(config, bundle)
        return Built(folder, collection, provider, heard, bundle)

    return made


@pytest.fixture(scope="session")
def usual(built: Callable[[str], Built]) -> Built:
    return built("usual")


@pytest.fixture
def copied(built: Callable[[str], Built], tmp_path: Path) -> Callable[[str], BuildConfig]:
    """Copies such a build into the test's folder: nothing in it depends on where it is."""

    def copy(pool: str) -> BuildConfig:
        shutil.copytree(built(pool).folder, tmp_path, dirs_exist_ok=True)
        return domain(tmp_path, pool=POOLS[pool])

    return copy
