"""Hosted embedders: prefixes, cuts, types of input, identity, and what a build opens and closes."""

from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from freshstack_dspy.config import EmbedderConfig
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.index.connecting import connect_embedders
from freshstack_dspy.index.embedders.hosted import HostedEmbedder
from freshstack_dspy.index.models import Embedder
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.lm.tokens import count_tokens, cut
from freshstack_dspy.lm.vectors import Access, used_figures
from tests.lm.chat_server import ChatServer
from tests.lm.embedding.numbers_server import texts_asked, vector

from .hosting import build_config


def config(**fields: Any) -> EmbedderConfig:
    return EmbedderConfig.model_validate(
        {"name": "small", "model": "openai/scripted", **fields}, strict=False
    )


def embedder(**fields: Any) -> HostedEmbedder:
    return HostedEmbedder(config(**fields), Access("replay"))


def test_passages_and_queries_are_sent_with_their_prefixes(
    server: ChatServer, store: ReplyStore
) -> None:
    settings = config(
        api_base=server.api_base, query_prefix="query: ", passage_prefix="passage: ", batch=2
    )
    told: list[float] = []
    with closing(HostedEmbedder(settings, Access(store=store))) as one:
        checked: Embedder = one
        passages = checked.embed_passages(["a", "b", "c"], told.append)
        queries = checked.embed_queries(["a"])

    assert passages.tolist() == [vector(f"passage: {text}") for text in "abc"]
    assert queries.tolist() == [vector("query: a")]
    assert sorted(texts_asked(server)) == ["passage: a", "passage: b", "passage: c", "query: a"]
    assert told[-1] == 1.0


def test_a_provider_that_must_be_told_is(server: ChatServer, store: ReplyStore) -> None:
    settings = config(model="voyage/scripted", api_base=server.api_base)
    with closing(HostedEmbedder(settings, Access(store=store))) as one:
        one.embed_passages(["a"], lambda _: None)
        one.embed_queries(["a"])

    assert [body["input_type"] for body in server.requests] == ["document", "query"]


def test_texts_that_are_too_long_are_cut_counted_and_reported(
    server: ChatServer, store: ReplyStore, caplog: pytest.LogCaptureFixture
) -> None:
    settings = config(api_base=server.api_base, max_tokens=16, passage_prefix="passage: ")
    with closing(HostedEmbedder(settings, Access(store=store))) as one:
        one.embed_passages(["short", "word " * 40, "word " * 50], lambda _: None)

    assert one.shortened == 2
    assert caplog.messages == [
        "small: 2 of 3 texts were cut to 16 tokens, which is what the model takes"
    ]
    sent = sorted(texts_asked(server))
    assert sent == ["passage: short", "passage: " + "word " * 11 + "word"]
    assert max(map(count_tokens, sent)) <= 16


def test_a_known_model_cuts_at_what_it_takes() -> None:
    one = embedder(model="cohere/embed-english-v3.0")

    (text,) = one.prepared(["word " * 9_000], one.passages).texts

    assert count_tokens(text) == 512


def test_a_prefix_that_leaves_no_room_is_an_error() -> None:
    with pytest.raises(ConfigError, match="leaves no room in 16 tokens; shorten it, or raise max"):
        embedder(max_tokens=16, query_prefix="word " * 16)


@given(st.text(max_size=60), st.integers(1, 12))
def test_a_cut_is_a_beginning_within_the_limit(text: str, tokens: int) -> None:
    found = cut(text, tokens)

    assert text.startswith(found.text)
    assert found.shortened == (found.text != text)
    if count_tokens(text) <= tokens:
        assert not found.shortened
    else:
        assert count_tokens(found.text) <= tokens + 2  # half a character is left out of the end


def test_what_is_behind_a_cut_costs_no_time() -> None:
    assert cut("word " * 4_000_000, 8).text == "word " * 7 + "word"


def test_half_a_character_is_sent_as_a_question_mark() -> None:
    one = embedder()

    assert one.prepared(["a\ud800"], one.queries).texts == ["a\ufffd"]


@pytest.mark.parametrize(
    "change",
    [
        {"model": "openai/other"},
        {"api_base": "http://127.0.0.1:1/v1"},
        {"dimensions": 4},
        {"query_prefix": "q"},
        {"passage_prefix": "p"},
        {"max_tokens": 99},
    ],
)
def test_whatever_changes_a_vector_changes_the_identity(change: dict[str, Any]) -> None:
    assert embedder(**change).identity != embedder().identity


def test_whatever_changes_no_vector_leaves_the_identity() -> None:
    same = [
        embedder(),
        embedder(name="other"),
        embedder(batch=1, concurrency=1, timeout=1, retries=0, price=1.0),
        embedder(api_key="secret"),
    ]

    assert len({one.identity for one in same}) == 1


def test_a_build_opens_its_embedders_and_hands_on_what_they_used(
    server: ChatServer, store: ReplyStore
) -> None:
    build = build_config(
        embedder=[
            {"name": "one", "model": "openai/scripted", "api_base": server.api_base},
            {"name": "two", "model": "openai/other", "api_base": server.api_base},
        ]
    )
    embedders = connect_embedders(build, Access("live", store))
    for one in embedders:
        one.embed_queries(["a"])
        one.close()

    assert [one.name for one in embedders] == ["one", "two"]
    assert [body["model"] for body in server.requests] == ["scripted", "other"]
    assert len(list(used_figures(embedders))) == 2


@pytest.mark.parametrize("name", ["api_base", "api_key", "price", "concurrency"])
def test_a_model_in_a_folder_takes_no_settings_of_providers(name: str) -> None:
    value = "x" if name.startswith("api") else 1

    with pytest.raises(ValidationError, match=f"a model in a folder has no {name}"):
        EmbedderConfig.model_validate({"name": "small", "path": "model", name: value})
