"""Arrays on disk: plain NumPy files, mapped into memory."""

import math
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=np.generic)
_MAPPED_FROM_BYTES = 4096
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def save_array(path: Path, array: NDArray[np.generic]) -> None:
    """Write an array into a file of its own."""
    np.save(path, array, allow_pickle=False)


def load_array(path: Path, dtype: type[T], shape: tuple[int, ...] | None = None) -> NDArray[T]:
    """Map an array into memory, or read it where it is small; nothing is unpickled.

    Raises:
        OSError, ValueError: The file is missing, damaged, or of another type or shape.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        found_shape, found_type = _header(file)
        expected = file.tell() + math.prod(found_shape) * found_type.itemsize
    if found_type != np.dtype(dtype) or (shape is not None and found_shape != shape):
        raise ValueError(f"{path.name} is of type {found_type} and shape {found_shape}")
    if expected != size:  # before memory is taken for what the header says
        raise ValueError(f"{path.name} has {size} bytes in place of {expected}")
    mapped = size >= _MAPPED_FROM_BYTES  # what is empty cannot be mapped
    return np.asarray(np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False))


def _header(file: BinaryIO) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"an array file of version {version}")
    shape, _, dtype = _HEADERS[version](file)
    return shape, dtype
