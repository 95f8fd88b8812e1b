"""Run a retriever over a collection's corpus with its questions."""

from collections.abc import Callable, Sequence
from pathlib import Path

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.config import FusionConfig
from freshstack_dspy.errors import CollectionError, IndexingError
from freshstack_dspy.index.building import index_folder, silence
from freshstack_dspy.index.fusion import PAPER_FUSION
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.index.lexical_folder import search_lexically
from freshstack_dspy.index.models import Embedder, Reranker
from freshstack_dspy.index.searching import BM25
from freshstack_dspy.index.settings import IndexSettings
from freshstack_dspy.measures.run import Run
from freshstack_dspy.records import Chunk, Query, ScoredChunk, SliceName


def retrieve(  # noqa: PLR0913 - by keyword, and most are left out
    collection: Collection,
    retriever: str,
    *,
    depth: int = 100,
    index_path: Path = Path(".freshstack/index"),
    slices: Sequence[SliceName] | None = None,
    fusion: FusionConfig = PAPER_FUSION,
    embedders: Sequence[Embedder] = (),
    reranker: Reranker | None = None,
    rerank_depth: int = 50,
    progress: Callable[[str, float], None] | None = None,
) -> Run:
    """Retrieve for the questions of a collection.

    Args:
        collection: The collection.
        retriever: `bm25`, `lsa`, the name of an embedder, `hybrid`, which fuses all of these, or
            `hybrid+rerank`.
        depth: How many chunks for each question.
        index_path: Where indexes are kept. That of the collection's build is opened if it holds
            the same chunks; else one is built beside it, and opened from then on. For `bm25` that
            is one of the terms alone, which takes a part of the time.
        slices: As in `Collection.query_ids`.
        fusion: How `hybrid` fuses.
        embedders: Models that give the chunks vectors, beside `lsa`.
        reranker: What `hybrid+rerank` scores chunks with.
        rerank_depth: How many chunks of the hybrid ranking it scores for each question.
        progress: Told how far the stages of an index are, where one has to be built.

    Raises:
        IndexingError: The retriever is unknown, or the corpus cannot be indexed.
        CollectionError: No query is in these slices, or no chunk has a text.
    """
    check_retriever(retriever, embedders, reranker)
    wanted = set(collection.query_ids(slices))
    if not wanted:
        raise CollectionError(
            f"{collection.name}: no query is in the slices "
            f"{', '.join(slices or collection.manifest.evaluated_slices)}; build it with "
            '[filters] unsupported_nuggets = "keep" to take in partly supported ones'
        )
    chunks = list(collection.chunks())
    if not any(chunk.titled.strip() for chunk in chunks):
        raise CollectionError(
            f"{collection.name}: none of its {len(chunks)} chunks has a text, so that there is "
            "nothing to search; import it with its corpus: freshstack import … --corpus PATH"
        )
    settings = _settings(collection)
    queries = [query for query in collection.queries if query.query_id in wanted]
    texts = [query.text for query in queries]
    name, own = collection.name, f"{collection.name}-{collection.manifest.content_hash[:12]}"
    needed = () if retriever == BM25 else embedders

    def holds(name: str) -> bool:
        return _holds(index_path, name, chunks, settings, needed)

    if retriever == BM25 and not holds(name) and not holds(own):
        # Fitting lsa takes most of the time, and nobody has asked for it yet.
        folder = index_folder(index_path, f"{own}-{BM25}")
        rankings = search_lexically(folder, chunks, texts, depth, progress or silence)
        return _run(BM25, queries, rankings)
    # The index of the collection's build may have moved on: it is used, and never changed here.
    if not holds(name):
        name = own
    index = HybridIndex.build_or_open(
        index_path,
        name,
        chunks,
        embedders=needed,
        reranker=reranker,
        rerank_depth=rerank_depth,
        settings=settings,
        progress=progress,
    )
    rankings = index.search(retriever, texts, depth, fusion=fusion)
    return _run(_run_name(retriever, fusion), queries, rankings)


def _run(name: str, queries: Sequence[Query], rankings: Sequence[Sequence[ScoredChunk]]) -> Run:
    return Run(
        name=name,
        rankings={
            query.query_id: tuple(ranking) for query, ranking in zip(queries, rankings, strict=True)
        },
    )


def _holds(
    root: Path,
    name: str,
    chunks: Sequence[Chunk],
    settings: IndexSettings,
    embedders: Sequence[Embedder],
) -> bool:
    try:
        return HybridIndex.open(root, name=name).holds(chunks, settings, embedders)
    except IndexingError:
        return False


def _run_name(retriever: str, fusion: FusionConfig) -> str:
    """Tell runs of one retriever apart that were fused in different ways."""
    fused = retriever.startswith("hybrid") and fusion.method != PAPER_FUSION.method
    return f"{retriever}-{fusion.method}" if fused else retriever


def check_retriever(
    retriever: str, embedders: Sequence[Embedder], reranker: Reranker | None
) -> None:
    """Refuse a name before anything is read or built.

    Raises:
        IndexingError: There is no such retriever with these models.
    """
    names = ["bm25", "lsa", *(embedder.name for embedder in embedders), "hybrid"]
    if retriever == "hybrid+rerank" and reranker is None:
        raise IndexingError(
            f"retriever {retriever!r} needs a reranker: [reranker] in the configuration, or "
            f"reranker=…; without, there are: {', '.join(names)}"
        )
    names += ["hybrid+rerank"] * (reranker is not None)
    if retriever not in names:
        raise IndexingError(
            f"unknown retriever {retriever!r}; there are: {', '.join(names)}, and the names of "
            "embedders: [[embedder]] in the configuration, or embedders=[…]"
        )


def _settings(collection: Collection) -> IndexSettings:
    """As the collection was built with, so that the index it was built with is opened."""
    recorded = collection.manifest.config.get("index")
    told = f"{collection.name}: its manifest has no valid config.index: "
    if recorded is None:
        return IndexSettings()
    if not isinstance(recorded, dict):
        raise CollectionError(f"{told}it is {str(recorded)[:80]!r}; allowed: a table")
    dimensions = recorded.get("dimensions", IndexSettings().dimensions)
    search = recorded.get("search", IndexSettings().search)
    if type(dimensions) is not int:
        raise CollectionError(
            f"{told}dimensions is {str(dimensions)[:80]!r}; allowed: a whole number"
        )
    try:
        return IndexSettings(dimensions, search).checked()  # type: ignore[arg-type]
    except (IndexingError, TypeError) as error:
        raise CollectionError(f"{told}{error}") from None
