"""Files of a leaderboard: whoever made the folder may have written any path, or put links there."""

import os
from collections.abc import Sequence
from pathlib import Path

from freshstack_dspy.collection.leaderboard.quoting import cut, quoted
from freshstack_dspy.collection.staging import standing_folder
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.sources.regular import check_regular


def inside(folder: Path, relative: str) -> Path:
    """Give a path of a leaderboard, unless it or a link on its way leads out of the folder.

    Raises:
        CollectionError: It is absolute, leads out, or is no path.
    """
    if Path(relative).is_absolute():
        raise CollectionError(
            f"{folder}: {quoted(relative)} is absolute; paths are relative to there"
        )
    try:
        root, place = Path(os.path.realpath(folder)), Path(os.path.realpath(folder / relative))
    except (OSError, ValueError) as error:
        raise CollectionError(f"{folder}: {quoted(relative)} is no path: {_cause(error)}") from None
    if not place.is_relative_to(root):
        raise CollectionError(
            f"{folder}: {quoted(relative)} leads out of the leaderboard, to {cut(str(place))}; put "
            "the files themselves there"
        )
    return folder / relative


def run_path(folder: Path, relative: str, kept: Sequence[str]) -> Path:
    """Give the path of a run, unless it is one of the leaderboard's own files.

    Args:
        folder: Of the leaderboard.
        relative: As its description has it.
        kept: The names of its own files: results are written over one of them.

    Raises:
        CollectionError: It is one of them, by another name or link too, or leads out.
    """
    path = inside(folder, relative)
    for name in kept:
        if _same_file(path, folder / name):
            raise CollectionError(
                f"{folder}: the run {quoted(relative)} is {name}, which the leaderboard keeps for "
                "itself; give the run another name"
            )
    return path


def _same_file(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, whether it exists or not."""
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return one.samefile(other)  # a hard link, or a name in other letters
    except OSError:
        return False  # one of them is missing


def refuse_links_out(folder: Path, collection: Path) -> None:
    """Refuse a collection of which a file is a link that leads out of the leaderboard.

    Raises:
        CollectionError: There is one.
    """
    standing = standing_folder(collection)
    inside(folder, os.path.relpath(standing, folder))
    if standing.is_dir():
        for path in sorted(standing.iterdir()):
            inside(folder, os.path.relpath(path, folder))


def read_bytes(path: Path) -> bytes:
    """Read a regular file.

    Raises:
        CollectionError: It is none, or cannot be read.
    """
    try:
        check_regular(path)
        return path.read_bytes()
    except OSError as error:
        raise CollectionError(f"{cut(str(path))}: cannot be read: {error.strerror}") from None


def _cause(error: OSError | ValueError) -> str:
    """Say what is wrong with a path, without the path."""
    return error.strerror or "" if isinstance(error, OSError) else str(error)
