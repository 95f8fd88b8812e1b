"""Where the parts of a foreign collection lie in its folder."""

import os
from collections.abc import Sequence
from pathlib import Path

from freshstack_dspy.errors import SourceError


def find_part(folder: Path, what: str, patterns: Sequence[str]) -> Path | None:
    """Find the one file or folder that a pattern names; the first pattern that finds any decides.

    Args:
        folder: Where to look.
        what: What the part is called, for the message.
        patterns: Glob patterns, relative to the folder.

    Returns:
        The part, or None where no pattern finds any.

    Raises:
        SourceError: A pattern finds several, or what leads out of the folder.
    """
    for pattern in patterns:
        found = sorted(folder.glob(pattern))
        if len(found) > 1:
            named = ", ".join(path.name for path in found)
            raise SourceError(
                f"{folder}: has several files of {what}: {named}; move all but one elsewhere"
            )
        if found:
            return inside(folder, found[0])
    return None


def inside(folder: Path, path: Path) -> Path:
    """Give back a path that was found in a folder, unless a link leads out of the folder there.

    Whoever made the folder could have a file of ours read that way, and published.

    Raises:
        SourceError: One does.
    """
    root, place = Path(os.path.realpath(folder)), Path(os.path.realpath(path))
    if place.is_relative_to(root):
        return path
    raise SourceError(
        f"{path}: a link that leads out of {folder}, to {place}; copy the files themselves there, "
        f"as with cp -rL {folder} COPY if you trust its links. The cache of Hugging Face holds "
        "such links, into ../../blobs: hf download … --local-dir FOLDER gives files"
    )


def the_part(folder: Path, what: str, patterns: Sequence[str]) -> Path:
    """Find a part that must be there.

    Raises:
        SourceError: There is none, or several.
    """
    if not folder.is_dir():
        raise SourceError(f"{folder}: there is no such folder")
    if (found := find_part(folder, what, patterns)) is None:
        raise SourceError(f"{folder}: has no {what}; looked for {', '.join(patterns)}")
    return found
