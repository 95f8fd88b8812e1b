"""What embedding texts would cost, before anything is sent."""

from collections.abc import Iterable, Sequence

from pydantic import Field

from freshstack_dspy.config import EmbedderConfig
from freshstack_dspy.index.embedders.hosted import HostedEmbedder
from freshstack_dspy.lm.store import Recorded
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.lm.vectors import Access, Wanted, packed
from freshstack_dspy.records import Record


class EmbeddingEstimate(Record):
    """What one embedder would be asked for."""

    name: str
    texts: int = Field(ge=0)
    """Different texts whose vectors are not recorded."""
    recorded: int = Field(ge=0)
    """Different texts whose vectors are."""
    requests: int = Field(ge=0)
    tokens: int = Field(ge=0)
    """Of the texts, as cl100k_base counts; other tokenizers make up to a third more of them."""
    dollars: float | None
    """None where nobody knows the price; 0 of a model in a folder."""


def estimate_embedding(
    config: EmbedderConfig,
    passages: Sequence[str],
    queries: Sequence[str] = (),
    *,
    recorded: Iterable[Recorded | None] = (),
) -> EmbeddingEstimate:
    """Find which texts an embedder would be asked for, and what that costs.

    A model in a folder is asked for nothing.

    Args:
        config: Of the embedder.
        passages: What would be searched.
        queries: What would be searched for, as far as it is known.
        recorded: Where vectors may be, as the store and the bundles.

    Raises:
        ConfigError: A prefix leaves no room.
        FatalModelError: The endpoint cannot be used.
        StoreError: What is recorded cannot be read.
    """
    if config.model is None:
        return EmbeddingEstimate(
            name=config.name, texts=0, recorded=0, requests=0, tokens=0, dollars=0.0
        )
    sources = [source for source in recorded if source is not None]
    embedder = HostedEmbedder(config, Access(mode="replay"))
    wanted: dict[str, Wanted] = {}
    for texts, role in ((passages, embedder.passages), (queries, embedder.queries)):
        for text in embedder.prepared(texts, role).texts:
            ask = embedder.ask_of(text, role)
            wanted[ask.key] = Wanted(ask, text)
    missing = [
        one for key, one in wanted.items() if all(each.numbers(key) is None for each in sources)
    ]
    tokens = sum(count_tokens(one.text) for one in missing)
    return EmbeddingEstimate(
        name=config.name,
        texts=len(missing),
        recorded=len(wanted) - len(missing),
        requests=sum(1 for _ in packed(missing, config.batch)),
        tokens=tokens,
        dollars=tokens * embedder.price.input if embedder.price else None,
    )
