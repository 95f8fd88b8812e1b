"""Files that a command writes: never over one that it reads."""

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


def refuse_collection(out: Path | None, collection: Path) -> None:
    """Refuse to write into a collection, or to where one will be: a build replaces it as a whole.

    Raises:
        ConfigError: The output is inside.
    """
    if out is not None and out.resolve().is_relative_to(collection.resolve()):
        raise ConfigError(
            f"{out} is inside {collection}, where the collection is, and would be lost; write "
            "elsewhere"
        )


def refuse_inputs(out: Path | None, *inputs: Path | None) -> None:
    """Refuse to write over an input, or over a file in a folder that is one.

    Raises:
        ConfigError: The output is an input.
    """
    if out is None or not out.exists():
        return
    for given in inputs:
        if given is not None and out.resolve().is_relative_to(given.resolve()):
            raise ConfigError(f"{out} is read by this command, and would be lost; write elsewhere")


def refuse_around(folder: Path, *given: Path | None) -> None:
    """Refuse to replace a folder that something which this command reads or writes stands in.

    Raises:
        ConfigError: Something does.
    """
    for one in given:
        if one is not None and one.resolve().is_relative_to(folder.resolve()):
            raise ConfigError(
                f"{one} is inside {folder}, which this command replaces as a whole; write elsewhere"
            )
