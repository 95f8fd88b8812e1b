"""Arrays on disk: what a file says of its size is not believed."""

from pathlib import Path

import numpy as np
import pytest

from freshstack_dspy.index.arrays import load_array, save_array


@pytest.mark.parametrize("shape", [(0,), (3,), (2, 3), (100, 10)])
def test_an_array_comes_back(tmp_path: Path, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    save_array(tmp_path / "a.npy", array)

    np.testing.assert_array_equal(load_array(tmp_path / "a.npy", np.float64, shape), array)


@pytest.mark.parametrize("shape", [(10**12,), (10**6, 10**6), (-1,), (2,)])
def test_a_header_that_does_not_fit_the_file_takes_no_memory(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    path = tmp_path / "a.npy"
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f8", "fortran_order": False, "shape": shape}
        )
        file.write(b"\0" * 8)

    with pytest.raises(ValueError, match=r"a\.npy has 136 bytes in place of"):
        load_array(path, np.float64)


@pytest.mark.parametrize(
    "content", [b"", b"PK\3\4" + b"\0" * 100, b"\x93NUMPY\x09\x00" + b" " * 90]
)
def test_what_is_no_array_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(content)

    with pytest.raises(ValueError):  # noqa: PT011 - the messages are NumPy's
        load_array(path, np.float64)
