"""Rerankers: hosted models, whose scores are recorded, and cross-encoders in a folder."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from freshstack_dspy.config import RerankerConfig
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.index.embedders import hash_model, hosted_model, load_model
from freshstack_dspy.lm.prices import RerankPrice, rerank_price_of
from freshstack_dspy.lm.reply import Numbers, encodable
from freshstack_dspy.lm.request import KEY_VERSION, sha256_of
from freshstack_dspy.lm.vectors import Access, RerankClient

_MILLION = 1_000_000
_BATCH = 32


class HostedReranker:
    """A LiteLLM rerank model; see `models.Reranker`."""

    def __init__(self, config: RerankerConfig, access: Access) -> None:
        assert config.model is not None
        model = hosted_model(config, "[reranker]")
        self.at_once = config.concurrency
        self._client = RerankClient(model, access, price=_price(config))
        self.identity = sha256_of(
            {
                "kind": "hosted",
                "key_version": KEY_VERSION,
                "model": config.model,
                "endpoint": model.endpoint,
            }
        )

    def scores(self, text: str, passages: Sequence[str]) -> list[float]:
        """Score each passage, in the given order."""
        return self._client.scores(encodable(text), [encodable(each) for each in passages])

    def used(self) -> Iterator[Numbers]:
        """What was given out, as it is recorded now, by key."""
        return self._client.used()

    def close(self) -> None:
        """Close the provider's connections."""
        self._client.close()


class FolderReranker:
    """A sentence-transformers cross-encoder in a folder; see `models.Reranker`.

    Its scores are not recorded: whoever rebuilds needs the same folder.
    """

    at_once = 1

    def __init__(self, config: RerankerConfig) -> None:
        assert config.path is not None
        self._path = config.path
        self._loaded: Any = None
        self.identity = sha256_of({"kind": "cross-encoder", "files": hash_model(self._path)})

    def scores(self, text: str, passages: Sequence[str]) -> list[float]:
        """Score each passage, in the given order."""
        if not passages:
            return []
        if self._loaded is None:
            self._loaded = load_model(self._path, "CrossEncoder")
        pairs = [(text, passage) for passage in passages]
        found = self._loaded.predict(
            pairs, batch_size=_BATCH, show_progress_bar=False, convert_to_numpy=True
        )
        scores = np.asarray(found, np.float64)
        if scores.shape != (len(passages),):
            raise ConfigError(
                f"{self._path}: a reranker gives one score for a passage, and this model gives "
                f"{scores.size // len(passages)}: it is a classifier"
            )
        return [float(score) for score in scores]

    def close(self) -> None:
        """Let the model go."""
        self._loaded = None


def _price(config: RerankerConfig) -> RerankPrice | None:
    if config.price is not None:
        return RerankPrice(token=config.price / _MILLION, unit=0)
    return rerank_price_of(str(config.model))
