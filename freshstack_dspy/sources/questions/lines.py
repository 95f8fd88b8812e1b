"""The lines of a file, each of a bounded length."""

from collections.abc import Callable, Iterator
from pathlib import Path

from freshstack_dspy.errors import SourceError

ReadProgress = Callable[[int, int], None]
"""Is told how many bytes were read, of how many; both may grow when a file is read again."""
LONGEST_LINE = 16 << 20
"""Bytes. The longest questions have some hundred thousand characters; this bounds our memory."""
_BOM = b"\xef\xbb\xbf"


def read_lines(path: Path, progress: ReadProgress | None = None) -> Iterator[tuple[int, bytes]]:
    """Give each line with its number, from 1; a byte order mark is passed over.

    Args:
        path: The file.
        progress: Is told how many bytes were read, of how many.

    Raises:
        SourceError: The file cannot be read, or a line is too long to be a question.
    """
    try:
        total = path.stat().st_size
        with path.open("rb") as file:
            number = done = 0
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                done += len(line)
                if len(line) > LONGEST_LINE:
                    raise SourceError(
                        f"{path}:{number}: longer than {LONGEST_LINE >> 20} MiB; no question is"
                    )
                yield number, line.removeprefix(_BOM) if number == 1 else line
                if progress is not None:
                    progress(done, total)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None


def decoded(data: bytes, place: str) -> str:
    """Decode a line.

    Raises:
        SourceError: It is not UTF-8, with the byte.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise SourceError(
            f"{place}: not UTF-8: byte 0x{data[error.start]:02x} at byte {error.start + 1} of the "
            "line; save the file as UTF-8"
        ) from None
