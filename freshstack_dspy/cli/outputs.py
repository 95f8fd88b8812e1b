"""Files that a command writes: never over one that it reads."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from freshstack_dspy.errors import ConfigError

if TYPE_CHECKING:
    from freshstack_dspy.config import BuildConfig


def inputs_of(config: "BuildConfig") -> Iterator[Path | None]:
    """What a build reads, and the store and the index that it writes to."""
    yield config.queries.path
    yield config.queries.style
    yield from (corpus.path for corpus in config.corpus)
    yield from (path for _, path in config.programs)
    yield from config.cache.bundles
    yield config.cache.path
    yield config.index.path


def resolved(path: Path) -> Path:
    """Give the path without symbolic links; a loop of these is left, for reading to complain of."""
    return Path(os.path.realpath(path))  # Path.resolve raises a RuntimeError at a loop


def check_collection(out: Path | None, collection: Path) -> None:
    """Refuse to write into a collection, or to where one will be: a build replaces it as a whole.

    Raises:
        ConfigError: The output is inside.
    """
    if out is not None and resolved(out).is_relative_to(resolved(collection)):
        raise ConfigError(
            f"{out} is inside {collection}, where the collection is, and would be lost; write "
            "elsewhere"
        )


def check_inputs(out: Path | None, *inputs: Path | None) -> None:
    """Refuse to write over an input, also by another name of it, or over a file in one's folder.

    Raises:
        ConfigError: The output is an input.
    """
    if out is None or not out.exists():
        return
    for given in inputs:
        if given is not None and (
            resolved(out).is_relative_to(resolved(given)) or _is_same(out, given)
        ):
            raise ConfigError(f"{out} is read by this command, and would be lost; write elsewhere")


def _is_same(out: Path, given: Path) -> bool:
    """Tell whether two names are of one file, as hard links are."""
    try:
        return out.samefile(given)
    except OSError:  # what is not there is not the same
        return False


def check_around(folder: Path, *given: Path | None) -> None:
    """Refuse to replace a folder that something which this command reads or writes stands in.

    Raises:
        ConfigError: Something does.
    """
    for one in given:
        if one is not None and resolved(one).is_relative_to(resolved(folder)):
            raise ConfigError(
                f"{one} is inside {folder}, which this command replaces as a whole; write elsewhere"
            )


def check_other_file(out: Path | None, first_line: str) -> None:
    """Refuse a file that cannot be written, or that stands there and is none of this command's.

    Args:
        out: The file; None: nothing is written.
        first_line: How the first line of a file of this command begins.

    Raises:
        ConfigError: It is a folder or its folder is none, or it begins in another way.
    """
    if out is None:
        return
    if out.is_dir():
        raise ConfigError(f"{str(out)!r} is a folder; name a file, as values.csv")
    try:
        out.parent.stat()
        if not _is_there(out) or not out.is_file():
            return
        with out.open("rb") as file:
            found = file.read(len(first_line.encode()))
    except OSError as error:
        raise ConfigError(f"{out}: cannot be written: {error.strerror}") from None
    if found and found != first_line.encode():
        raise ConfigError(
            f"{out} stands there and does not begin with {first_line}, and would be lost; write "
            "elsewhere, or remove it"
        )


def _is_there(out: Path) -> bool:
    """Tell whether a file is there; another fault of its name, as a loop of links, is raised."""
    try:
        out.stat()
    except FileNotFoundError:
        return False
    return True


def write_whole(out: Path, text: str) -> None:
    """Write a text file as a whole or not at all; another name of what was there keeps that.

    Raises:
        ConfigError: It cannot be written.
    """
    place = resolved(out)
    try:
        if place.exists() and not place.is_file():  # as /dev/stdout
            place.write_text(text, encoding="utf-8", newline="")
            return
        partial = place.with_name(f".{os.getpid()}.partial")
        try:
            partial.write_text(text, encoding="utf-8", newline="")
            partial.replace(place)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"{out}: cannot be written: {error.strerror}") from None
