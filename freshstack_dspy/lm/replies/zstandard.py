"""Compressed bundles: decompressed within bounds, so that a small file cannot fill the disk.

Who needs more decompresses by hand (`zstd -d`) and names the plain file, which has no such bounds.
"""

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from freshstack_dspy.errors import StoreError

SUFFIX = ".zst"
LARGEST = 8 * 2**30
"""Bytes after decompression; a million replies of 8 KB."""
LARGEST_RATIO = 200
"""Replies shrink to a tenth, where all have the same long prompt to a fiftieth."""
SMALLEST_BOUND = 64 * 2**20
"""Bytes that are decompressed whatever the ratio."""
_PIECE = 2**20


@contextmanager
def decompressed(path: Path) -> Iterator[IO[bytes]]:
    """Decompress a file into a temporary one that has no name; memory stays flat.

    Raises:
        OSError: It cannot be read, is damaged or cut off.
        StoreError: It grows beyond the bounds.
    """
    import pyarrow as pa

    compressed = path.stat().st_size
    bound = min(LARGEST, max(SMALLEST_BOUND, LARGEST_RATIO * compressed))
    with tempfile.TemporaryFile() as plain:
        with pa.input_stream(str(path), compression="zstd") as pieces:
            while piece := pieces.read(_PIECE):
                _refuse_bomb(path, compressed, bound, plain.tell() + len(piece))
                plain.write(piece)
        plain.seek(0)
        yield plain


def _refuse_bomb(path: Path, compressed: int, bound: int, grown: int) -> None:
    if grown > bound:
        raise StoreError(
            f"{path}: {compressed:,} bytes become more than {bound:,}; if you trust it, decompress "
            "it with zstd -d, and name the file that this makes"
        )


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Write a file that appears whole or not at all, compressed if its name ends in `.zst`.

    Raises:
        OSError: It cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}.unfinished")
    try:
        with unfinished.open("xb") as plain:
            if path.suffix == SUFFIX:
                import pyarrow as pa

                with pa.output_stream(plain, compression="zstd") as compressed:
                    yield compressed
            else:
                yield plain
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
