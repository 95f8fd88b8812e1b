"""Folders of models: what could run code is refused, and the rest is known by its content."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.config import EmbedderConfig, RerankerConfig
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.index.embedders.model_folder import checked_folder, hash_folder
from freshstack_dspy.index.embedders.sentence_transformers import SentenceTransformersEmbedder
from freshstack_dspy.index.rerankers.cross_encoder import CrossEncoderReranker


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    (path / "2_Dense").mkdir(parents=True)
    (path / "config.json").write_text("{}")
    (path / "model.safetensors").write_bytes(b"weights")
    (path / "2_Dense" / "model.safetensors").write_bytes(b"more weights")
    (path / "README.md").write_text("# A model")
    modules = [{"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"}]
    (path / "modules.json").write_text(json.dumps(modules))
    return path


def test_a_folder_of_safetensors_is_taken(folder: Path) -> None:
    assert checked_folder(folder) == folder


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth", "model.pkl"])
def test_pickled_weights_are_refused(folder: Path, name: str) -> None:
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(b"pickle")

    with pytest.raises(ConfigError, match=f"{name}: pickled weights can run code and are not read"):
        checked_folder(folder)


def test_pickled_weights_of_a_module_are_refused_too(folder: Path) -> None:
    (folder / "2_Dense" / "model.safetensors").rename(folder / "2_Dense" / "pytorch_model.bin")

    with pytest.raises(ConfigError, match=r"2_Dense/pytorch_model.bin: pickled weights"):
        checked_folder(folder)


def test_pickled_weights_beside_safetensors_are_not_read_and_do_no_harm(folder: Path) -> None:
    before = hash_folder(folder)
    (folder / "pytorch_model.bin").write_bytes(b"pickle")

    assert checked_folder(folder) == folder
    assert hash_folder(folder) == before


@pytest.mark.parametrize("kind", ["os.system", "custom_st.Transformer", "sentence_transformersx.A"])
def test_a_foreign_module_is_refused(folder: Path, kind: str) -> None:
    (folder / "modules.json").write_text(json.dumps([{"type": kind}]))

    with pytest.raises(ConfigError, match=f"names the module '{kind}', which would run code"):
        checked_folder(folder)


@pytest.mark.parametrize("text", ["{", "3", '[{"path": ""}]', "[" * 100_000, "[null]"])
def test_a_broken_list_of_modules_is_told_of(folder: Path, text: str) -> None:
    (folder / "modules.json").write_text(text)

    with pytest.raises(ConfigError, match=r"modules.json: not a list of modules"):
        checked_folder(folder)


def test_a_folder_without_a_model_or_weights_is_told_of(folder: Path, tmp_path: Path) -> None:
    for weights in folder.rglob("*.safetensors"):
        weights.unlink()
    with pytest.raises(ConfigError, match=r"there is no .safetensors file in it"):
        checked_folder(folder)
    with pytest.raises(ConfigError, match="no model: a sentence-transformers folder has"):
        checked_folder(tmp_path / "nothing")


def test_a_model_is_known_by_its_content_wherever_it_is(folder: Path, tmp_path: Path) -> None:
    copied = tmp_path / "elsewhere"
    shutil.copytree(folder, copied)
    os.utime(copied / "config.json", (0, 0))
    (copied / "README.md").write_text("# The same model")
    (copied / ".git").mkdir()
    (copied / ".git" / "HEAD").write_text("ref")

    assert hash_folder(copied) == hash_folder(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "2_Dense/model.safetensors"])
def test_another_byte_is_another_model(folder: Path, name: str) -> None:
    before = hash_folder(folder)
    (folder / name).write_bytes((folder / name).read_bytes() + b" ")

    assert hash_folder(folder) != before


@pytest.mark.parametrize("empty", ["tokenizer.json", "empty.txt"])
def test_an_empty_file_counts(folder: Path, empty: str) -> None:
    before = hash_folder(folder)
    (folder / empty).touch()

    assert hash_folder(folder) != before


@pytest.mark.parametrize(
    "opened",
    [
        lambda path: SentenceTransformersEmbedder(EmbedderConfig(name="local", path=path)),
        lambda path: CrossEncoderReranker(RerankerConfig(path=path)),
    ],
)
def test_without_the_extra_it_says_what_to_type(
    folder: Path, monkeypatch: pytest.MonkeyPatch, opened: Any
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)

    with pytest.raises(ConfigError) as raised:
        opened(folder)

    assert str(raised.value).startswith(
        "a model in a folder needs sentence-transformers; install it with: "
        "pip install 'freshstack_dspy[transformers]'"
    )
