"""Run a retriever over a collection's corpus with its queries."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from freshstack_dspy.collection.retrievers import name_of, run_retriever
from freshstack_dspy.config import DIMENSIONS, FusionConfig, Lexical
from freshstack_dspy.errors import CollectionError, IndexingError
from freshstack_dspy.files import Uri, path_or_uri
from freshstack_dspy.index.building import BM25
from freshstack_dspy.index.fusion import PAPER_FUSION
from freshstack_dspy.index.hybrid import HYBRID, RERANKED, HybridIndex
from freshstack_dspy.index.models import NO_MODELS, Models
from freshstack_dspy.index.storage import Settings
from freshstack_dspy.languages import ENGLISH
from freshstack_dspy.measures.run import PassageRun, Run
from freshstack_dspy.measures.spans import Hit
from freshstack_dspy.progress import Progress, one_part, showing
from freshstack_dspy.records import Query, SliceName
from freshstack_dspy.stored.contents import SLICES
from freshstack_dspy.stored.corpus import CORPUS_FILE
from freshstack_dspy.stored.folder import StoredCollection
from freshstack_dspy.stored.passage_runs import place_all, why_unplaced
from freshstack_dspy.stored.placing import Files


@overload
def retrieve(
    collection: StoredCollection | Path | str,
    retriever: str,
    *,
    depth: int = 100,
    slices: Sequence[SliceName] | None = None,
    models: Models = NO_MODELS,
    fusion: FusionConfig = PAPER_FUSION,
    index_path: Path | str = Path(".freshstack/index"),
    progress: Progress | bool | None = None,
) -> Run: ...
@overload
def retrieve(
    collection: StoredCollection | Path | str,
    retriever: object,
    *,
    depth: int = 100,
    slices: Sequence[SliceName] | None = None,
    progress: Progress | bool | None = None,
) -> Run | PassageRun: ...
def retrieve(
    collection: StoredCollection | Path | str,
    retriever: Any,
    *,
    depth: int = 100,
    slices: Sequence[SliceName] | None = None,
    models: Models = NO_MODELS,
    fusion: FusionConfig = PAPER_FUSION,
    index_path: Path | str = Path(".freshstack/index"),
    progress: Progress | bool | None = None,
) -> Run | PassageRun:
    """Retrieve for the queries of a collection.

    Args:
        collection: A collection, or the path of its folder.
        retriever: `bm25`, `lsa`, the name of an embedder, `hybrid`, which fuses all of these, or
            `hybrid+rerank`. Or one of your own: a function from a text to chunk ids, to (id,
            score), to dictionaries with path, start, end, text, score and unit ("chars" or
            "bytes"), or to documents; or a retriever of LangChain, LlamaIndex, Haystack or
            PyTerrier. Its results are placed in the corpus' files; if all are chunks, it is a run
            of chunks.
        depth: How many chunks for each query. A retriever of your own is asked for so many where
            it has a parameter k or top_k; else it gives what it gives.
        slices: Whose queries; None: every query that has a nugget.
        models: Embedders next to `lsa`, and what `hybrid+rerank` scores chunks with.
        fusion: How `hybrid` fuses.
        index_path: Where indexes are kept. That of the collection's build is opened if it holds
            the same chunks; else one is built next to it, and opened from then on.
        progress: Notified how far the stages of an index are, where one has to be built, and how
            many queries are done. True: bars, or lines in a pipe; False: nothing; by default bars
            on a terminal and in a notebook.

    Raises:
        IndexingError: The retriever is unknown, or the corpus cannot be indexed.
        CollectionError: There is no such query, or no chunk has a text; a retriever of your own
            raises, returns other things or nothing at all, or nothing that is in the corpus.
    """
    if isinstance(retriever, str):
        check_retriever(retriever, models)
    collection = StoredCollection.load(collection)
    queries = queries_of(collection, slices)
    if not isinstance(retriever, str):
        with showing(progress) as shown:
            name = name_of(retriever)
            return retrieve_by(collection, retriever, queries, depth, name, shown)
    if retriever == BM25:
        models = models._replace(embedders=(), reranker=None)
    with showing(progress) as shown:
        index = open_index(collection, retriever, models, index_path, shown)
        with one_part(shown, "search", lambda: f"{len(queries):,} queries"):
            return search(index, queries, retriever, depth, fusion)


def search(
    index: HybridIndex,
    queries: Sequence[Query],
    retriever: str,
    depth: int,
    fusion: FusionConfig = PAPER_FUSION,
) -> Run:
    """Search an index for queries; a run by another fusion than the paper's is called so."""
    rankings = index.search(retriever, [query.text for query in queries], depth, fusion=fusion)
    found = zip(queries, rankings, strict=True)
    return Run(
        name=run_name(retriever, fusion),
        rankings={query.query_id: tuple(ranking) for query, ranking in found},
    )


