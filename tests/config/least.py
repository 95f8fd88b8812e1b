"""The least configuration there can be, and what is said of one that cannot be."""

from pathlib import Path

import pytest

from freshstack_dspy.config import load_config
from freshstack_dspy.errors import ConfigError

LEAST = """
name = "small"
out = "out"
[queries]
path = "questions.jsonl"
[[corpus]]
name = "docs"
path = "docs"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "build.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refused(path: Path) -> str:
    """What is said of a configuration after the name of its file, which comes first."""
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    said = str(caught.value)

    assert said.startswith(f"{path}: ")
    assert said.isprintable(), "one line"

    return said.removeprefix(f"{path}: ")
