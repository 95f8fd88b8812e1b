"""A Ray cluster of two nodes, on this machine."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.config import EngineConfig
from tests.index.object_store import server, store  # noqa: F401 - fixtures

MODELS = Path(__file__).with_name("models")
NODE = {
    "num_cpus": 2,
    "object_store_memory": 150_000_000,
    "include_dashboard": False,
}


@pytest.fixture(autouse=True)
def _network_is_off() -> None:
    """Nodes talk to each other by this machine's own address, which is not that of the loopback."""


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """A cluster with one node more than its head."""
    ray = pytest.importorskip("ray")
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["PYTHONPATH"] = f"{MODELS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    made = cluster_utils.Cluster()
    with_node(made)  # its head
    with_node(made)
    yield made
    ray.shutdown()
    made.shutdown()


def with_node(cluster: Any) -> Any:
    """Start a node of a cluster; Ray gives it half a minute, which a busy machine may exceed."""
    left = 2
    while True:
        try:
            return cluster.add_node(**NODE)
        except Exception as error:
            if not left or "timed out during startup" not in str(error):
                raise
            left -= 1


@pytest.fixture
def engine(cluster: Any) -> EngineConfig:
    """That of the cluster."""
    return EngineConfig(name="ray", address=cluster.address)
