"""A bounded pool of threads that keeps context and order, and work cut into packs."""

import contextvars
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, CancelledError, Future, ThreadPoolExecutor, wait
from itertools import islice
from math import inf
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from pyarrow import RecordBatch

Item = TypeVar("Item")
Result = TypeVar("Result")


class Engine(Protocol):
    """Applies a function to batches on other machines, and gives each result as soon as it is there."""

    def __call__(
        self,
        function: "Callable[[RecordBatch], RecordBatch]",
        batches: "Iterable[RecordBatch]",
        *,
        at_once: int,
    ) -> "Iterator[RecordBatch]":
        """Have at most so many batches under way; the function can be pickled."""
        ...


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
        raise next((one for one in failed if not isinstance(one, CancelledError)), failed[0])
    return [future.result() for future in futures]


def map_as_done(
    function: Callable[[Item], Result], items: Iterable[Item], *, workers: int
) -> Iterator[list[Result]]:
    """Apply a function to items, several at a time, and give the results as soon as some are there.

    Items are taken by the thread that iterates: twice as many as there are workers, so that none
    of these waits while results are taken in.
    """
    done: SimpleQueue[Future[Result]] = SimpleQueue()
    pool = ThreadPoolExecutor(max_workers=workers)
    items, running = iter(items), 0
    try:
        while True:
            for item in islice(items, 2 * workers - running):
                pool.submit(function, item).add_done_callback(done.put)
                running += 1
            if not running:
                return
            came = [done.get(), *(done.get() for _ in range(done.qsize()))]
            yield [each.result() for each in came]
            running -= len(came)
    finally:
        # Where it is interrupted, nobody waits for servers: what is in flight is let go.
        pool.shutdown(wait=False, cancel_futures=True)


def packed(
    items: Iterable[Item], size_of: Callable[[Item], int], *, most_size: float, most: float = inf
) -> Iterator[list[Item]]:
    """Cut items into packs of at most so many and of such a size, in their order.

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
