import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.ranking import best_rows, nearest, unit_rows
from freshstack_dspy.records import ranked


@given(st.lists(st.integers(-3, 6), min_size=1, max_size=40), st.integers(1, 50))
def test_rows_come_in_the_order_of_all_rankings(scores: list[int], depth: int) -> None:
    """The oracle is `records.ranked` over ids whose order is that of the rows."""
    by_id = {f"{row:03}": score / 4 for row, score in enumerate(scores) if score > 0}

    found = best_rows(np.array(scores) / 4, depth)

    assert [(f"{row:03}", score) for row, score in found] == ranked(by_id, depth)


def test_noise_below_the_sixth_decimal_does_not_order_rows() -> None:
    found = best_rows(np.array([0.5, 0.5 + 3e-8, 0.5 - 3e-8]), 2)

    assert [row for row, _ in found] == [0, 1]


@given(
    st.integers(0, 2**32),
    st.integers(1, 30),
    st.integers(1, 8),
    st.integers(1, 40),
    st.integers(1, 5),
)
def test_nearest_rows_are_those_of_all_scores_in_double_precision(
    seed: int, rows: int, dimensions: int, depth: int, blocks: int
) -> None:
    rng = np.random.default_rng(seed)
    vectors = unit_rows(rng.integers(-2, 3, (rows, dimensions)), "e", rows).astype(np.float32)
    queries = unit_rows(rng.integers(-2, 3, (3, dimensions)), "e", 3)

    found = nearest(queries, filter(len, np.array_split(vectors, blocks)), depth)

    for query, ranking in zip(queries, found, strict=True):
        assert ranking == best_rows(vectors.astype(float) @ query, depth)


def test_a_vector_of_no_length_finds_nothing_and_is_not_found() -> None:
    vectors = unit_rows(np.array([[0, 0], [3, 4]]), "e", 2)

    assert vectors.tolist() == [[0, 0], [0.6, 0.8]]
    assert nearest(vectors, [vectors.astype(np.float32)], 5) == [[], [(1, 1.0)]]


@pytest.mark.parametrize("vectors", [np.ones((3, 2)), np.ones(2), np.array([[1, np.nan], [1, 1]])])
def test_vectors_that_are_none_are_an_error(vectors: np.ndarray) -> None:
    with pytest.raises(IndexingError, match="embedder 'e'"):
        unit_rows(vectors, "e", 2)
