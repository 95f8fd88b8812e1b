"""The keys of vectors and scores."""

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.lm.request import EmbeddingRequest, RerankRequest, passages_hash, text_hash

from .conftest import OpenClient

EMBEDDING = EmbeddingRequest(
    model="openai/text-embedding-3-small",
    endpoint="https://api.example.org/v1",
    dimensions=256,
    input_type="search_query",
    text=text_hash("query: Wie groß?"),
)
RERANK = RerankRequest(
    model="cohere/rerank-v3.5",
    endpoint="cohere:default",
    query=text_hash("Wie groß?"),
    passages=passages_hash([text_hash("b"), text_hash("a")]),
    count=2,
)


def test_the_keys_of_known_requests_never_change_by_accident() -> None:
    """All recorded vectors are lost with them: a change raises KEY_VERSION and is announced."""
    assert EMBEDDING.key == "0818310bb0f582c9a128df2a6b75278324ceac6ae71180e7c716a23589eb9539"
    assert RERANK.key == "d645b855b7f5e18c2cebfdc6b519a0bc37d5304daf0a6599a1f46c40f4d9e977"


def test_a_key_is_the_hash_of_the_written_out_request() -> None:
    text = hashlib.sha256("query: Wie groß?".encode()).hexdigest()
    written = (
        '{"dimensions":256,"endpoint":"https://api.example.org/v1","input_type":"search_query",'
        '"key_version":1,"kind":"embedding","model":"openai/text-embedding-3-small",'
        f'"text":"{text}"}}'
    )

    assert hashlib.sha256(written.encode()).hexdigest() == EMBEDDING.key


@pytest.mark.parametrize(
    ("ask", "change"),
    [
        (EMBEDDING, {"model": "openai/other"}),
        (EMBEDDING, {"endpoint": "openai:default"}),
        (EMBEDDING, {"dimensions": None}),
        (EMBEDDING, {"input_type": None}),
        (EMBEDDING, {"text": text_hash("Wie groß?")}),
        (RERANK, {"model": "cohere/other"}),
        (RERANK, {"endpoint": "https://api.example.org"}),
        (RERANK, {"query": text_hash("Wie gross?")}),
        (RERANK, {"passages": passages_hash([text_hash("b")])}),
        (RERANK, {"count": 3}),
    ],
)
def test_every_field_changes_the_key(
    ask: EmbeddingRequest | RerankRequest, change: dict[str, Any]
) -> None:
    other = type(ask).model_validate({**ask.model_dump(), **change})

    assert other.key != ask.key


@given(st.lists(st.text(max_size=3).map(text_hash), min_size=1, max_size=6), st.randoms())
def test_the_order_of_passages_does_not_matter_nor_does_repetition(
    hashes: list[str], draw: Any
) -> None:
    other = [*hashes, draw.choice(hashes)]
    draw.shuffle(other)

    assert passages_hash(hashes) == passages_hash(other)


def test_nothing_that_cannot_change_a_vector_is_in_its_key(open_client: OpenClient) -> None:
    clients = [
        open_client(),
        open_client(batch=1),
        open_client("replay"),
        open_client(model={"concurrency": 3, "timeout": 5.0, "retries": 0}),
    ]

    assert len({client.ask_of("a").key for client in clients}) == 1