def run_name(retriever: str, fusion: FusionConfig) -> str:
    """What the run of a retriever is called."""
    fused = retriever in (HYBRID, RERANKED) and fusion.method != PAPER_FUSION.method
    return f"{retriever}-{fusion.method}" if fused else retriever


def retrieve_by(
    collection: StoredCollection,
    retriever: Any,
    queries: Sequence[Query],
    depth: int,
    name: str,
    progress: Progress,
) -> Run | PassageRun:
    """Search with a retriever of one's own, and place what it finds."""
    return _placed(collection, run_retriever(retriever, queries, depth, progress), name)


def queries_of(
    collection: StoredCollection, slices: Sequence[SliceName] | None = None
) -> list[Query]:
    """Give the queries of some slices; None: every query that has a nugget."""
    wanted = set(collection.query_ids(slices or SLICES))
    queries = [query for query in collection.queries if query.query_id in wanted]
    if not queries:
        where = f"in the slices {', '.join(slices)} " if slices else ""
        raise CollectionError(f"{collection.name}: no query {where}has a nugget")
    return queries


def _placed(
    collection: StoredCollection, hits: Mapping[str, Sequence[Hit]], name: str
) -> Run | PassageRun:
    """Make a run of chunks where all hits are chunks, and one of passages otherwise."""
    every = [hit for of in hits.values() for hit in of]
    known = collection.corpus.ids
    if all(hit.chunk_id in known for hit in every):
        # Hits are in descending order: the first score of a chunk is its best.
        best: dict[str, dict[str, float]] = {query: {} for query in hits}
        for query, of in hits.items():
            for hit in of:
                best[query].setdefault(hit.chunk_id or "", hit.score)
        return Run.from_scores(best, name=name)
    files = Files(collection.chunks())
    run = place_all(files, hits, name)
    if lost := sum(map(len, run.unplaced.values())):
        first = next(hit for hit in every if files.place(hit) is None)
        message = (
            f"{lost:,} of {len(every):,} results of {name} cannot be placed in a file of the "
            f"corpus; the first: {why_unplaced(files, first)}"
        )
        if lost == len(every):
            raise CollectionError(message)
        warnings.warn(message, stacklevel=4)
    return run


def check_retriever(retriever: str, models: Models) -> None:
    """Check a retriever's name before anything is read or built."""
    names = [BM25, "lsa", *(embedder.name for embedder in models.embedders), HYBRID]
    names += [RERANKED] * (models.reranker is not None)
    if retriever not in names:
        raise IndexingError(
            f"no retriever {retriever!r}; there are: {', '.join(names)}, and those of "
            "[[embedder]] and [reranker] in a configuration; one of your own is package.module:name"
        )


def open_index(
    collection: StoredCollection,
    retriever: str,
    models: Models,
    root: Path | str,
    progress: Progress,
) -> HybridIndex:
    """Open an index of a collection's chunks, or build one.

    Raises:
        CollectionError: No chunk has a text.
        IndexingError: The chunks cannot be indexed.
    """
    recorded: Any = collection.manifest.config.get("index") or {}
    lexical: Lexical = (
        "lance" if isinstance(path_or_uri(root), Uri) else recorded.get("lexical", "bm25s")
    )
    languages: Any = collection.manifest.config.get("languages") or ENGLISH
    settings = Settings(recorded.get("dimensions", DIMENSIONS), lexical, languages=tuple(languages))
    corpus, chunks = collection.manifest.files.get(CORPUS_FILE, ""), collection.corpus
    own = f"{collection.name}-{collection.manifest.content_hash[:12]}"
    words = settings._replace(dimensions=0)
    places = [(collection.name, settings), (own, settings), *[(own, words)] * (retriever == BM25)]
    for name, wanted in places:
        index = HybridIndex.find(root, name, chunks, wanted, models=models, sha256=corpus)
        if index is not None:
            return index
    if not any(chunk.titled.strip() for chunk in chunks):
        raise CollectionError(
            f"{collection.name}: none of its {len(chunks)} chunks has a text to search; import it "
            "with its corpus: freshstack import … --corpus PATH"
        )
    # The index of the collection's build may be of another state: it is never changed here.
    name, settings = places[-1]
    return HybridIndex.build(
        root,
        name,
        chunks,
        models=models,
        dimensions=settings.dimensions,
        lexical=lexical,
        languages=settings.languages,
        progress=progress,
    )
