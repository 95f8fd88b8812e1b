"""A Ray cluster of two nodes, on this machine."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from freshstack_dspy.config import EngineConfig
from tests.index.object_store import environment_of, server, store  # noqa: F401 - fixtures

KEY = "OPENAI_API_KEY"
NODE = {
    "num_cpus": 2,
    "object_store_memory": 150_000_000,
    "include_dashboard": False,
}


@pytest.fixture(autouse=True)
def _network_is_off() -> None:
    """Nodes talk to each other by this machine's own address, which is not that of the loopback."""


@pytest.fixture(scope="session")
def cluster(server: str) -> Iterator[Any]:  # noqa: F811
    """A cluster with one node more than its head, whose nodes reach the object store."""
    ray = pytest.importorskip("ray")
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    made = cluster_utils.Cluster()
    environment = {**environment_of(server), KEY: "planted-77"}
    with_node(made, **environment)  # its head
    with_node(made, **environment)
    yield made
    ray.shutdown()
    made.shutdown()


def with_node(cluster: Any, **environment: str) -> Any:
    """Start a node with these variables; Ray gives it half a minute, which a busy machine exceeds."""
    left = 2
    while True:
        try:
            return cluster.add_node(**NODE, env_vars=environment)
        except Exception as error:
            if not left or "timed out during startup" not in str(error):
                raise
            left -= 1


@pytest.fixture
def engine(cluster: Any) -> EngineConfig:
    """That of the cluster."""
    return EngineConfig(name="ray", address=cluster.address)
