"""Whether all that a git repository reads lies in the folder that was named.

Links, `gitdir:` files and alternates let a folder that somebody else made show the content of any
repository of ours; so a repository whose objects are not its own is not read.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from freshstack_dspy.errors import SourceError

_LARGEST = 1 << 20
"""Bytes of a list of alternates."""


def check_inside(path: Path, git_folder: Path, common_folder: Path, objects: Path) -> None:
    """Refuse a repository that reads objects from outside of the folder that it is.

    Args:
        path: The folder that was named.
        git_folder: As `git rev-parse` tells it, as the next two.
        common_folder: That of the repository that a linked worktree belongs to.
        objects: The folder of its objects.

    Raises:
        SourceError: With what to name, or to type, instead.
    """
    root = path.resolve()
    common = common_folder.resolve()
    if _is_linked_worktree(root, git_folder.resolve(), common):
        main = common.parent if common.name == ".git" else common
        raise SourceError(
            f"{path}: a linked worktree; name the repository itself: path = {str(main)!r}"
        )
    for place in (git_folder.resolve(), common, objects.resolve()):
        if not place.is_relative_to(root):
            raise SourceError(
                f"{path}: its repository lies elsewhere, in {place}; if that is the one you want, "
                "name it itself as path"
            )
    _check_objects(path, objects.resolve(), root)


def _is_linked_worktree(root: Path, git_folder: Path, common: Path) -> bool:
    """Say whether a repository knows this folder for one of its worktrees."""
    if git_folder.parent != common / "worktrees":
        return False
    back = _lines(git_folder / "gitdir")
    return len(back) == 1 and (git_folder / back[0]).resolve() == root / ".git"


def _check_objects(path: Path, objects: Path, root: Path) -> None:
    pending, seen = [objects], {objects}
    while pending:
        folder = pending.pop()
        for link in _links(folder):
            if not link.resolve().is_relative_to(root):
                raise SourceError(
                    f"{path}: {link} leads out of the repository; copy it with: "
                    f"git clone --bare --no-local {path} COPY, if you trust it, and name the copy"
                )
        for line in _lines(folder / "info" / "alternates"):
            other = (folder / line).resolve()
            if line.startswith('"') or not other.is_relative_to(root):
                raise SourceError(
                    f"{path}: borrows objects from {line}, outside of it; to make them its own "
                    f"type: git -C {path} repack -a -d, and remove {folder}/info/alternates"
                )
            if other not in seen:
                seen.add(other)
                pending.append(other)


def _links(folder: Path) -> Iterator[Path]:
    """Give the links in a folder of objects, which has folders of files."""
    pending = [(folder, 0)]
    while pending:
        current, depth = pending.pop()
        try:
            listing = os.scandir(current)
        except OSError:
            continue  # what git cannot list either, it does not read
        with listing:
            for child in listing:
                if child.is_symlink():
                    yield Path(child.path)
                elif depth == 0 and child.is_dir(follow_symlinks=False):
                    pending.append((Path(child.path), depth + 1))


def _lines(path: Path) -> list[str]:
    """Read a small file of git's own; none, if it is not there."""
    try:
        with path.open("rb") as file:
            text = os.fsdecode(file.read(_LARGEST))
    except OSError:
        return []
    return [line for line in text.split("\n") if line and not line.startswith("#")]
