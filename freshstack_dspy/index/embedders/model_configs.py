"""What the JSON files of a model's folder name: refused if it is code, or a file elsewhere.

The libraries import what such a file says and call it, or read files from where it says.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from freshstack_dspy.errors import ConfigError

MODULES = "modules.json"
_LIBRARY = "sentence_transformers"
_NAMED = {
    "transformer": "Transformer",
    "pooling": "Pooling",
    "normalize": "Normalize",
    "dense": "Dense",
}
_TYPES = frozenset(
    f"{_LIBRARY}.{package}"
    for file, name in _NAMED.items()
    for package in (
        f"models.{name}",
        f"models.{file}.{name}",
        f"models.{name}.{name}",
        f"base.modules.{name}",
        f"base.modules.{file}.{name}",
        f"sentence_transformer.modules.{name}",
        f"sentence_transformer.modules.{file}.{name}",
    )
) | {f"{_LIBRARY}.cross_encoder.modules.logit_score.LogitScore"}
"""A module's type as releases 2 to 6 write it. Others import and call what their files name."""
_PATH = re.compile(r"(?:\w[\w. -]*(?:/\w[\w. -]*)*)?")
_SHARD = re.compile(r"\w[\w.-]*\.safetensors")
_ACTIVATION = re.compile(r"torch\.nn\.(?:modules\.(?:activation|linear)\.)?[A-Z]\w*|\w+")
"""A class of torch, or a name that transformers looks up in a table of its own."""
_LEADS_ELSEWHERE = frozenset(
    {"allow_all_kernels", "gguf_file", "pretrained_model_name_or_path", "transformers_weights"}
)
_LONGEST = 2**24
"""Bytes; lists of a tokenizer's added tokens reach one million."""


def check_configs(folder: Path, files: list[Path]) -> None:
    """See that no file of a model makes the libraries run or read anything but the model.

    Args:
        folder: The model.
        files: All of its files.

    Raises:
        ConfigError: A file is broken, or names code, or a file that is not the model's.
    """
    for file in files:
        name = file.name.lower()  # as some systems look it up
        if name == "adapter_config.json":
            raise ConfigError(
                f"{file}: an adapter, whose base model is somewhere else; merge the two, and save "
                "the whole model"
            )
        if name.endswith(".index.json"):
            _check_shards(file)
        elif name.endswith(".json") and "config" in name:
            _check_config(file)
    modules = folder / MODULES
    if modules.is_file():
        _check_modules(modules)


def _check_modules(file: Path) -> None:
    try:
        modules = [(str(each["type"]), each.get("path")) for each in _read(file)]
    except (TypeError, KeyError, AttributeError) as error:
        raise ConfigError(f"{file}: not a list of modules: {error}") from None
    for kind, path in modules:
        if kind not in _TYPES:
            raise ConfigError(
                f"{file} names the module {kind!r:.80}, which would run code that is not "
                f"{_LIBRARY}' own, or that its files choose; allowed: {', '.join(_NAMED.values())} "
                "and LogitScore"
            )
        if not isinstance(path, str) or not _PATH.fullmatch(path):
            raise ConfigError(
                f"{file}: the module's path {path!r:.80} is not that of a folder in the model: "
                "words with '/' between them, none of which starts with a dot"
            )


def _check_config(file: Path) -> None:
    for key, value in _entries(_read(file)):
        if value is None:
            continue
        if "activation_f" in key and not _fits(_ACTIVATION, value):
            raise ConfigError(
                f"{file}: {key} = {value!r:.80} would run code that is no activation of torch; "
                "allowed: torch.nn.modules.activation.…, torch.nn.modules.linear.…"
            )
        if key in _LEADS_ELSEWHERE or (key.endswith("attn_implementation") and "/" in str(value)):
            raise ConfigError(
                f"{file}: {key} = {value!r:.80} makes the model of something outside of it; "
                "remove that entry"
            )


def _check_shards(file: Path) -> None:
    read = _read(file)
    shards = read.get("weight_map") if isinstance(read, dict) else None
    if not isinstance(shards, dict):
        raise ConfigError(f"{file}: not a list of weights: it has no weight_map")
    pickled = file.name.lower().endswith(".bin.index.json")  # read by nobody
    for shard in () if pickled else shards.values():
        if not _fits(_SHARD, shard):
            raise ConfigError(
                f"{file}: the weights {shard!r:.80} are not in a .safetensors file of this folder"
            )


def _fits(pattern: re.Pattern[str], value: Any) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    """All keys and values, however deep."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield from one.items()
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _read(file: Path) -> Any:
    with file.open("rb") as opened:
        content = opened.read(_LONGEST + 1)
    if len(content) > _LONGEST:
        raise ConfigError(f"{file}: larger than {_LONGEST:,} bytes")
    try:
        return json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        expected = "a list of modules" if file.name == MODULES else "JSON"
        raise ConfigError(f"{file}: not {expected}: {error}") from None
