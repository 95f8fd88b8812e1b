import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.ranking import best_rows
from freshstack_dspy.index.vectors import nearest, unit_rows


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 60), st.integers(1, 9), st.integers(1, 70))
def test_rankings_are_those_of_all_scores_in_double_precision(
    seed: int, rows: int, width: int, depth: int
) -> None:
    """Coarse numbers, so that many rows tie or nearly do."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(-2, 3, (rows, width)) + rng.integers(-1, 2, (rows, 1)) * 1e-7
    vectors = unit_rows(coarse, "toy", rows).astype(np.float32)
    queries = unit_rows(rng.integers(-2, 3, (3, width)), "toy", 3)
    mask = rng.random(rows) < 0.7

    for allowed in (None, mask):
        scores = queries @ vectors.astype(np.float64).T
        if allowed is not None:
            scores[:, ~allowed] = 0
        expected = [best_rows(each, depth) for each in scores]

        assert nearest(queries, vectors, depth, allowed) == expected


def test_equal_vectors_tie_wherever_they_stand() -> None:
    rng = np.random.default_rng(0)
    vectors = unit_rows(rng.standard_normal((1000, 256)), "toy", 1000).astype(np.float32)
    vectors[[3, 500, 997]] = vectors[0]

    (found,) = nearest(vectors[:1].astype(np.float64), vectors, 4)

    assert [row for row, _ in found] == [0, 3, 500, 997]
    assert len({score for _, score in found}) == 1


def test_a_vector_of_no_length_finds_nothing_and_is_not_found() -> None:
    vectors = unit_rows(np.array([[0.0, 0.0], [3.0, 4.0]]), "toy", 2).astype(np.float32)

    assert nearest(np.array([[0.0, 0.0], [1.0, 0.0]]), vectors, 5) == [[], [(1, 0.6)]]


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(number: float) -> None:
    vectors = np.array([[1.0, 0.0], [number, 1.0]])

    with pytest.raises(IndexingError, match=r"'toy' gave text 2 of 2 .*not finite"):
        unit_rows(vectors, "toy", 2)


@pytest.mark.parametrize("shape", [(2,), (3, 2), (2, 5), (2, 2, 2), (2, 0)])
def test_another_shape_than_one_vector_for_each_text_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(IndexingError, match="'toy' gave"):
        unit_rows(np.ones(shape), "toy", 2, 2 if shape != (2, 0) else None)


def test_huge_numbers_keep_their_direction() -> None:
    found = unit_rows(np.array([[3e300, 4e300]]), "toy", 1)

    np.testing.assert_allclose(found, [[0.6, 0.8]])
