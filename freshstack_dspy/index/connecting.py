"""The embedders and the reranker that a build names, opened."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.index.embedders.hosted import HostedEmbedder
from freshstack_dspy.index.embedders.sentence_transformers import SentenceTransformersEmbedder
from freshstack_dspy.index.rerankers.cross_encoder import CrossEncoderReranker
from freshstack_dspy.index.rerankers.hosted import HostedReranker
from freshstack_dspy.index.searching import Models
from freshstack_dspy.lm.vectors import Access


@contextmanager
def connected(config: BuildConfig, access: Access) -> Iterator[Models]:
    """Open the models of `[[embedder]]` and `[reranker]`, and close them at the end.

    Raises:
        ConfigError: A folder cannot be used, or there is a cap on dollars and no price.
        FatalModelError: An endpoint cannot be used, or there is no store to record in.
    """
    with ExitStack() as opened:
        embedders = connect_embedders(config, access)
        for embedder in embedders:
            opened.callback(embedder.close)
        reranker = connect_reranker(config, access)
        if reranker is None or config.reranker is None:
            yield Models(embedders)
            return
        opened.callback(reranker.close)
        yield Models(embedders, reranker, config.reranker.depth)


def connect_embedders(
    config: BuildConfig, access: Access
) -> list[HostedEmbedder | SentenceTransformersEmbedder]:
    """Open the embedders of `[[embedder]]`, in their order; close each after use.

    Raises:
        ConfigError, FatalModelError: As for `connected`.
    """
    return [
        HostedEmbedder(embedder, access)
        if embedder.path is None
        else SentenceTransformersEmbedder(embedder)
        for embedder in config.embedder
    ]


def connect_reranker(
    config: BuildConfig, access: Access
) -> HostedReranker | CrossEncoderReranker | None:
    """Open the model of `[reranker]`, or give None where there is none; close it after use.

    Raises:
        ConfigError, FatalModelError: As for `connected`.
    """
    if config.reranker is None:
        return None
    if config.reranker.path is not None:
        return CrossEncoderReranker(config.reranker)
    return HostedReranker(config.reranker, access)
