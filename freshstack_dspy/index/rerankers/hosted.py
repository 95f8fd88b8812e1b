"""A reranker at a provider, over the client to its model."""

from collections.abc import Sequence

from freshstack_dspy.config import RerankerConfig
from freshstack_dspy.lm.prices import RerankPrice, rerank_price_of
from freshstack_dspy.lm.reply import Numbers, encodable
from freshstack_dspy.lm.request import KEY_VERSION, sha256_of
from freshstack_dspy.lm.vectors import Access, HostedModel, RerankClient

SECTION = "[reranker]"
_MILLION = 1_000_000


class HostedReranker:
    """A LiteLLM rerank model; see `Reranker`."""

    def __init__(self, config: RerankerConfig, access: Access) -> None:
        """Open the client to the model.

        Args:
            config: With `model`.
            access: What is recorded, who pays, and who listens.

        Raises:
            ConfigError: There is a cap on dollars and no price.
            FatalModelError: The endpoint cannot be used, or there is no store to record in.
        """
        assert config.model is not None
        model = HostedModel(
            name=config.model,
            section=SECTION,
            api_base=config.api_base,
            api_key=config.api_key,
            concurrency=config.concurrency,
            timeout=config.timeout,
            retries=config.retries,
        )
        self.at_once = config.concurrency
        self._client = RerankClient(model, access, price=rerank_price(config))
        self.identity = sha256_of(
            {
                "kind": "hosted",
                "key_version": KEY_VERSION,
                "model": config.model,
                "endpoint": model.endpoint,
            }
        )

    def scores(self, text: str, passages: Sequence[str]) -> list[float]:
        """Score each passage, in the given order; see `Reranker`.

        Raises:
            ModelError: There are no scores.
        """
        return self._client.scores(encodable(text), [encodable(each) for each in passages])

    def used(self) -> dict[str, str]:
        """The hash of each list of scores that was given out, by key."""
        return self._client.used()

    def recorded(self, key: str) -> Numbers | None:
        """The recorded scores of a key.

        Raises:
            StoreError: They cannot be read or trusted.
        """
        return self._client.recorded(key)

    def close(self) -> None:
        """Close the provider's connections."""
        self._client.close()


def rerank_price(config: RerankerConfig) -> RerankPrice | None:
    """The price of a hosted reranker, or None where neither the user nor the table names one."""
    if config.price is not None:
        return RerankPrice(token=config.price / _MILLION, unit=0)
    return rerank_price_of(str(config.model))
