from pathlib import Path

import pytest

from .domain_runs import built, runs


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built collection with two runs, which nobody changes."""
    folder = tmp_path_factory.mktemp("domain")
    runs(built(folder), folder)
    return folder


@pytest.fixture
def collection(domain: Path) -> Path:
    return domain / "collection"


@pytest.fixture
def files(domain: Path) -> list[Path]:
    return [domain / "good.run", domain / "bad.run"]
