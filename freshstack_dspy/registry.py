"""Objects found by their names: `module:name`, or what an installed package calls them."""

import importlib
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from freshstack_dspy.errors import ConfigError

IMPORTED = r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$"
"""The form of the name of an object to import, as `mine.steps:MyNuggetizer`."""


def is_imported(name: object) -> bool:
    """Whether a value names an object to import, and no file."""
    return isinstance(name, str) and re.match(IMPORTED, name) is not None


def imported(name: str, what: str, folder: Path | None = None) -> Any:
    """Import an object by its name; modules next to a configuration are found in its `folder`.

    Raises:
        ConfigError: There is no such module, or nothing of that name in it; `what` names it.
    """
    module_name, _, attribute = name.partition(":")
    try:
        with _found_in(folder):
            module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(f"{what} {name}: {error}") from error
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            near = get_close_matches(part, dir(found), n=1)
            hint = f"; did you mean {module_name}:{near[0]}?" if near else ""
            raise ConfigError(f"{what} {name}: {module.__file__} has no {part}{hint}")
        found = getattr(found, part)
    return found


@contextmanager
def _found_in(folder: Path | None) -> Iterator[None]:
    """Let modules in a folder be imported, behind all that is installed."""
    if folder is None or str(folder) in sys.path:
        yield
        return
    sys.path.append(str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


@dataclass(frozen=True)
class Registry:
    """Objects of one kind by their names: ours, and those of installed packages.

    A package adds one by an entry point of the group; a name of ours stays ours.
    """

    group: str
    what: str
    """What the objects are, in messages."""
    ours: Mapping[str, str]
    """Name -> `module:name`."""

    def values(self) -> dict[str, str]:
        """Name -> `module:name`, ours first; nothing is imported."""
        from importlib import metadata

        others = metadata.entry_points(group=self.group)
        return {**{one.name: one.value for one in others if one.name not in self.ours}, **self.ours}

    def names(self) -> tuple[str, ...]:
        """All names, ours first."""
        return (*self.ours, *sorted(self.values().keys() - self.ours.keys()))

    def get(self, name: Any) -> Any:
        """Import an object by its name; an object is given as it is.

        Raises:
            ConfigError: There is none of that name, or it cannot be imported.
        """
        if not isinstance(name, str):
            return name
        value = self.ours.get(name) or self.values().get(name)
        if value is None:
            raise ConfigError(f"no {self.what} {name!r}; allowed: {', '.join(self.names())}")
        return imported(value, f"{self.what} {name}")
