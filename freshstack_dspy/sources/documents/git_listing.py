"""The listing of a commit, read while git writes it: a tree of 200 kB can hold 10⁹ paths."""

import subprocess
import tempfile
from collections.abc import Iterator

from freshstack_dspy.errors import SourceError
from freshstack_dspy.sources.documents.git_program import Git

_MOST_FILES = 1_000_000
_MOST_BYTES = 512 << 20
_BLOCK = 1 << 20


class ListingError(Exception):
    """git ended with an error; holds what it said."""

    def __init__(self, stderr: bytes) -> None:
        """Keep what git said."""
        super().__init__(stderr)
        self.stderr = stderr


def list_tree(git: Git, commit: str, place: str) -> Iterator[bytes]:
    """Give the entries of `git ls-tree -r -l -z`.

    Args:
        git: Of the repository.
        commit: Its full id.
        place: Of the repository, for messages.

    Raises:
        ListingError: git ended with an error.
        SourceError: There are more than a million entries, or more than 512 MiB of them.
    """
    with tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(  # noqa: S603 - no shell, and words of our own
            git.command("ls-tree", "-r", "-l", "-z", "--full-tree", commit),
            env=git.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
        with process:
            try:
                yield from _bounded(process, place)
            finally:
                process.kill()
        if process.returncode:
            stderr.seek(0)
            raise ListingError(stderr.read(_BLOCK))


def _bounded(process: "subprocess.Popen[bytes]", place: str) -> Iterator[bytes]:
    assert process.stdout is not None
    pieces: list[bytes] = []
    count = size = 0
    while block := process.stdout.read(_BLOCK):
        size += len(block)
        count += block.count(b"\0")
        if count > _MOST_FILES or size > _MOST_BYTES:
            raise SourceError(
                f"{place}: its commit lists more than {_MOST_FILES:,} files or "
                f"{_MOST_BYTES >> 20} MiB of paths; name a smaller repository, or a folder "
                "without revision"
            )
        first, *others = block.split(b"\0")
        pieces.append(first)
        if others:
            yield b"".join(pieces)
            yield from others[:-1]
            pieces = [others[-1]]
    process.wait()
