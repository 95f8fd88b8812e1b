"""Arrays on disk: plain NumPy files, mapped into memory."""

from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=np.generic)
_MAPPED_FROM_BYTES = 4096


def save_array(path: Path, array: NDArray[np.generic]) -> None:
    """Write an array into a file of its own."""
    np.save(path, array, allow_pickle=False)


def load_array(path: Path, dtype: type[T], shape: tuple[int, ...] | None = None) -> NDArray[T]:
    """Map an array into memory, or read it where it is small; nothing is unpickled.

    Raises:
        OSError, ValueError: The file is missing, damaged, or of another type or shape.
    """
    mapped = path.stat().st_size >= _MAPPED_FROM_BYTES  # what is empty cannot be mapped
    try:
        array = np.asarray(np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False))
    except EOFError as error:
        raise ValueError(f"{path.name}: {error}") from None
    if array.dtype != np.dtype(dtype) or (shape is not None and array.shape != shape):
        raise ValueError(f"{path.name} is of type {array.dtype} and shape {array.shape}")
    return array
