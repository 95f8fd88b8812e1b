"""Where batches of work are done: processes of this machine, or tasks of a Ray cluster.

Pure functions over Arrow batches (`arrow_batches.py`) go to either, and give the same rows there.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

from freshstack_dspy.config import EngineConfig
from freshstack_dspy.processes import map_in_processes


def mapper(engine: EngineConfig) -> Callable[..., Iterator[Any]]:
    """What applies a function to batches, and gives the results in their order.

    Raises:
        EngineError: The cluster cannot be reached or used.
    """
    if engine.name == "local":
        return map_in_processes
    from freshstack_dspy.engines.ray import check, map_batches

    check(engine)
    return functools.partial(map_batches, engine)
