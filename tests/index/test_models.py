"""Hosted embedders and rerankers, and those in folders where the extra `transformers` is installed."""

import math
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from freshstack_dspy import BuildConfig, ReplyStore
from freshstack_dspy.config import EmbedderConfig, RerankerConfig
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.index.models import (
    Embedder,
    EmbeddingError,
    FolderEmbedder,
    FolderReranker,
    HostedEmbedder,
    HostedReranker,
    connected,
    estimate_embedding,
)
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.lm.vectors import Access
from tests.index.tiny_models import WORDS, tiny_cross_encoder, tiny_embedder
from tests.lm.chat_server import ChatServer
from tests.lm.numbers_server import answer, score, texts_asked, vector

TEXTS = ["red", "green blue", "store : budget", "red"]
PREFIXES = {"query_prefix": "query: ", "passage_prefix": "passage: "}


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(answer).running() as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ReplyStore]:
    with closing(ReplyStore(tmp_path / "cache")) as store:
        yield store


def config(**fields: Any) -> EmbedderConfig:
    return EmbedderConfig.model_validate({"name": "small", "model": "openai/scripted", **fields})


def hosted(**fields: Any) -> HostedEmbedder:
    return HostedEmbedder(config(**fields), Access("replay"))


def test_passages_and_queries_are_sent_with_their_prefixes(
    server: ChatServer, store: ReplyStore
) -> None:
    settings = config(api_base=server.api_base, batch=2, **PREFIXES)
    told: list[float] = []
    with closing(HostedEmbedder(settings, Access(store=store))) as one:
        checked: Embedder = one
        passages = checked.embed_passages(["a", "b", "c"], told.append)
        queries = checked.embed_queries(["a"])

    assert passages.tolist() == [vector(f"passage: {text}") for text in "abc"]
    assert queries.tolist() == [vector("query: a")]
    assert sorted(texts_asked(server)) == ["passage: a", "passage: b", "passage: c", "query: a"]
    assert told[-1] == 1.0


def test_a_provider_is_told_what_a_text_is_for(server: ChatServer, store: ReplyStore) -> None:
    settings = config(model="voyage/scripted", api_base=server.api_base)
    with closing(HostedEmbedder(settings, Access(store=store))) as one:
        one.embed_passages(["a"], lambda _: None)
        one.embed_queries(["a"])

    assert [body["input_type"] for body in server.requests] == ["document", "query"]


def test_texts_that_are_too_long_are_cut_and_reported(
    server: ChatServer, store: ReplyStore, caplog: pytest.LogCaptureFixture
) -> None:
    settings = config(api_base=server.api_base, max_tokens=16, passage_prefix="passage: ")
    with closing(HostedEmbedder(settings, Access(store=store))) as one:
        one.embed_passages(["short", "word " * 40, "word " * 50], lambda _: None)

    assert caplog.messages == [
        "small: 2 of 3 texts were cut to 16 tokens, which is what the model takes"
    ]
    assert sorted(texts_asked(server)) == ["passage: short", "passage: " + "word " * 11 + "word"]


def test_a_prefix_that_leaves_no_room_is_an_error() -> None:
    with pytest.raises(ConfigError, match="leaves no room in 16 tokens; shorten it, or raise max"):
        hosted(max_tokens=16, query_prefix="word " * 16)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"model": "openai/other"}, False),
        ({"api_base": "http://127.0.0.1:1/v1"}, False),
        ({"dimensions": 4}, False),
        ({"query_prefix": "q"}, False),
        ({"passage_prefix": "p"}, False),
        ({"max_tokens": 99}, False),
        ({"name": "other"}, True),
        ({"batch": 1, "concurrency": 1, "timeout": 1, "retries": 0, "price": 1.0}, True),
        ({"api_key": "secret"}, True),
    ],
)
def test_the_identity_is_what_changes_a_vector(change: dict[str, Any], same: bool) -> None:
    assert (hosted(**change).identity == hosted().identity) is same


