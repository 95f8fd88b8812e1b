"""What embedding would cost, before anything is sent."""

from contextlib import closing
from typing import Any

import pytest

from freshstack_dspy.config import EmbedderConfig
from freshstack_dspy.index.embedders.estimate import estimate_embedding
from freshstack_dspy.index.embedders.hosted import HostedEmbedder
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.lm.vectors import Access
from tests.lm.chat_server import ChatServer


def config(**fields: Any) -> EmbedderConfig:
    return EmbedderConfig.model_validate({"name": "small", "model": "openai/scripted", **fields})


def test_only_texts_that_are_not_recorded_are_counted(
    server: ChatServer, store: ReplyStore
) -> None:
    settings = config(
        api_base=server.api_base, price=2.0, query_prefix="query: ", passage_prefix="passage: "
    )
    with closing(HostedEmbedder(settings, Access(store=store))) as one:
        one.embed_passages(["a", "b"], lambda _: None)
    sent = len(server.requests)

    found = estimate_embedding(settings, ["a", "b", "c", "c"], ["a", "a"], recorded=[store, None])

    assert (found.texts, found.recorded, found.requests) == (2, 2, 1)
    assert found.tokens == count_tokens("passage: c") + count_tokens("query: a")
    assert found.dollars == pytest.approx(found.tokens * 2e-6)
    assert len(server.requests) == sent


def test_a_known_model_has_the_price_of_the_table() -> None:
    found = estimate_embedding(
        config(model="openai/text-embedding-3-small"), ["one two three four"]
    )

    assert (found.texts, found.tokens) == (1, 4)
    assert found.dollars == pytest.approx(4 * 0.02e-6)


def test_a_model_that_nobody_knows_has_no_price() -> None:
    assert estimate_embedding(config(), ["a"]).dollars is None


def test_a_model_in_a_folder_costs_nothing() -> None:
    settings = EmbedderConfig.model_validate({"name": "local", "path": "anywhere"})

    found = estimate_embedding(settings, ["a", "b"])

    assert (found.texts, found.requests, found.dollars) == (0, 0, 0.0)
