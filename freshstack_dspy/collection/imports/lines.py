"""The lines of a foreign file, plain or gzip, each of a bounded length."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from freshstack_dspy.errors import SourceError
from freshstack_dspy.sources.regular import check_regular

LONGEST_LINE = 64 << 20
"""Bytes; a book has some million characters."""
_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_RATIO, _ALWAYS = 200, 64 << 20
"""Text shrinks to a tenth; what shrinks to less than a two hundredth was made to fill our disk."""


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Give each line with its number, from 1, without its end; a byte order mark is passed over.

    Args:
        path: A text file, or one that gzip wrote.

    Raises:
        SourceError: The file cannot be read, a line is longer than 64 MiB, or a compressed file
            is damaged or grows to more than 200 times its size.
    """
    try:
        packed = _begins(path, _GZIP)
        most = _ALWAYS + _RATIO * path.stat().st_size if packed else None
        with _opened(path, packed=packed) as file:
            number = done = 0
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                done += len(line)
                if len(line) > LONGEST_LINE:
                    raise SourceError(f"{path}:{number}: longer than {LONGEST_LINE >> 20} MiB")
                if most is not None and done > most:
                    raise SourceError(
                        f"{path}: unpacks to more than {_RATIO} times its size, as no text does; "
                        "unpack it yourself if you trust it"
                    )
                if number == 1:
                    line = line.removeprefix(_BOM)
                yield number, line.rstrip(b"\r\n")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise SourceError(f"{path}: damaged gzip: {error}") from None
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None


def _opened(path: Path, *, packed: bool) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path)) if packed else path.open("rb")


def _begins(path: Path, magic: bytes) -> bool:
    check_regular(path)
    with path.open("rb") as file:
        return file.read(len(magic)) == magic


def begins_with(path: Path, magic: bytes) -> bool:
    """Tell whether a file begins with these bytes.

    Raises:
        SourceError: It cannot be read.
    """
    try:
        return _begins(path, magic)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None
