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
    (path / "2_Dense" / "config.json").write_text(
        json.dumps({"activation_function": "torch.nn.modules.activation.Tanh"})
    )
    modules = [
        {"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": "2_Dense", "type": "sentence_transformers.base.modules.dense.Dense"},
    ]
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


@pytest.mark.parametrize(
    "kind",
    [
        "os.system",
        "custom_st.Transformer",
        "sentence_transformersx.A",
        "sentence_transformers.models.Router",
        "sentence_transformers.models.WordEmbeddings",
        "sentence_transformers.util.misc.import_from_string",
    ],
)
def test_a_foreign_module_is_refused(folder: Path, kind: str) -> None:
    (folder / "modules.json").write_text(json.dumps([{"type": kind}]))

    with pytest.raises(ConfigError, match=f"names the module '{kind}', which would run code"):
        checked_folder(folder)


@pytest.mark.parametrize(
    "path", ["..", "../other", "a/../../b", "/etc", "C:/x", "a\\\\b", ".hidden", "a/.b", None, 3]
)
def test_a_module_outside_of_the_folder_or_hidden_is_refused(folder: Path, path: object) -> None:
    module = {"type": "sentence_transformers.models.Dense", "path": path}
    (folder / "modules.json").write_text(json.dumps([module]))

    with pytest.raises(ConfigError, match="is not that of a folder in the model"):
        checked_folder(folder)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("2_Dense/config.json", {"activation_function": "sys.exit"}),
        ("2_Dense/Config.json", {"activation_function": "torch.hub.load"}),
        ("config.json", {"sentence_transformers": {"activation_fn": "os.abort"}}),
        ("config.json", {"sbert_ce_default_activation_function": "os.abort"}),
        ("config_sentence_transformers.json", {"activation_fn": "torch.nn.utils.os.abort"}),
        ("config.json", {"activation_function": ["sys.exit"]}),
    ],
)
def test_a_function_that_a_file_names_is_refused(
    folder: Path, name: str, content: dict[str, Any]
) -> None:
    (folder / name).write_text(json.dumps(content))

    with pytest.raises(ConfigError, match="would run code that is no activation of torch"):
        checked_folder(folder)


@pytest.mark.parametrize(
    "content",
    [
        {"activation_function": "gelu_new"},
        {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}},
        {"activation_fn": None},
        {"_attn_implementation": "sdpa"},
    ],
)
def test_activations_of_the_libraries_are_taken(folder: Path, content: dict[str, Any]) -> None:
    (folder / "config.json").write_text(json.dumps(content))

    assert checked_folder(folder) == folder


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("adapter_config.json", {}, "an adapter, whose base model is somewhere else"),
        ("config.json", {"attn_implementation": "someone/kernel"}, "something outside of it"),
        ("config.json", {"transformers_weights": "../x.bin"}, "something outside of it"),
        (
            "sentence_bert_config.json",
            {"model_args": {"gguf_file": "x.gguf"}},
            "something outside of it",
        ),
        (
            "model.safetensors.index.json",
            {"weight_map": {"a": "../other/model.safetensors"}},
            "not in a .safetensors file of this folder",
        ),
        (
            "model.safetensors.index.json",
            {"weight_map": {"a": "weights.bin"}},
            "not in a .safetensors file of this folder",
        ),
        ("model.safetensors.index.json", [], "it has no weight_map"),
    ],
)
def test_what_is_read_from_elsewhere_is_refused(
    folder: Path, name: str, content: Any, told: str
) -> None:
    (folder / name).write_text(json.dumps(content))

    with pytest.raises(ConfigError, match=told):
        checked_folder(folder)


def test_a_linked_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "2_Dense").rename(tmp_path / "elsewhere")
    (folder / "2_Dense").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(ConfigError, match="2_Dense: a link to a folder"):
        checked_folder(folder)


def test_pickled_weights_beside_others_than_those_read_are_refused(folder: Path) -> None:
    (folder / "2_Dense" / "model.safetensors").rename(folder / "2_Dense" / "other.safetensors")
    (folder / "2_Dense" / "pytorch_model.bin").write_bytes(b"pickle")

    with pytest.raises(ConfigError, match="pickled weights can run code"):
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


def test_pickled_weights_that_a_module_may_read_count(folder: Path) -> None:
    dense = folder / "2_Dense"
    (dense / "model.safetensors").rename(dense / "part.safetensors")
    index = {"weight_map": {"weight": "part.safetensors"}}
    (dense / "model.safetensors.index.json").write_text(json.dumps(index))
    before = hash_folder(checked_folder(folder))
    (dense / "pytorch_model.bin").write_bytes(b"pickle")

    assert hash_folder(checked_folder(folder)) != before


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


@pytest.mark.parametrize("version", ["5.6.1", "2.2", "odd"])
def test_an_old_library_that_calls_what_a_file_names_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    site = tmp_path / "site"
    (site / "sentence_transformers").mkdir(parents=True)
    (site / "sentence_transformers" / "__init__.py").touch()
    about = site / f"sentence_transformers-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Name: sentence-transformers\nVersion: {version}\n")
    monkeypatch.syspath_prepend(site)

    with pytest.raises(ConfigError, match=r"pip install 'sentence-transformers>=6'"):
        CrossEncoderReranker(RerankerConfig(path=folder))
