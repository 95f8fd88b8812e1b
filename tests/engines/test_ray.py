"""Batches over a cluster: order, lost nodes, what is wrong with a cluster in one line."""

import os
import threading
import time
from collections.abc import Iterator
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from freshstack_dspy.config import EngineConfig
from freshstack_dspy.engines.ray import map_batches
from freshstack_dspy.errors import EngineError, SourceError
from tests.engines.conftest import NODE, with_node

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("default")]


def numbered(count: int, taken: list[int] | None = None) -> Iterator[pa.RecordBatch]:
    for number in range(count):
        if taken is not None:
            taken.append(number)
        yield pa.record_batch({"number": [number]})


def noted(log: Path, seconds: float, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, of which a line is written down: its number, and the node where it begins."""
    import ray

    with log.open("a") as file:
        file.write(f"{batch['number'][0]} {ray.get_runtime_context().get_node_id()}\n")
    time.sleep(seconds / (1 + batch["number"][0].as_py() % 3))
    return batch


def held(log: Path, node: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, which comes to no end on one node."""
    import ray

    noted(log, 0.3, batch)
    if ray.get_runtime_context().get_node_id() == node:
        time.sleep(600)
    return batch


def numbers(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [batch["number"][0].as_py() for batch in batches]


def test_results_come_in_the_order_of_the_batches(engine: EngineConfig, tmp_path: Path) -> None:
    taken: list[int] = []
    found = map_batches(engine, partial(noted, tmp_path / "log", 0.2), numbered(40, taken))
    assert next(found)["number"].to_pylist() == [0]
    assert len(taken) <= 10  # the others have not been made
    assert numbers(found) == list(range(1, 40))


def test_a_lost_node_repeats_what_it_was_at(
    engine: EngineConfig, cluster: Any, tmp_path: Path
) -> None:
    lost, log = with_node(cluster), tmp_path / "log"
    log.touch()
    taken: list[int] = []
    gone = threading.Event()

    def lose_it_at_work() -> None:
        while lost.node_id not in log.read_text():
            time.sleep(0.05)
        cluster.remove_node(lost, allow_graceful=False)
        gone.set()

    threading.Thread(target=lose_it_at_work).start()
    batches = takewhile(lambda _: not gone.is_set(), numbered(10_000, taken))
    came = numbers(map_batches(engine, partial(held, log, lost.node_id), batches))

    assert came == list(range(len(came))) == taken[:-1]
    assert 1 <= len(log.read_text().splitlines()) - len(came) <= NODE["num_cpus"]


def refused(batch: pa.RecordBatch) -> pa.RecordBatch:
    raise SourceError("no such corpus")


def test_what_a_worker_raises_is_raised_here(engine: EngineConfig) -> None:
    with pytest.raises(SourceError, match=r"^no such corpus$"):
        numbers(map_batches(engine, refused, numbered(3)))


def ended(batch: pa.RecordBatch) -> pa.RecordBatch:
    os._exit(1)


def test_a_batch_that_ends_its_worker_each_time_stops_the_work(engine: EngineConfig) -> None:
    with pytest.raises(EngineError, match=r"a batch was lost 4 times"):
        numbers(map_batches(engine, ended, numbered(1)))


def test_a_stall_is_named(engine: EngineConfig, tmp_path: Path) -> None:
    slow = partial(noted, tmp_path / "log", 30.0)
    with pytest.raises(EngineError, match=r"no batch came back .* 2 are under way; .* are free"):
        numbers(map_batches(engine, slow, numbered(2), stalled=3.0))


def test_a_cluster_without_gpus_is_refused_where_they_are_asked_for(engine: EngineConfig) -> None:
    wanted = engine.model_copy(update={"gpus": 1.0})
    with pytest.raises(EngineError, match=r"has \d CPUs and 0 GPUs on \d nodes, and a batch needs"):
        numbers(map_batches(wanted, refused, numbered(1)))


def test_a_cluster_that_is_not_there_is_named_at_once(cluster: Any) -> None:
    import ray

    ray.shutdown()
    with pytest.raises(EngineError, match=r"^engine.address is 127.0.0.1:1: no Ray cluster \("):
        numbers(map_batches(EngineConfig(name="ray", address="127.0.0.1:1"), refused, numbered(1)))
