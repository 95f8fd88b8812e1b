"""An embedder at a provider: prefixes, cuts and identity over the client to its model."""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy.config import EmbedderConfig
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.lm.prices import Price, longest_input_of, price_of
from freshstack_dspy.lm.reply import Numbers, encodable
from freshstack_dspy.lm.request import KEY_VERSION, EmbeddingRequest, sha256_of
from freshstack_dspy.lm.tokens import count_tokens, cut
from freshstack_dspy.lm.vectors import Access, EmbeddingClient, HostedModel, input_types_of

SECTION = "[[embedder]]"
_MILLION = 1_000_000
_log = logging.getLogger(__name__)


class Role(NamedTuple):
    """What a model is told of a text."""

    prefix: str
    input_type: str | None


class Prepared(NamedTuple):
    """Texts as they are sent."""

    texts: list[str]
    shortened: int
    """How many of them are cut."""


class HostedEmbedder:
    """A LiteLLM embedding model; see `Embedder`.

    Attributes:
        shortened: How many texts were cut so far to what the model takes.
    """

    def __init__(self, config: EmbedderConfig, access: Access) -> None:
        """Open the client to the model.

        Args:
            config: With `model`.
            access: What is recorded, who pays, and who listens.

        Raises:
            ConfigError: There is a cap on dollars and no price, or a prefix leaves no room.
            FatalModelError: The endpoint cannot be used, or there is no store to record in.
        """
        assert config.model is not None
        self.name = config.name
        self.shortened = 0
        self.price = embedding_price(config)
        types = input_types_of(config.model)
        self.passages = Role(config.passage_prefix, types and types.passage)
        self.queries = Role(config.query_prefix, types and types.query)
        self._longest = config.max_tokens or longest_input_of(config.model)
        model = HostedModel(
            name=config.model,
            section=SECTION,
            api_base=config.api_base,
            api_key=config.api_key,
            concurrency=config.concurrency,
            timeout=config.timeout,
            retries=config.retries,
        )
        self._client = EmbeddingClient(
            model, access, dimensions=config.dimensions, batch=config.batch, price=self.price
        )
        self._room = {role: self._room_after(role.prefix) for role in (self.passages, self.queries)}
        self.identity = sha256_of(
            {
                "kind": "hosted",
                "key_version": KEY_VERSION,
                "model": config.model,
                "endpoint": model.endpoint,
                "dimensions": config.dimensions,
                "roles": [self.passages, self.queries],
                "max_tokens": self._longest,
            }
        )

    def embed_passages(
        self, texts: Sequence[str], progress: Callable[[float], None]
    ) -> NDArray[np.float32]:
        """Embed what is searched; see `Embedder`.

        Raises:
            ModelError: Some text has no vector; those that came are recorded.
        """
        return self._embedded(texts, self.passages, progress)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed what is searched for; see `Embedder`.

        Raises:
            ModelError: Some text has no vector; those that came are recorded.
        """
        return self._embedded(texts, self.queries, lambda _: None)

    def prepared(self, texts: Sequence[str], role: Role) -> Prepared:
        """Put the prefix before texts, and cut those that the model would not take."""
        room = self._room[role]
        if room is None:
            return Prepared([role.prefix + encodable(text) for text in texts], 0)
        cuts = [cut(encodable(text), room) for text in texts]
        return Prepared(
            [role.prefix + one.text for one in cuts], sum(one.shortened for one in cuts)
        )

    def ask_of(self, prepared: str, role: Role) -> EmbeddingRequest:
        """What is asked of a text as it is sent; its key is that of the vector."""
        return self._client.ask_of(prepared, role.input_type)

    def used(self) -> dict[str, str]:
        """The hash of each vector that was given out, by key."""
        return self._client.used()

    def recorded(self, key: str) -> Numbers | None:
        """The recorded vector of a key.

        Raises:
            StoreError: It cannot be read or trusted.
        """
        return self._client.recorded(key)

    def close(self) -> None:
        """Close the provider's connections."""
        self._client.close()

    def _embedded(
        self, texts: Sequence[str], role: Role, progress: Callable[[float], None]
    ) -> NDArray[np.float32]:
        ready = self.prepared(texts, role)
        if ready.shortened:
            self.shortened += ready.shortened
            _log.warning(
                "%s: %d of %d texts were cut to %d tokens, which is what the model takes",
                self.name,
                ready.shortened,
                len(texts),
                self._longest,
            )
        return self._client.vectors(ready.texts, input_type=role.input_type, progress=progress)

    def _room_after(self, prefix: str) -> int | None:
        """How many tokens of a text fit behind a prefix, or None where nobody says."""
        if self._longest is None:
            return None
        room = self._longest - (count_tokens(prefix) if prefix else 0)
        if room < 1:
            raise ConfigError(
                f"{SECTION} {self.name!r}: the prefix {prefix[:40]!r} leaves no room in "
                f"{self._longest} tokens; shorten it, or raise max_tokens"
            )
        return room


def embedding_price(config: EmbedderConfig) -> Price | None:
    """The price of a hosted embedder, or None where neither the user nor the table names one."""
    if config.price is not None:
        return Price(input=config.price / _MILLION, output=0)
    return price_of(str(config.model))
