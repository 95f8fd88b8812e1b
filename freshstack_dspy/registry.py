"""Objects found by their names: `module:name`, or what an installed package calls them."""

import importlib
import inspect
import platform
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

from freshstack_dspy.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

IMPORTED = r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$"
"""The form of the name of an object to import, as `mine.steps:MyNuggetizer`."""


def is_imported(name: object) -> bool:
    """Whether a value names an object to import, and no file."""
    return isinstance(name, str) and re.match(IMPORTED, name) is not None


def name_of(thing: Any) -> str:
    """What a function or an object is called: its own name, or that of its class."""
    return str(getattr(thing, "__name__", type(thing).__name__))


def source_of(kind: Any, module: str | None = None) -> str:
    """The source of the module of a class or function, or of the `module` it was imported from.

    For what was typed into a notebook, it is its own source.
    """
    try:
        return inspect.getsource(sys.modules[module or kind.__module__])
    except (OSError, TypeError, KeyError):
        try:
            return inspect.getsource(kind)
        except (OSError, TypeError, SyntaxError):  # the last of a cell with a magic
            members = getattr(kind, "__dict__", {}).values()
            codes = [member.__code__ for member in members if inspect.isfunction(member)]
            parts = [(code.co_name, code.co_code, code.co_names) for code in codes]
            return repr(parts) if parts else ""


def imported(name: str, what: str, folder: Path | None = None) -> Any:
    """Import an object by its name; modules next to a configuration are found in its `folder`.

    Raises:
        ConfigError: There is no such module, it cannot be imported, or has nothing of that name;
            `what` names it.
    """
    module_name, _, attribute = name.partition(":")
    try:
        with _found_in(folder):
            module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        where = f", nor in {folder}" if folder else ""
        raise ConfigError(f"{what} {name}: {error}: it is not installed{where}") from error
    except SyntaxError as error:
        where = f"{error.filename}:{error.lineno}"
        raise ConfigError(f"{what} {name}: {where}: {error.msg}") from error
    except Exception as error:  # the code of others may raise anything
        at = extract_tb(error.__traceback__)[-1]
        fault = f"{type(error).__name__}: {error}"
        raise ConfigError(f"{what} {name}: {at.filename}:{at.lineno}: {fault}") from error
    value: Any = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            near = get_close_matches(part, dir(value), n=1)
            hint = f"; did you mean {module_name}:{near[0]}?" if near else ""
            raise ConfigError(f"{what} {name}: {module.__file__} has no {part}{hint}")
        value = getattr(value, part)
    return value


@contextmanager
def _found_in(folder: Path | None) -> Iterator[None]:
    """Let modules in a folder be imported, behind all that is installed."""
    place = "" if folder is None else str(folder.resolve())
    importlib.invalidate_caches()  # a module may have been written just now
    if not place or place in sys.path:
        yield
        return
    sys.path.append(place)
    try:
        yield
    finally:
        sys.path.remove(place)


@dataclass(frozen=True)
class Registry:
    """Objects of one kind by their names: built-in ones, and those of installed packages.

    A package adds an object by an entry point of the group; built-in names take precedence.
    """

    group: str
    what: str
    """What the objects are, in messages."""
    ours: Mapping[str, str]
    """Name -> `module:name`."""
    is_one: Callable[[Any], bool] = callable
    """Tells whether an object is of the kind."""

    def names(self) -> tuple[str, ...]:
        """All names, ours first; nothing is imported."""
        return (*self.ours, *sorted({entry.name for entry in self._others()} - self.ours.keys()))

    def _others(self) -> "Iterable[EntryPoint]":
        from importlib import metadata

        return metadata.entry_points(group=self.group)

    def get(self, name: Any) -> Any:
        """Import an object by its name; an object is given as it is.

        Raises:
            ConfigError: There is none of that name, or several packages have one, or it cannot be
                imported, or is of another kind.
        """
        value, what = name, f"{self.what} {name}"
        if isinstance(name, str):
            values = [self.ours[name]] if name in self.ours else self._values(name)
            if not values:
                raise ConfigError(f"no {self.what} {name!r}; allowed: {', '.join(self.names())}")
            if len(values) > 1:
                raise ConfigError(
                    f"{what}: several packages have one of this name ({', '.join(values)}); "
                    "uninstall all but one of them"
                )
            if not is_imported(values[0]):
                raise ConfigError(
                    f"{what}: the entry point of its package is {values[0]!r}, and names no "
                    f"object; write it as {values[0]}:NAME"
                )
            value = imported(values[0], what)
        if not self.is_one(value):
            raise ConfigError(f"{what} is {value!r:.80}, and no {self.what}")
        return value

    def _values(self, name: str) -> list[str]:
        return sorted({entry.value for entry in self._others() if entry.name == name})


def installed(packages: Iterable[str]) -> dict[str, str]:
    """The versions of packages, and of `python`, where this runs; empty where one is missing."""
    from importlib.metadata import PackageNotFoundError, version

    def version_of(package: str) -> str:
        try:
            return platform.python_version() if package == "python" else version(package)
        except PackageNotFoundError:
            return ""

    return {package: version_of(package) for package in packages}
