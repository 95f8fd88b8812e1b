"""Work on all cores, in processes that begin quickly and end with the one that began them.

A worker is this module run by itself: a fork is unsafe where threads run, and the other ways of
`multiprocessing` run a script again that has no `if __name__ == "__main__"`.
"""

import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import chain, islice
from queue import SimpleQueue
from typing import Any, TypeVar, cast

from freshstack_dspy.errors import FreshstackError

Item = TypeVar("Item")
Result = TypeVar("Result")
_FEW = 4
"""Fewer items are worked on in this process: another takes half a second to begin."""
_RENEWED = 100
"""Items, after which a process is replaced: parsers leak, and a long run must not grow."""


def map_in_processes(
    function: Callable[[Item], Result], items: Iterable[Item], *, few: int = _FEW
) -> Iterator[Result]:
    """Apply a function to all items, one on each core, and give the results in order.

    Items are taken as they are needed, a few in advance. Function, items and results are pickled,
    and an error that the function raises is raised here.
    """
    left = iter(items)
    first, cores = list(islice(left, few)), _cores()
    items = chain(first, left)
    if len(first) < few or not sys.executable:
        yield from map(function, items)
        return
    workers = [_Worker(function) for _ in range(cores)]
    idle: SimpleQueue[_Worker] = SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def ask(item: Item) -> Result:
        worker = idle.get()
        try:
            return cast("Result", worker.ask(item))
        finally:
            idle.put(worker)

    pool = ThreadPoolExecutor(cores)
    pending: deque[Future[Result]] = deque()
    try:
        for item in items:
            pending.append(pool.submit(ask, item))
            if len(pending) > 2 * cores:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for worker in workers:
            worker.process.kill()  # whoever waits for it then waits no longer
        pool.shutdown(cancel_futures=True)
        for worker in workers:
            worker.close()


def _cores() -> int:
    """The cores that this process may use."""
    allowed: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


class _Worker:
    """A process that applies a function to what it is sent."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._begin()

    def _begin(self) -> None:
        self._asked = 0
        path = [os.path.abspath(place) for place in sys.path]  # noqa: PTH100 - of names, "" too
        self.process = subprocess.Popen(  # noqa: S603 - this module
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path), "PYTHONSAFEPATH": "1"},
        )

    def ask(self, item: Any) -> Any:
        """Have the function applied to an item."""
        if self._asked == _RENEWED:
            self.close()
            self._begin()
        self._asked += 1
        requests, replies = self.process.stdin, self.process.stdout
        assert requests is not None
        assert replies is not None
        try:
            pickle.dump((self._function, item), requests)
            requests.flush()
            result, error = pickle.load(replies)  # noqa: S301 - of our own process
        except (BrokenPipeError, EOFError, pickle.UnpicklingError):
            code = self.process.wait()
            killed = (
                f"was killed by signal {-code}, perhaps since memory is short" if code < 0 else ""
            )
            raise FreshstackError(f"a process at work {killed or 'ended'}; run it again") from None
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """Ask no more, and wait until it has ended."""
        with suppress(BrokenPipeError), self.process:
            pass


def _work() -> None:
    """Do what is asked until nobody asks any more, as when the asker was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who is at the keyboard means the asker
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no reply
    with suppress(BrokenPipeError, EOFError):
        while True:
            function, item = pickle.load(sys.stdin.buffer)  # noqa: S301 - of our own process
            result = error = None
            try:
                result = function(item)
            except Exception as raised:  # noqa: BLE001 - it is raised again where it was asked
                error = raised
                if not isinstance(error, FreshstackError):
                    error.add_note(traceback.format_exc())
            pickle.dump((result, error), replies)
            replies.flush()


if __name__ == "__main__":
    _work()
