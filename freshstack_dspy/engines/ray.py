"""Batches over a Ray cluster: a task for each, which runs again where its node was lost.

Tasks, and no pool of actors: a batch is placed wherever a CPU is free, so that nothing waits for a
place that never comes, and a lost node repeats what it was at.
"""

import functools
import importlib
import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import requires
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from freshstack_dspy.config import EngineConfig
from freshstack_dspy.errors import EngineError, FreshstackError
from freshstack_dspy.registry import installed

STALLED = 900.0
"""Seconds without a result, after which the work stops."""
_RETRIES = 3
"""How often a batch runs again whose node or process was lost."""
_CONNECTING = 5.0
_ANSWERING = 120.0
"""Seconds in which every node has to say what is installed there; the first of its work."""


def check(engine: EngineConfig) -> None:
    """Connect to the cluster, once in a process, and check that its nodes can do the work.

    Raises:
        EngineError: In one line, what is wrong.
    """
    ray = _imported()
    if not ray.is_initialized():
        _connect(ray, engine)
    _check_nodes(engine.gpus, ray.get_runtime_context().get_job_id())


def map_batches(
    engine: EngineConfig,
    function: Callable[[pa.RecordBatch], pa.RecordBatch],
    batches: Iterable[pa.RecordBatch],
    *,
    gpus: float = 0.0,
    stalled: float = STALLED,
) -> Iterator[pa.RecordBatch]:
    """Apply a function to batches on the nodes of a cluster; results come in their order.

    Args:
        engine: Which cluster.
        function: What can be pickled; the errors that it raises are raised here.
        batches: Taken one by one, as there is room for them.
        gpus: Of each batch.
        stalled: Seconds without a result, after which this stops.

    Raises:
        EngineError: The cluster cannot be reached or used, stalls, or loses a batch each time.
    """
    check(engine)
    ray = _imported()
    task = ray.remote(num_cpus=1.0, num_gpus=gpus, max_retries=_RETRIES)(_apply)
    task = task.options(scheduling_strategy="SPREAD")
    shared = ray.put(function)
    started = (task.remote(shared, batch) for batch in batches)
    underway: list[Any] = []
    try:
        while True:
            most = 2 * max(1, int(_slots(ray.cluster_resources(), gpus)))
            underway += islice(started, max(0, most - len(underway)))  # fewer where a node was lost
            if not underway:
                return
            done, _ = ray.wait(underway[:1], timeout=stalled)
            if not done:
                raise EngineError(_stall(ray, len(underway), stalled))
            underway.remove(done[0])
            yield _result(ray, done[0])
    finally:
        for each in underway:
            ray.cancel(each)


def _apply(
    function: Callable[[pa.RecordBatch], pa.RecordBatch], batch: pa.RecordBatch
) -> pa.RecordBatch:
    return function(batch)


def _imported() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise EngineError(
            "engine.name is ray, and Ray is not installed; install it with: "
            "pip install 'freshstack_dspy[ray]'"
        ) from None


def _connect(ray: Any, engine: EngineConfig) -> None:
    """Connect; the package goes along, so that every node cuts and asks as this machine does."""
    address = engine.address
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS", address)
    _, _, port = address.rpartition(":")
    start = "start one with: ray start --head, or name the address of one, such as 10.0.0.1:6379"
    try:
        if address != "auto":  # Ray itself waits for minutes, and then ends the process
            host = address.removesuffix(f":{port}")
            socket.create_connection((host, int(port)), _CONNECTING).close()
        ray.init(
            address=address,
            logging_level="error",
            log_to_driver=False,
            runtime_env={
                "py_modules": [str(Path(__file__).parents[1])],
                "excludes": ["__pycache__"],
            },
        )
    except (OSError, ValueError) as error:
        why = " ".join(str(error).split())
        raise EngineError(
            f"engine.address is {engine.address}: no Ray cluster ({why}); {start}"
        ) from None
    except RuntimeError as error:  # of another version
        raise EngineError(f"the Ray cluster at {address}: {' '.join(str(error).split())}") from None
    # What Ray says of lost nodes goes to stdout, where results are, and no setting changes it.
    worker = ray._private.worker  # noqa: SLF001
    said = worker.print_to_stdstream
    worker.print_to_stdstream = lambda data, **how: said({**data, "is_err": True}, **how)


@functools.cache
def _check_nodes(gpus: float, _job: str) -> None:
    """Check the CPUs and GPUs of the cluster, and what is installed on each of its nodes."""
    ray = _imported()
    nodes = [node for node in ray.nodes() if node["Alive"]]
    if _slots(ray.cluster_resources(), gpus) < 1:
        raise EngineError(
            f"the Ray cluster has {_free(ray.cluster_resources())} on {len(nodes)} nodes, and a "
            f"batch needs 1 CPU{f' and {gpus:g} GPU (engine.gpus)' * bool(gpus)}"
        )
    here = installed(_packages())
    probe, faults = ray.remote(num_cpus=0, max_retries=0)(installed), ray.exceptions
    for node in nodes:
        where = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            node["NodeID"], soft=False
        )
        name = f"the Ray node {node['NodeManagerAddress']}"
        try:
            there = ray.get(
                probe.options(scheduling_strategy=where).remote(list(here)), timeout=_ANSWERING
            )
        except (faults.RayTaskError, faults.RuntimeEnvSetupError, faults.GetTimeoutError) as error:
            why = " ".join(str(getattr(error, "cause", error)).split())
            raise EngineError(f"{name} cannot do the work: {why}") from None
        except faults.RayError:  # lost, and not yet known to be
            continue
        for package, found in there.items():
            if found != here[package]:
                raise EngineError(
                    f"{name} has {package} {found or 'not installed'}, and this machine has "
                    f"{here[package]}; install the same on all"
                )


def _packages() -> list[str]:
    needed = [each for each in requires("freshstack_dspy") or () if "extra ==" not in each]
    return ["python", *(re.split(r"[^\w.-]", each)[0] for each in needed)]


def _slots(resources: dict[str, float], gpus: float) -> float:
    """How many batches can run at the same time."""
    cpus = resources.get("CPU", 0.0)
    return min(cpus, resources.get("GPU", 0.0) / gpus) if gpus else cpus


def _free(resources: dict[str, float]) -> str:
    return f"{resources.get('CPU', 0):g} CPUs and {resources.get('GPU', 0):g} GPUs"


def _stall(ray: Any, underway: int, seconds: float) -> str:
    return (
        f"no batch came back for {seconds / 60:g} minutes, and {underway} are under way; the Ray "
        f"cluster has {_free(ray.cluster_resources())}, of which "
        f"{_free(ray.available_resources())} are free; look at ray status, "
        "and at what the batches wait for"
    )


def _result(ray: Any, done: Any) -> pa.RecordBatch:
    try:
        return ray.get(done)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, FreshstackError):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        why = " ".join(str(error).split())
        raise EngineError(
            f"a batch was lost {_RETRIES + 1} times; did a node run out of memory? Ray: {why[:300]}"
        ) from None
