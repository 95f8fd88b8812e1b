"""Files of a leaderboard: whoever made the folder may have written any path, or put links there."""

import os
from pathlib import Path

from freshstack_dspy.collection.staging import standing_folder
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.sources.regular import check_regular


def inside(folder: Path, relative: str) -> Path:
    """Give a path of a leaderboard, unless it or a link on its way leads out of the folder.

    Raises:
        CollectionError: It is absolute, leads out, or is no path.
    """
    if Path(relative).is_absolute():
        raise CollectionError(f"{folder}: {relative!r} is absolute; paths are relative to there")
    try:
        root, place = Path(os.path.realpath(folder)), Path(os.path.realpath(folder / relative))
    except (OSError, ValueError) as error:
        raise CollectionError(f"{folder}: {relative!r} is no path: {error}") from None
    if not place.is_relative_to(root):
        raise CollectionError(
            f"{folder}: {relative!r} leads out of the leaderboard, to {place}; put the files "
            "themselves there"
        )
    return folder / relative


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
        raise CollectionError(f"{path}: cannot be read: {error.strerror}") from None
