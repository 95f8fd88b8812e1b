"""Objects of others, found by their names: `module:name`."""

import importlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
