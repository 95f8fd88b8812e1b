"""A folder that appears whole or not at all, and replaces an older one only as a whole.

The folder is written beside its place under a hidden name and then renamed.
An older folder in the place is first renamed to `.<name>.previous`; no file system call swaps two
folders everywhere, so for an instant the place is empty, and a process killed just then leaves it
so. `standing_folder` then gives the older folder, and the next writing puts it back.
A killed process may also leave a hidden `.<name>.<hex>.partial` (or `.old`) behind, which is safe to delete.
"""

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from freshstack_dspy.errors import CollectionError


def standing_folder(path: Path) -> Path:
    """Give the folder that stands for `path`: itself, or the older one if a swap was cut short."""
    previous = _previous(path)
    return previous if previous.exists() and not path.exists() else path


@contextmanager
def staged_folder(path: Path) -> Iterator[Path]:
    """Give an empty hidden folder that takes the place of `path` when the block ends well.

    Args:
        path: Absolute; what stands there is replaced, so look first.

    Raises:
        CollectionError: The folder cannot be written; what stood at `path` still stands.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir()
        yield partial
        _swap(partial, path)
    except OSError as error:
        raise CollectionError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _swap(partial: Path, path: Path) -> None:
    previous = _previous(path)
    if previous.exists():
        if path.exists():
            _discard(previous, partial)
        else:
            previous.replace(path)
    if not path.exists():
        partial.replace(path)
        return
    path.replace(previous)
    try:
        partial.replace(path)
    finally:
        if not path.exists():
            previous.replace(path)
    _discard(previous, partial)


def _discard(previous: Path, partial: Path) -> None:
    """Delete under another name, so that what is called `previous` is always whole."""
    doomed = partial.with_name(f"{partial.name}.old")
    previous.replace(doomed)
    shutil.rmtree(doomed)


def _previous(path: Path) -> Path:
    return path.with_name(f".{path.name}.previous")


def names_in(path: Path) -> frozenset[str]:
    """List the names in a folder.

    Raises:
        CollectionError: It is a file, or cannot be read.
    """
    try:
        return frozenset(entry.name for entry in path.iterdir())
    except OSError as error:
        raise CollectionError(f"{path}: not a readable folder: {error.strerror}") from None
