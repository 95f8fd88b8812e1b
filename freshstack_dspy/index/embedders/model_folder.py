"""The folder of a transformer model: refused if reading it could run code, and hashed.

Weights are taken as safetensors only, and modules from the sentence_transformers package only. A
model is identified by what is in its files, wherever the folder is and whenever it was copied.
"""

import hashlib
import importlib
import importlib.util
import json
import mmap
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from freshstack_dspy.errors import ConfigError
from freshstack_dspy.lm.provider import telemetry
from freshstack_dspy.lm.request import sha256_of

_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
_WEIGHTS = ".safetensors"
_UNREAD = (".md", ".onnx", ".h5", ".msgpack", ".ot", ".gguf", *_PICKLED)
"""Files that do not change what the model gives, because they are not read."""
_MODULES = "modules.json"
_TRUSTED = "sentence_transformers."
_LONGEST_JSON = 2**20
_MISSING = (
    "a model in a folder needs sentence-transformers; install it with: "
    "pip install 'freshstack_dspy[transformers]'"
)


def checked_folder(path: Path) -> Path:
    """Give the folder of a model, if reading it runs nothing that it brings.

    Raises:
        ConfigError: It is no model's folder, its weights are pickled, or a module is foreign.
    """
    if not (path / "config.json").is_file() and not (path / _MODULES).is_file():
        raise ConfigError(
            f"{path}: no model: a sentence-transformers folder has config.json or {_MODULES}"
        )
    files = list(_files(path))
    for file in files:
        beside = any(other.suffix == _WEIGHTS for other in files if other.parent == file.parent)
        if file.suffix in _PICKLED and not beside:
            raise ConfigError(
                f"{file}: pickled weights can run code and are not read; save the model as "
                "safetensors: model.save_pretrained(FOLDER, safe_serialization=True)"
            )
    if not any(file.suffix == _WEIGHTS for file in files):
        raise ConfigError(f"{path}: no weights: there is no {_WEIGHTS} file in it")
    for kind in _module_types(path):
        if not kind.startswith(_TRUSTED):
            raise ConfigError(
                f"{path / _MODULES} names the module {kind!r:.80}, which would run code that is "
                f"not sentence-transformers' own; allowed: {_TRUSTED}…"
            )
    return path


def hash_folder(path: Path) -> str:
    """SHA-256 of the names and contents of the files that a model is read from."""
    return sha256_of(
        {
            file.relative_to(path).as_posix(): _hash_of(file)
            for file in _files(path)
            if file.suffix not in _UNREAD
        }
    )


def require_sentence_transformers() -> None:
    """See that the library is installed, without importing it, which takes seconds.

    Raises:
        ConfigError: It is not.
    """
    if importlib.util.find_spec("sentence_transformers") is None:
        raise ConfigError(_MISSING)


def imported_sentence_transformers() -> Any:
    """The library, offline and silent.

    Raises:
        ConfigError: It is not installed.
    """
    telemetry.turn_off()
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        os.environ.setdefault(name, "1")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            library = importlib.import_module("sentence_transformers")
            # It draws a bar for every model that it loads, whoever draws another one.
            importlib.import_module("transformers.utils.logging").disable_progress_bar()
    except ImportError as error:
        raise ConfigError(f"{_MISSING} ({error})") from None
    return library


def _files(path: Path) -> Iterator[Path]:
    """All files of a folder in order, but for hidden ones."""
    for file in sorted(path.rglob("*")):
        hidden = any(part.startswith(".") for part in file.relative_to(path).parts)
        if not hidden and file.is_file():
            yield file


def _module_types(path: Path) -> Iterator[str]:
    file = path / _MODULES
    if not file.is_file():
        return
    try:
        with file.open("rb") as opened:
            modules = json.loads(opened.read(_LONGEST_JSON))
        for module in modules:
            yield str(module["type"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ConfigError(f"{file}: not a list of modules: {error}") from None


def _hash_of(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        if file.stat().st_size:
            with mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
                digest.update(data)
    return digest.hexdigest()
