"""Batches of chunks: every chunk once, in the order of ids, as even as can be."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshstack_dspy.recipes.freshstack import batches
from freshstack_dspy.records import Chunk


def chunk(chunk_id: str) -> Chunk:
    return Chunk(
        chunk_id=chunk_id, source="s", path="p", start_byte=0, end_byte=1, text="t", tokens=1
    )


@settings(deadline=None)
@given(st.sets(st.text(max_size=4), max_size=60), st.integers(1, 25), st.randoms())
def test_batches_partition_the_chunks_evenly_in_the_order_of_their_ids(
    ids: set[str], size: int, chance: Random
) -> None:
    shuffled = list(ids)
    chance.shuffle(shuffled)

    found = batches([chunk(chunk_id) for chunk_id in shuffled], size)
    sizes = [len(batch) for batch in found]

    assert [one.chunk_id for batch in found for one in batch] == sorted(ids)
    assert len(found) == (len(ids) + size - 1) // size, "the fewest that hold them"
    assert all(0 < each <= size for each in sizes)
    assert not sizes or max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("count", "size", "sizes"),
    [
        (0, 20, []),
        (1, 20, [1]),
        (20, 20, [20]),
        (21, 20, [10, 11]),
        (7, 3, [2, 2, 3]),
        (3, 1, [1, 1, 1]),
    ],
)
def test_batches_by_hand(count: int, size: int, sizes: list[int]) -> None:
    chunks = [chunk(f"{number:02}") for number in range(count)]

    assert [len(batch) for batch in batches(chunks, size)] == sizes
