import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from freshstack_dspy.index.svd import principal_directions


def projector(directions: NDArray[np.float64]) -> NDArray[np.float64]:
    """What two bases of one space have in common, whatever their signs and rotation."""
    return directions @ directions.T


def leading(matrix: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """The oracle: NumPy's own dense decomposition."""
    return np.linalg.svd(matrix, full_matrices=False)[2][:count].T


@pytest.mark.parametrize("shape", [(30, 80), (80, 30), (40, 40)])
def test_directions_are_those_of_a_dense_decomposition(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    matrix = rng.random(shape) * (rng.random(shape) < 0.2)

    found = principal_directions(csr_matrix(matrix), 7)

    assert found.shape == (shape[1], 7)
    np.testing.assert_allclose(projector(found), projector(leading(matrix, 7)), atol=1e-10)


def test_directions_of_a_large_matrix_are_as_exact() -> None:
    """Blocks of one value on the diagonal have a decomposition that is known by hand."""
    rows, columns = 1100, 1200
    matrix, expected = np.zeros((rows, columns)), np.zeros((columns, 4))
    for place, value in enumerate((9.0, 7.0, 5.0, 3.0, 2.0)):
        block = slice(place * 240, (place + 1) * 240)
        matrix[place * 220 : (place + 1) * 220, block] = value
        if place < 4:
            expected[block, place] = 1 / np.sqrt(240)

    found = principal_directions(csr_matrix(matrix), 4)

    np.testing.assert_allclose(np.abs(found), expected, atol=1e-10)


def test_directions_tied_with_the_first_one_cut_off_are_left_out() -> None:
    """Which of the two vectors of value 2 comes second is chance, so neither does."""
    matrix = csr_matrix(np.diag([3.0, 2.0, 2.0, 1.0]))

    assert principal_directions(matrix, 1).shape == (4, 1)
    assert principal_directions(matrix, 2).shape == (4, 1)
    assert principal_directions(matrix, 3).shape == (4, 3)


def test_directions_that_carry_nothing_are_left_out() -> None:
    twins = csr_matrix(np.array([[3.0, 4.0], [3.0, 4.0]]))

    found = principal_directions(twins, 2)

    np.testing.assert_allclose(np.abs(found), [[0.6], [0.8]])


def test_an_empty_matrix_has_no_direction() -> None:
    assert principal_directions(csr_matrix((3, 4)), 2).shape == (4, 0)
