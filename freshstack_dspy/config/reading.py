"""Reading a configuration from TOML: paths are relative to its file, and absolute once read."""

import json
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from freshstack_dspy.config.sections import BuildConfig, Section
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.faults import in_one_line


def load_config(path: Path | str) -> BuildConfig:
    """Read a TOML configuration.

    Raises:
        ConfigError: In one line with the file, the key, what was found and what is allowed.
    """
    path = Path(path)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: no such file; write a commented example with: freshstack init {path}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    # As JSON, so that dates are text and nothing else is silently made into another type.
    text = json.dumps(values, default=lambda moment: moment.isoformat())
    try:
        config = BuildConfig.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise ConfigError(f"{path}: {in_one_line(error, BuildConfig)}") from None
    config = _with_absolute_paths(config, path)
    faults = [*_missing_inputs(config), *_outputs_in_the_corpus(config)]
    if faults:
        raise ConfigError(f"{path}: {'; '.join(faults)}")
    return config


def with_bundles(config: BuildConfig, bundles: Sequence[Path]) -> BuildConfig:
    """A configuration that reads further bundles of recorded replies.

    Raises:
        ConfigError: There is no such file.
    """
    for bundle in bundles:
        if not bundle.is_file():
            raise ConfigError(f"{bundle}: no such bundle of recorded replies")
    added = tuple(bundle.resolve() for bundle in bundles)
    cache = config.cache.model_copy(update={"bundles": (*config.cache.bundles, *added)})
    return config.model_copy(update={"cache": cache})


def _with_absolute_paths(config: BuildConfig, file: Path) -> BuildConfig:
    """Resolve every path of a configuration against the folder of its file."""

    def absolute(value: Any, key: str) -> Any:
        if isinstance(value, Path):
            try:
                return (file.parent / value.expanduser()).resolve()
            except (OSError, RuntimeError, ValueError) as error:
                raise ConfigError(f"{file}: {key} is {str(value)!r}: {error}") from None
        if isinstance(value, Section):
            fields = {
                name: absolute(getattr(value, name), f"{key}.{name}".removeprefix("."))
                for name in type(value).model_fields
            }
            return value.model_copy(update=fields)
        if isinstance(value, tuple):
            return tuple(absolute(item, f"{key}[{number}]") for number, item in enumerate(value))
        return value

    resolved: BuildConfig = absolute(config, "")
    return resolved


def _missing_inputs(config: BuildConfig) -> Iterator[str]:
    inputs = [("queries.path", config.queries.path)]
    inputs += [(f"corpus {corpus.name!r}: path", corpus.path) for corpus in config.corpus]
    inputs += [("cache.bundles", bundle) for bundle in config.cache.bundles]
    inputs += [(f"programs.{name}", value) for name, value in config.programs if value is not None]
    for key, value in inputs:
        try:
            exists = value.exists()
        except OSError as error:
            yield f"{key} names {value}, which cannot be read: {error.strerror}"
            continue
        if not exists:
            yield f"{key} names {value}, and there is no such file or folder"


def _outputs_in_the_corpus(config: BuildConfig) -> Iterator[str]:
    """A build that reads what builds write is another one each time."""
    outputs = (
        ("out", config.out),
        ("cache.path", config.cache.path),
        ("index.path", config.index.path),
    )
    for corpus in config.corpus:
        for key, value in outputs:
            if corpus.revision is None and value.is_relative_to(corpus.path):
                yield (
                    f"{key} is {value}, inside corpus {corpus.name!r}, so a build would read what "
                    "it writes; name a folder outside, or a revision of the corpus"
                )
