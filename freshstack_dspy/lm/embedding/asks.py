"""What is asked of an embedder or reranker, and the key that its numbers are found by.

What is in a key, by name: the fields of `EmbeddingAsk` or `RerankAsk`, and the key's version.

What is not: whatever cannot change the numbers, as on `lm/request.py`'s list, and with which other
texts a text is sent. So a text has one key, however requests are cut.
"""

import functools
import hashlib
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from freshstack_dspy.lm.request import sha256_of
from freshstack_dspy.records import Record

KEY_VERSION = 1
"""Raised when the same request gets another key, so that old stores say why they miss."""

MOST_PASSAGES = 1000
_Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class EmbeddingAsk(Record):
    """One text that is embedded."""

    kind: Literal["embedding"] = "embedding"
    model: str
    endpoint: str
    dimensions: int | None = None
    """Of the vector, where the model is asked to shorten it."""
    input_type: str | None = None
    """What the text is to the model (`search_query`), for those that must be told."""
    text: _Hash
    """SHA-256 of the text exactly as it is sent: with its prefix, and cut."""

    @functools.cached_property
    def key(self) -> str:
        """SHA-256 over the canonical JSON of every field, as 64 hexadecimal digits."""
        return _key(self)


class RerankAsk(Record):
    """Passages that are scored for one text."""

    kind: Literal["rerank"] = "rerank"
    model: str
    endpoint: str
    query: _Hash
    """SHA-256 of the text."""
    passages: _Hash
    """SHA-256 of the canonical JSON of the list of the passages' SHA-256, sorted, each once."""
    count: int = Field(ge=1, le=MOST_PASSAGES)
    """How many passages these are."""

    @functools.cached_property
    def key(self) -> str:
        """SHA-256 over the canonical JSON of every field, as 64 hexadecimal digits."""
        return _key(self)


NumbersAsk = EmbeddingAsk | RerankAsk


def text_hash(text: str) -> str:
    """SHA-256 of a text's UTF-8, as 64 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def passages_hash(hashes: Iterable[str]) -> str:
    """The hash of a set of passages, from theirs."""
    return sha256_of(sorted(set(hashes)))


def _key(ask: NumbersAsk) -> str:
    return sha256_of({"key_version": KEY_VERSION, **ask.model_dump(mode="json")})
