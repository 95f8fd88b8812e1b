"""The embedders and the reranker of a configuration, for work on its index that is no build."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

from freshstack_dspy.config import BuildConfig, Mode
from freshstack_dspy.index.connecting import connected
from freshstack_dspy.index.searching import Models
from freshstack_dspy.lm.batch.jobs import JobFolder
from freshstack_dspy.lm.budget import Account, InFlight
from freshstack_dspy.lm.bundle import Bundles
from freshstack_dspy.lm.client import open_store
from freshstack_dspy.lm.vectors import Access


@contextmanager
def search_models(config: BuildConfig, mode: Mode = "live") -> Iterator[Models]:
    """Connect to the models of `[[embedder]]` and `[reranker]`, under the caps of `[budget]`.

    Raises:
        ConfigError, FatalModelError: As for `index.connecting.connected`.
        StoreError: What is recorded cannot be opened.
    """
    if not asks_models(config):
        with connected(config, Access(mode)) as models:
            yield models
        return
    with ExitStack() as opened:
        store = open_store(config.cache.path, mode)
        if store is not None:
            opened.callback(store.close)
        recorded = opened.enter_context(closing(Bundles(config.cache.bundles)))
        reserved = JobFolder.of(config).reserved()
        account = Account(config.name, config.budget, config.prices, reserved, InFlight())
        yield opened.enter_context(connected(config, Access(mode, store, recorded, account)))


def asks_models(config: BuildConfig) -> bool:
    """Whether any of these models is asked over a network, so that what it says is recorded."""
    embedders = any(embedder.path is None for embedder in config.embedder)
    return embedders or (config.reranker is not None and config.reranker.path is None)
