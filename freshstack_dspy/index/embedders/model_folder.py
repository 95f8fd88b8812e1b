"""The folder of a transformer model: refused if reading it could run code, and hashed.

Weights are taken as safetensors only, and modules that call nothing of the model's choice only. A
model is identified by what is in its files, wherever the folder is and whenever it was copied.
"""

import hashlib
import importlib
import importlib.metadata
import importlib.util
import mmap
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from freshstack_dspy.errors import ConfigError
from freshstack_dspy.index.embedders.model_configs import MODULES, check_configs
from freshstack_dspy.lm import telemetry
from freshstack_dspy.lm.request import sha256_of

_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
_WEIGHTS = ".safetensors"
_UNREAD = (".md", ".onnx", ".h5", ".msgpack", ".ot", ".gguf", *_PICKLED)
"""Files that do not change what the model gives, because they are not read."""
_READ_INSTEAD = ("model.safetensors", "model.safetensors.index.json")
"""Where one of them is, pickled weights beside it are left alone."""
_OLDEST = 6
"""Release; older ones call whatever a file of the model names."""
_MISSING = (
    "a model in a folder needs sentence-transformers; install it with: "
    "pip install 'freshstack_dspy[transformers]'"
)


def checked_folder(path: Path) -> Path:
    """Give the folder of a model, if reading it runs nothing that it brings.

    Raises:
        ConfigError: It is no model's folder, its weights are pickled, or one of its files names
            code, or a file elsewhere.
    """
    if not (path / "config.json").is_file() and not (path / MODULES).is_file():
        raise ConfigError(
            f"{path}: no model: a sentence-transformers folder has config.json or {MODULES}"
        )
    _check_linked_folders(path)
    files = list(_files(path))
    for file in files:
        if file.suffix in _PICKLED and not _beside(file):
            raise ConfigError(
                f"{file}: pickled weights can run code and are not read; save the model as "
                "safetensors: model.save_pretrained(FOLDER, safe_serialization=True)"
            )
    if not any(file.suffix == _WEIGHTS for file in files):
        raise ConfigError(f"{path}: no weights: there is no {_WEIGHTS} file in it")
    check_configs(path, files)
    return path


def hash_folder(path: Path) -> str:
    """SHA-256 of the names and contents of the files that a model is read from."""
    return sha256_of(
        {
            file.relative_to(path).as_posix(): _hash_of(file)
            for file in _files(path)
            if file.suffix not in _UNREAD
            or (file.suffix in _PICKLED and not (file.parent / _READ_INSTEAD[0]).is_file())
        }
    )


def require_sentence_transformers() -> None:
    """See that the library is installed, without importing it, which takes seconds.

    Raises:
        ConfigError: It is not, or is too old to be safe.
    """
    if importlib.util.find_spec("sentence_transformers") is None:
        raise ConfigError(_MISSING)
    try:
        version = importlib.metadata.version("sentence-transformers")
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    release = re.match(r"\d+", version)
    if release is None or int(release[0]) < _OLDEST:
        raise ConfigError(
            f"sentence-transformers of version {version} runs code that a model's files name; "
            f"install a newer one: pip install 'sentence-transformers>={_OLDEST}'"
        )


def loaded_model(path: Path, kind: str, **settings: Any) -> Any:
    """Load a model of sentence-transformers from a checked folder, and run nothing of the folder's.

    Args:
        path: The folder.
        kind: The library's class: `SentenceTransformer` or `CrossEncoder`.
        settings: Further ones of that class.

    Raises:
        ConfigError: The library is not installed, or it cannot load the model.
    """
    load = getattr(_imported_library(), kind)
    try:
        return load(
            str(path),
            local_files_only=True,
            trust_remote_code=False,
            model_kwargs={"use_safetensors": True},
            **settings,
        )
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise ConfigError(f"{path}: the model cannot be loaded: {error}") from error


def _imported_library() -> Any:
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
        if not _hidden(file, path) and file.is_file():
            yield file


def _beside(pickled: Path) -> bool:
    return any((pickled.parent / name).is_file() for name in _READ_INSTEAD)


def _check_linked_folders(path: Path) -> None:
    for entry in sorted(path.rglob("*")):
        if entry.is_symlink() and entry.is_dir() and not _hidden(entry, path):
            raise ConfigError(
                f"{entry}: a link to a folder, whose files would be read but neither checked nor "
                "hashed; copy the folder"
            )


def _hidden(entry: Path, path: Path) -> bool:
    return any(part.startswith(".") for part in entry.relative_to(path).parts)


def _hash_of(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        if file.stat().st_size:
            with mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
                digest.update(data)
    return digest.hexdigest()
