"""The pool of threads."""

import threading
from collections.abc import Iterator
from contextvars import ContextVar
from types import FrameType

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.lm import workers as module
from freshstack_dspy.lm.workers import map_in_order, packed

place: ContextVar[str] = ContextVar("place", default="nowhere")


@given(st.lists(st.integers(), max_size=20), st.integers(1, 8))
def test_results_come_in_the_order_of_the_items(items: list[int], workers: int) -> None:
    assert map_in_order(lambda item: item * 2, items, workers=workers) == [2 * n for n in items]


@given(st.lists(st.integers(0, 20), max_size=12), st.integers(1, 5))
def test_packs_hold_every_item_once_in_order_within_bounds(sizes: list[int], most: int) -> None:
    packs = list(packed(sizes, lambda size: size, most_size=10, most=most))

    assert [size for pack in packs for size in pack] == sizes
    for pack in packs:
        assert 1 <= len(pack) <= most
        assert len(pack) == 1 or sum(pack) <= 10


def test_threads_see_the_callers_context_and_keep_their_own() -> None:
    place.set("here")
    lm = object()

    def work(number: int) -> tuple[str, object]:
        seen = place.get()
        place.set(str(number))
        return seen, dspy.settings.lm

    with dspy.context(lm=lm):
        assert map_in_order(work, range(4), workers=2) == [("here", lm)] * 4
    assert place.get() == "here"


def test_the_first_error_ends_it_and_what_has_not_begun_does_not_begin() -> None:
    """Not even what its own thread could take up before the caller hears of the error."""
    begun = []

    def work(number: int) -> None:
        begun.append(number)
        threading.Event().wait(0.05)  # until the caller waits too
        raise ValueError(str(number))

    with pytest.raises(ValueError, match="0"):
        map_in_order(work, range(100), workers=1)
    assert begun == [0]


def test_an_interruption_while_waiting_cancels_what_has_not_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Control-C reaches the waiting thread; work in hand is finished, the rest is left."""
    begun: list[int] = []

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    def work(number: int) -> None:
        begun.append(number)
        threading.Event().wait(0.05)

    monkeypatch.setattr("freshstack_dspy.lm.workers.wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        map_in_order(work, range(100), workers=1)
    assert len(begun) < 100


@pytest.fixture
def _late_first_item() -> Iterator[None]:
    """The worker of item 0 begins only when that of item 1 has ended."""
    ended = threading.Event()

    def hold(frame: FrameType, event: str, arg: object) -> None:
        if frame.f_code.co_filename == module.__file__ and frame.f_code.co_name == "run":
            item = frame.f_locals["item"]
            if (item, event) == (1, "return"):
                ended.set()
            elif (item, event) == (0, "call"):
                assert ended.wait(30)

    threading.setprofile(hold)
    yield
    threading.setprofile(None)


@pytest.mark.usefixtures("_late_first_item")
def test_the_error_is_raised_and_not_what_it_cancelled() -> None:
    """In a run of all tests a cap on calls once ended in a CancelledError."""

    def function(item: int) -> int:
        if item:
            raise ValueError("the cap is reached")
        return item

    with pytest.raises(ValueError, match="the cap is reached"):
        map_in_order(function, range(2), workers=2)
