"""The configuration: defaults, then files, then the environment, then the command line.

One file is read, the first of: ``--config``, ``$XYLOCHRON_CONFIG``, ``./xylochron.toml``,
``~/.config/xylochron/config.toml``. Files are not merged with each other.
"""

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xylochron.errors import ConfigError

DEFAULTS: dict[str, dict[str, Any]] = {
    "read": {"encoding": "", "units": "", "wide_years": False},
    "detrend": {"method": "spline", "stiffness": 0.67, "index": "ratio", "allow_rising": False},
    "crossdate": {"min_overlap": 50, "top": 10, "workers": 1},
    "chronology": {"average": "biweight", "min_depth": 5, "prewhiten": False},
    "output": {"era": "astronomical", "decimals": 3},
}
PREFIX = "XYLOCHRON_"


@dataclass(frozen=True)
class Setting:
    """A value and where it came from, as ``config show --origin`` prints it."""

    value: Any
    origin: str


Settings = dict[str, dict[str, Setting]]


def find_file(given: Path | None, environ: Mapping[str, str]) -> Path | None:
    """The one file that is read, or None."""
    if given is not None:
        return given
    if environ.get("XYLOCHRON_CONFIG"):
        return Path(environ["XYLOCHRON_CONFIG"])
    for path in (Path("xylochron.toml"), Path.home() / ".config/xylochron/config.toml"):
        if path.is_file():
            return path
    return None


def load(given: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings.

    Environment variables are ``XYLOCHRON_<SECTION>__<KEY>`` with two underscores, as
    ``XYLOCHRON_CROSSDATE__MIN_OVERLAP=40``.

    Raises:
        ConfigError: a section, a key or the type of a value is not known.
    """
    env = os.environ if environ is None else environ
    settings: Settings = {
        section: {key: Setting(value, "default") for key, value in keys.items()}
        for section, keys in DEFAULTS.items()
    }
    path = find_file(given, env)
    if path is not None:
        for section, keys in tomllib.loads(path.read_text(encoding="utf-8")).items():
            for key, value in _table(section, keys).items():
                _set(settings, section, key, value, str(path))
    for variable, text in sorted(env.items()):
        if variable.startswith(PREFIX) and "__" in variable:
            section, _, key = variable.removeprefix(PREFIX).lower().partition("__")
            _set(settings, section, key, _parse(text), f"${variable}")
    return settings


def _table(section: str, keys: Any) -> dict[str, Any]:
    if not isinstance(keys, dict):
        raise ConfigError(f"{section!r} must stand in a section, as [detrend]")
    return keys


def _set(settings: Settings, section: str, key: str, value: Any, origin: str) -> None:
    if section not in settings:
        raise ConfigError(f"unknown section [{section}]{_hint(section, settings)} ({origin})")
    if key not in settings[section]:
        hint = _hint(key, settings[section])
        raise ConfigError(f"unknown key {key!r} in [{section}]{hint} ({origin})")
    settings[section][key] = Setting(value, origin)


def _hint(word: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _parse(text: str) -> Any:
    """A TOML value where the text is one, the text itself otherwise."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
