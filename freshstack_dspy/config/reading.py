"""Reading a configuration from TOML: paths are relative to its file, and absolute once read."""

import json
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from freshstack_dspy.config.inputs import QueriesConfig
from freshstack_dspy.config.section import Section
from freshstack_dspy.config.sections import BuildConfig
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.faults import in_one_line

S = TypeVar("S", bound=Section)


def load_config(path: Path | str) -> BuildConfig:
    """Read a TOML configuration.

    Raises:
        ConfigError: In one line with the file, the key, what was found and what is allowed.
    """
    path = Path(path)
    config = _validated(_values_of(path), BuildConfig, path)
    config = _with_absolute_paths(config, path)
    faults = [*_missing_inputs(config), *_outputs_in_the_corpus(config)]
    if faults:
        raise ConfigError(f"{path}: {'; '.join(faults)}")
    return config


def load_judging(path: Path | str) -> BuildConfig:
    """Read a TOML configuration for what it says of the model and the judge alone.

    Whoever judges for a collection that stands needs no questions and no documents: `[queries]`,
    `[[corpus]]`, `name` and `out` may lack, and the files that they name too.

    Raises:
        ConfigError: As for `load_config`.
    """
    path = Path(path)
    elsewhere: dict[str, Any] = {
        "name": "judging",
        "out": "collection",
        "queries": {"path": "questions.jsonl"},
        "corpus": [{"name": "corpus", "path": "corpus"}],
    }
    config = _validated({**elsewhere, **_values_of(path)}, BuildConfig, path)
    config = _with_absolute_paths(config, path)
    needed = ("cache.bundles ", "programs.")
    faults = [fault for fault in _missing_inputs(config) if fault.startswith(needed)]
    if faults:
        raise ConfigError(f"{path}: {'; '.join(faults)}")
    return config


def load_queries(path: Path | str) -> QueriesConfig:
    """Read the `[queries]` of a TOML configuration, whatever else is in it or not there yet.

    Raises:
        ConfigError: In one line with the file, the key, what was found and what is allowed.
    """
    path = Path(path)
    values = _values_of(path).get("queries")
    if values is None:
        raise ConfigError(f"{path}: queries is missing")
    return _with_absolute_paths(_validated(values, QueriesConfig, path), path)


def _values_of(path: Path) -> dict[str, Any]:
    """Read the tables of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: no such file; write a commented example with: freshstack init {path}"
        ) from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: a folder, and the TOML file of a build is wanted") from None
    except NotADirectoryError:
        raise ConfigError(f"{path}: no such file, for a part of its path is no folder") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    except ValueError:
        raise ConfigError(f"{path}: a number in it is too long") from None


def _validated(values: object, section: type[S], path: Path) -> S:
    try:
        # As JSON, so that dates are text and nothing else is silently made into another type.
        text = json.dumps(values, default=lambda moment: moment.isoformat())
    except (ValueError, RecursionError):
        # Hexadecimal numbers of any length are read, and decimal ones of 4,300 digits written.
        raise ConfigError(f"{path}: a number in it is too long, or its tables too deep") from None
    try:
        return section.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise ConfigError(f"{path}: {in_one_line(error, section)}") from None


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


def _with_absolute_paths(config: S, file: Path) -> S:
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

    resolved: S = absolute(config, "")
    return resolved


def _missing_inputs(config: BuildConfig) -> Iterator[str]:
    inputs: list[tuple[str, Path | None]] = [
        ("queries.path", config.queries.path),
        ("queries.style", config.queries.style),
    ]
    inputs += [(f"corpus {corpus.name!r}: path", corpus.path) for corpus in config.corpus]
    inputs += [(f"embedder {embedder.name!r}: path", embedder.path) for embedder in config.embedder]
    inputs += [("reranker.path", config.reranker.path)] if config.reranker else []
    inputs += [("cache.bundles", bundle) for bundle in config.cache.bundles]
    inputs += [(f"programs.{name}", value) for name, value in config.programs]
    for key, value in inputs:
        if value is None:
            continue
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
        ("cache.clones", config.cache.clones),
        ("index.path", config.index.path),
    )
    for corpus in config.corpus:
        if corpus.path is None:
            continue
        for key, value in outputs:
            if corpus.revision is None and value.is_relative_to(corpus.path):
                yield (
                    f"{key} is {value}, inside corpus {corpus.name!r}, so a build would read what "
                    "it writes; name a folder outside, or a revision of the corpus"
                )
