"""A bounded pool of threads that keeps context and order, and work cut into packs."""

import contextvars
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, CancelledError, ThreadPoolExecutor, wait
from math import inf
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_order(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    workers: int,
    done: Callable[[], None] = lambda: None,
) -> list[Result]:
    """Apply a function to all items, several at a time, and return the results in order.

    `dspy.Parallel` is not used: it re-submits stragglers, which are paid for twice, and turns
    failures into None. Threads see the caller's context variables; `done` is called after each
    item. The first error is raised, and what has not begun by then is not begun.
    """
    stopped = threading.Event()

    def run(item: Item) -> Result:
        if stopped.is_set():
            raise CancelledError
        try:
            result = function(item)
            done()
        except BaseException:
            stopped.set()  # before this thread takes up the next item, as it would at once
            raise
        return result

    pool = ThreadPoolExecutor(max_workers=workers)
    try:
        futures = [pool.submit(contextvars.copy_context().run, run, item) for item in items]
        wait(futures, return_when=FIRST_EXCEPTION)
    except BaseException:
        # Whoever interrupts does not want to wait for servers: what is in flight is let go.
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown(cancel_futures=True)
    errors = [None if future.cancelled() else future.exception() for future in futures]
    if failed := [error for error in errors if error is not None]:
        # A worker that was late finds an item before the one that failed cancelled.
        raise next((error for error in failed if not isinstance(error, CancelledError)), failed[0])
    return [future.result() for future in futures]


def packed(
    items: Iterable[Item], size_of: Callable[[Item], int], *, most_size: float, most: float = inf
) -> Iterator[list[Item]]:
    """Cut items, in order, into packs of bounded number and size.

    An item that is too large is a pack of its own.
    """
    pack: list[Item] = []
    total = 0
    for item in items:
        size = size_of(item)
        if pack and (len(pack) >= most or total + size > most_size):
            yield pack
            pack, total = [], 0
        pack.append(item)
        total += size
    if pack:
        yield pack
