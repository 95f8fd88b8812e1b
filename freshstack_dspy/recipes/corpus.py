"""From the configured corpora to an index that is up to date."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from freshstack_dspy.config import BuildConfig, Mode
from freshstack_dspy.corpus.git import fetch
from freshstack_dspy.errors import IndexingError
from freshstack_dspy.files import Uri
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.index.lsa import MOST_CHUNKS
from freshstack_dspy.index.models import NO_MODELS, Models, connected
from freshstack_dspy.index.storage import Database
from freshstack_dspy.languages import ENGLISH
from freshstack_dspy.lm.batch.jobs import JobFolder
from freshstack_dspy.lm.budget import Account
from freshstack_dspy.lm.recorder import Access
from freshstack_dspy.progress import Progress
from freshstack_dspy.recipes.chunking import ChunkedCorpora
from freshstack_dspy.recipes.session import open_replies


def with_repositories(config: BuildConfig, mode: Mode, progress: Progress) -> BuildConfig:
    """Fetch the repository of each corpus that has a URL, and pin its revision to a commit.

    In `replay` nothing is fetched: a branch is then what it was when it was last looked up.

    Raises:
        SourceError: A repository or revision cannot be had.
    """
    remote = sum(corpus.url is not None for corpus in config.corpus)
    if not remote:
        return config
    notes: list[str] = []
    progress.start("repositories", remote)
    found = []
    for corpus in config.corpus:
        found.append(
            fetch(corpus, config.cache.clones, offline=mode == "replay", progress=notes.append)
        )
        if corpus.url is not None:
            progress.advance("repositories")
    offline = [note for note in notes if " as last fetched" in note]
    progress.finish("repositories", "; ".join(offline) or f"{remote} at their commits")
    return config.model_copy(update={"corpus": tuple(found)})


def index_corpora(
    config: BuildConfig,
    cut: ChunkedCorpora,
    *,
    models: Models = NO_MODELS,
    progress: Progress | bool | None = None,
) -> HybridIndex:
    """Open the index of these chunks at `index.path`, or build it.

    Raises:
        IndexingError: The chunks cannot be indexed.
        FreshstackError: An embedder cannot embed; see `errors.py`.
    """
    return HybridIndex.build(
        config.index.path,
        config.name,
        cut.chunks,
        models=models,
        dimensions=config.index.dimensions,
        lexical=config.index.lexical,
        approximate_above=config.index.approximate_above,
        languages=config.languages or ENGLISH,
        progress=progress,
    )


def check_index(config: BuildConfig) -> None:
    """Reach the object store of an index before anything is cut or paid for.

    Raises:
        IndexingError: What is wrong with it, in one line.
    """
    if isinstance(config.index.path, Uri):
        Database(config.index.path / config.name).tables()


def check_retrievers(config: BuildConfig, chunks: int) -> None:
    """Check that there are enough chunks for a pool, before anything is paid for.

    Raises:
        IndexingError: They are too many for `lsa`.
    """
    if "lsa" in config.pool.retrievers and chunks > MOST_CHUNKS:
        raise IndexingError(
            f"pool.retrievers names lsa, which is for at most {MOST_CHUNKS:,} chunks, and there are "
            f'{chunks:,}; write under [pool]: retrievers = ["bm25"], or the name of an [[embedder]]'
        )


def open_index(config: BuildConfig, models: Models = NO_MODELS) -> HybridIndex:
    """Open the index of a configuration as it is.

    Raises:
        IndexingError: There is none, or it has no vectors of these embedders.
    """
    path = config.index.path / config.name
    if isinstance(path, Path) and not path.is_dir():
        raise IndexingError(f"{path}: no index here; build it: freshstack index {config.file}")
    return HybridIndex.open(path, models=models)


@contextmanager
def search_models(config: BuildConfig, mode: Mode = "live") -> Iterator[Models]:
    """Open the models of `[[embedder]]` and `[reranker]`, under the caps of `[budget]`.

    Raises:
        ConfigError, FatalModelError: As for `index.models.connected`.
        StoreError: The recorded replies cannot be opened.
    """
    with ExitStack() as opened:
        access = Access(mode)
        if any(one and one.path is None for one in (*config.embedder, config.reranker)):
            store, bundles = opened.enter_context(open_replies(config, mode))
            reserved = JobFolder.of(config).reserved()
            account = Account(config.name, config.budget, config.prices, reserved)
            access = Access(mode, store, bundles, account)
        yield opened.enter_context(connected(config, access))
