import shutil
from pathlib import Path

import pytest

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.recipes.build import build
from tests.recipes.domain import domain
from tests.recipes.scripted import ScriptedProvider

from .refreshing import WHOLE


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    build(domain(folder, pool=WHOLE), provider=ScriptedProvider())
    return folder


@pytest.fixture
def config(built: Path, tmp_path: Path) -> BuildConfig:
    """A collection whose replies are lost: only it knows what was said."""
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "cache")
    return domain(tmp_path, pool=WHOLE)
