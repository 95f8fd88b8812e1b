"""Embedders in a folder, run for real where the `transformers` extra is installed."""

import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from freshstack_dspy.config import EmbedderConfig
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.index.connecting import connect_embedders
from freshstack_dspy.index.embedders.sentence_transformers import SentenceTransformersEmbedder
from freshstack_dspy.index.models import Embedder
from freshstack_dspy.lm.vectors import Access

from .hosting import build_config
from .tiny_models import MOST_TOKENS, tiny_embedder

pytest.importorskip(
    "sentence_transformers", reason="needs the transformers extra", exc_type=ImportError
)
pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries' own

TEXTS = ["red", "green blue", "store : budget", "red"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_embedder(tmp_path_factory.mktemp("models") / "tiny")


def embedder(folder: Path, **fields: Any) -> SentenceTransformersEmbedder:
    return SentenceTransformersEmbedder(EmbedderConfig(name="local", path=folder, **fields))


def test_a_folder_gives_vectors_without_a_socket(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    told: list[float] = []
    one: Embedder = embedder(folder)

    found = one.embed_passages(TEXTS, told.append)

    assert found.shape == (4, 16)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[0], found[3], atol=1e-6)
    assert not np.allclose(found[0], found[1])
    assert told == [1.0]


def test_vectors_are_those_of_the_library(folder: Path) -> None:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), local_files_only=True)
    expected = model.encode([f"query : {text}" for text in TEXTS])

    found = embedder(folder, query_prefix="query : ").embed_queries(TEXTS)

    np.testing.assert_allclose(expected, found, atol=1e-6)


def test_the_batch_changes_no_vector(folder: Path) -> None:
    one, other = embedder(folder, batch=1), embedder(folder, batch=64)

    np.testing.assert_allclose(
        one.embed_queries(TEXTS * 9), other.embed_queries(TEXTS * 9), atol=1e-5
    )


def test_dimensions_shorten_the_vectors(folder: Path) -> None:
    found = embedder(folder, dimensions=4).embed_queries(TEXTS)

    np.testing.assert_allclose(embedder(folder).embed_queries(TEXTS)[:, :4], found, atol=1e-6)


def test_texts_that_the_model_cuts_are_counted_and_reported(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fits = " ".join(["red"] * (MOST_TOKENS - 2))
    one = embedder(folder)

    one.embed_passages([fits, f"{fits} blue"], lambda _: None)

    assert one.shortened == 1
    assert [
        record.getMessage() for record in caplog.records if record.name.startswith("fresh")
    ] == [f"local: 1 of 2 texts were cut to {MOST_TOKENS} tokens, which is what the model takes"]


def test_prefixes_dimensions_and_content_are_the_identity(folder: Path) -> None:
    others = [
        embedder(folder, query_prefix="query : "),
        embedder(folder, passage_prefix="passage : "),
        embedder(folder, dimensions=4),
        embedder(folder, max_tokens=16),
    ]

    assert len({one.identity for one in [*others, embedder(folder)]}) == 5
    assert embedder(folder, batch=1).identity == embedder(folder).identity


def test_no_text_has_no_vector(folder: Path) -> None:
    assert embedder(folder).embed_queries([]).shape == (0, 0)


def test_a_model_that_cannot_be_read_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"no weights")

    with pytest.raises(ConfigError, match="the model cannot be loaded"):
        embedder(tmp_path).embed_queries(["a"])


def test_a_build_names_a_folder(folder: Path) -> None:
    (one,) = connect_embedders(
        build_config(embedder=[{"name": "local", "path": folder}]), Access("replay")
    )

    assert one.embed_queries(["red"]).shape == (1, 16)
    one.close()