def test_a_build_opens_its_models_and_hands_on_what_they_used(
    server: ChatServer, store: ReplyStore
) -> None:
    build = BuildConfig.model_validate(
        {
            "name": "domain",
            "out": "collection",
            "queries": {"path": "queries.jsonl"},
            "corpus": [{"name": "docs", "path": "docs"}],
            "embedder": [
                {"name": "one", "model": "openai/scripted", "api_base": server.api_base},
                {"name": "two", "model": "openai/other", "api_base": server.api_base},
            ],
            "reranker": {"model": "infinity/scripted", "api_base": server.api_base, "depth": 7},
        }
    )
    with connected(build, Access("live", store)) as models:
        for one in models.embedders:
            one.embed_queries(["a"])
        assert isinstance(models.reranker, HostedReranker)
        found = models.reranker.scores("q", ["b", "a"])

    assert [one.name for one in models.embedders] == ["one", "two"]
    assert [body["model"] for body in server.requests] == ["scripted", "other", "scripted"]
    assert (found, models.rerank_depth) == ([score("q", "b"), score("q", "a")], 7)
    assert len(list(store.entries())) == 3


def test_an_estimate_counts_only_texts_that_are_not_recorded(
    server: ChatServer, store: ReplyStore
) -> None:
    settings = config(api_base=server.api_base, price=2.0, **PREFIXES)
    with closing(HostedEmbedder(settings, Access(store=store))) as one:
        one.embed_passages(["a", "b"], lambda _: None)
    sent = len(server.requests)

    found = estimate_embedding(settings, ["a", "b", "c", "c"], ["a", "a"], recorded=[store, None])

    assert (found.texts, found.recorded, found.requests) == (2, 2, 1)
    assert found.tokens == count_tokens("passage: c") + count_tokens("query: a")
    assert found.dollars == pytest.approx(found.tokens * 2e-6)
    assert len(server.requests) == sent


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sentence_transformers", reason="needs the transformers extra")
    return tiny_embedder(tmp_path_factory.mktemp("models") / "tiny")


def local(folder: Path, **fields: Any) -> FolderEmbedder:
    return FolderEmbedder(EmbedderConfig(name="local", path=folder, **fields))


@pytest.mark.filterwarnings("ignore")
def test_vectors_of_a_folder_are_those_of_the_library(folder: Path) -> None:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), local_files_only=True)
    expected = model.encode([f"query : {text}" for text in TEXTS])
    told: list[float] = []

    found = local(folder, query_prefix="query : ").embed_queries(TEXTS)

    np.testing.assert_allclose(expected, found, atol=1e-6)
    assert local(folder).embed_passages(TEXTS * 9, told.append).shape == (36, 16)
    assert told == [1.0]
    short = local(folder, dimensions=4, batch=1).embed_queries(TEXTS)
    np.testing.assert_allclose(local(folder).embed_queries(TEXTS)[:, :4], short, atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_a_text_that_a_folder_cannot_embed_is_named(folder: Path, tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    model = library.SentenceTransformer(str(folder), local_files_only=True)
    words = model[0].auto_model.embeddings.word_embeddings.weight.data
    words[WORDS.index("budget")] = math.nan
    model.save(str(tmp_path))

    with pytest.raises(
        EmbeddingError, match="cannot embed 'store : budget': its vector is"
    ) as said:
        local(tmp_path).embed_passages(["red"] * 200 + TEXTS, lambda _: None)

    assert said.value.text == "store : budget"


def test_a_folder_is_known_by_its_files_and_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    for name in ("one", "two"):
        (tmp_path / name / "sub").mkdir(parents=True)
        (tmp_path / name / "config.json").write_text("{}")
        (tmp_path / name / "sub/model.safetensors").write_bytes(b"weights")
        (tmp_path / name / ".cache").write_text(name)
    one = tmp_path / "one"
    changes: list[dict[str, Any]] = [
        {}, {"query_prefix": "q"}, {"passage_prefix": "p"}, {"dimensions": 4}, {"max_tokens": 16},
        {"batch": 1},
    ]  # fmt: skip
    before = local(one).identity

    assert before == local(tmp_path / "two").identity
    assert len({local(one, **change).identity for change in changes}) == 5
    (one / "sub/model.safetensors").write_bytes(b"other")
    assert local(one).identity != before


@pytest.mark.filterwarnings("ignore")
def test_scores_of_a_folder_are_those_of_the_library(tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers", reason="needs the transformers extra")
    folder = tiny_cross_encoder(tmp_path / "tiny")
    passages = ["red", "green blue", "store"]
    model = library.CrossEncoder(str(folder), local_files_only=True)
    expected = model.predict([("query", passage) for passage in passages])
    reranker = FolderReranker(RerankerConfig(path=folder))

    assert reranker.scores("query", passages) == pytest.approx(expected.tolist(), abs=1e-5)
