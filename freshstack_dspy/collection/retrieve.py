"""Run a retriever over a collection's corpus with its queries, or with their answers or nuggets."""

import inspect
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import pairwise
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypedDict, Unpack, overload

from freshstack_dspy.config import (
    DIMENSIONS,
    K1,
    RERANKED,
    B,
    FusionConfig,
    Lexical,
    base_of,
    reranked_names,
)
from freshstack_dspy.errors import CollectionError, IndexingError
from freshstack_dspy.files import Uri, path_or_uri
from freshstack_dspy.index.building import BM25
from freshstack_dspy.index.fusion import PAPER_FUSION, fuse_texts
from freshstack_dspy.index.hybrid import HYBRID, HybridIndex
from freshstack_dspy.index.models import NO_MODELS, Models
from freshstack_dspy.index.reranking import Mmr, Search, rescored
from freshstack_dspy.index.storage import Settings
from freshstack_dspy.languages import ENGLISH
from freshstack_dspy.measures.run import PassageRun, Run
from freshstack_dspy.measures.spans import Hit, Place
from freshstack_dspy.progress import NoProgress, Progress, one_part, showing
from freshstack_dspy.records import (
    ORACLES,
    TECHNIQUES,
    Query,
    SliceName,
    Technique,
    ranked,
    searched_with,
)
from freshstack_dspy.registry import imported, is_imported, name_of
from freshstack_dspy.stored.contents import SLICES, searched
from freshstack_dspy.stored.folder import StoredCollection
from freshstack_dspy.stored.manifest import CORPUS_FILE


class RetrieveOptions(TypedDict, total=False):
    """The options of `retrieve`."""

    with_: Technique
    depth: int
    slices: Sequence[SliceName] | None
    models: Models
    fusion: FusionConfig
    index_path: Path | str
    k1: float | None
    b: float | None
    progress: Progress | bool | None


@overload
def retrieve(
    collection: StoredCollection | Path | str, retriever: str, **options: Unpack[RetrieveOptions]
) -> Run: ...
@overload
def retrieve(
    collection: StoredCollection | Path | str, retriever: object, **options: Unpack[RetrieveOptions]
) -> Run | PassageRun: ...
def retrieve(  # noqa: PLR0913 - each is a setting of its own
    collection: StoredCollection | Path | str,
    retriever: Any,
    *,
    with_: Technique = "question",
    depth: int = 100,
    slices: Sequence[SliceName] | None = None,
    models: Models = NO_MODELS,
    fusion: FusionConfig = PAPER_FUSION,
    index_path: Path | str = Path(".freshstack/index"),
    k1: float | None = None,
    b: float | None = None,
    progress: Progress | bool | None = None,
) -> Run | PassageRun:
    """Retrieve for the queries of a collection.

    With `answer` or `nuggets` the run is an oracle, reachable with the answer known (FreshStack
    §3.4). The other techniques search with what a model made of the question when the collection
    was built. Several texts are searched with as the pool was: joined by line breaks, unless its
    `lists` is "fuse" and the retriever is one of the index.

    Args:
        collection: A collection, or the path of its folder.
        retriever: `bm25`, `lsa`, the name of an embedder, `hybrid`, which fuses all of these, or
            any of them with `+rerank`. Or one of your own: a function from a text to chunk ids, to (id,
            score), to dictionaries with path, start, end, text, score and unit ("chars" or
            "bytes"), or to documents; or a retriever of LangChain, LlamaIndex, Haystack or
            PyTerrier. Its results are placed in the corpus' files; if all are chunks, it is a run
            of chunks. `package.module:name` is imported, and may give passages too; what can be
            called without arguments gives the retriever.
        with_: What is searched with: "question", "sub_questions", "closed_book_answer", "answer" or
            "nuggets". If not the question, the run's name says so: `hybrid@nuggets`. Queries
            without such a text are left out, with a warning.
        depth: How many chunks for each query. A retriever of your own is given this number
            if it has a parameter k or top_k; else it decides by itself.
        slices: Whose queries; None: every query that has a nugget.
        models: Embedders next to `lsa`, and what `NAME+rerank` reranks by. What an object of your own
            finds is reranked where there is a reranker.
        fusion: How `hybrid` fuses.
        index_path: Where indexes are kept. That of the collection's build is opened if it holds
            the same chunks; else one is built next to it, and opened from then on.
        k1: Of `bm25`, in place of that of the collection's build; see `HybridIndex.build`.
        b: Of `bm25`, likewise.
        progress: Notified how far the stages of an index are, where one has to be built, and how
            many queries are done. True: bars, or lines in a pipe; False: nothing; by default bars
            on a terminal and in a notebook.

    Raises:
        IndexingError: The retriever is unknown, or the corpus cannot be indexed.
        CollectionError: There is no such query or text, or no chunk has a text; a retriever of your
            own raises, returns other things or nothing at all, or nothing that is in the corpus.
    """
    name = retriever if isinstance(retriever, str) else name_of(retriever)
    if isinstance(retriever, str):
        check_retriever(retriever, models)
        if is_imported(base_of(retriever)):
            name = retriever.rpartition(":")[2]
            if base_of(name) == name:
                models = models._replace(reranker=None)
            retriever = own_retriever(base_of(retriever), "--retriever", Path.cwd())
    elif models.reranker is not None:
        name += RERANKED
    collection = StoredCollection.load(collection)
    texts = texts_of(collection, queries_of(collection, slices), with_)
    if not isinstance(retriever, str):
        name = searched_with(name, with_)
        with showing(progress) as shown:
            return retrieve_by(collection, retriever, texts, depth, name, models, index_path, shown)
    with showing(progress) as shown:
        index = open_index(collection, retriever, models, index_path, shown, k1=k1, b=b)
        with one_part(shown, "search", lambda: f"{len(texts):,} queries"):
            run = search(index, texts, retriever, depth, fusion)
            return Run(searched_with(run.name, with_), run.scores)


Texts = Mapping[str, tuple[str, ...]]
"""By query id, what is searched with: a text, or several whose rankings are fused."""
_WHAT: dict[Technique, str] = {
    "question": "a question",
    "sub_questions": "sub-questions",
    "closed_book_answer": "a closed-book answer",
    "answer": "an answer",
    "nuggets": "nuggets of an answer",
}


def texts_of(
    collection: StoredCollection, queries: Sequence[Query], technique: Technique
) -> dict[str, tuple[str, ...]]:
    """Give what a technique searches with for each query; warn of queries that it has no text for.

    Formats without nuggets give each query itself as one, which is no oracle.

    Raises:
        CollectionError: There is no such technique, or it has no text for any of these queries.
    """
    if technique not in TECHNIQUES:
        allowed = ", ".join(TECHNIQUES)
        raise CollectionError(f"nothing to search with is called {technique!r}; allowed: {allowed}")
    recorded: Any = collection.manifest.config.get("pool") or {}
    lists = recorded.get("lists", "concatenate")
    texts = {
        query_id: searched(by_technique[technique], lists)
        for query_id, by_technique in collection.texts(queries).items()
        if technique in by_technique
        if technique not in ORACLES or by_technique[technique] != by_technique["question"]
    }
    what, total = f"{_WHAT[technique]} to search with", len(queries)
    if not texts:
        how = f"name {technique} in techniques of [pool], and build it again"
        if technique in ORACLES:
            others = [name for name in ORACLES if name != technique]
            how = f"search with {others[0]}, or take a collection of questions with answers"
        raise CollectionError(f"{collection.name}: no query has {what}; {how}")
    if missing := [query.query_id for query in queries if query.query_id not in texts]:
        line = f"{len(missing):,} of {total:,} queries are not in the run, such as {missing[0]!r}"
        warnings.warn(f"{line}: they do not have {what}", stacklevel=3)
    return texts


def search(
    index: HybridIndex,
    texts: Texts,
    retriever: str,
    depth: int,
    fusion: FusionConfig = PAPER_FUSION,
) -> Run:
    """Search an index for queries; a run by another fusion than the paper's is called so."""
    each = partial(index.search, retriever, depth=depth, fusion=fusion)
    rankings = fuse_texts(each, list(texts.values()), depth, fusion)
    return Run(run_name(retriever, fusion), dict(zip(texts, rankings, strict=True)))


def run_name(retriever: str, fusion: FusionConfig) -> str:
    """What the run of a retriever is called."""
    fused = base_of(retriever) == HYBRID and fusion.method != PAPER_FUSION.method
    return f"{retriever}-{fusion.method}" if fused else retriever


def retrieve_by(
    collection: StoredCollection,
    retriever: Any,
    texts: Texts,
    depth: int,
    name: str,
    models: Models,
    index_path: Path | str,
    progress: Progress,
) -> Run | PassageRun:
    """Search with a retriever of one's own, place what it finds, and rerank it if there is a reranker.

    It is a run of chunks where all hits are chunks, and one of passages otherwise.
    """
    joined = {query_id: "\n".join(parts) for query_id, parts in texts.items()}
    reranks = models.reranker is not None
    hits = run_retriever(retriever, joined, models.rerank_depth if reranks else depth, progress)
    every = [hit for query_hits in hits.values() for hit in query_hits]
    chunk_ids = collection.corpus.ids
    check_ids(name, every, chunk_ids)
    run: Run | PassageRun
    if all(hit.chunk_id in chunk_ids for hit in every):
        best: dict[str, dict[str, float]] = {query: {} for query in hits}
        for query, query_hits in hits.items():
            for hit in query_hits:  # in descending order: the first score of a chunk is its best
                best[query].setdefault(hit.chunk_id or "", hit.score)
        run = Run.from_scores(best, name=name)
    else:
        files = collection.files
        run = files.place_all(hits, name)
        if lost := sum(map(len, run.unplaced.values())):
            first = next(hit for hit in every if files.find(hit) is None)
            check_placed(name, lost, len(every), files.why_unplaced(first))
    if not reranks:
        return run
    return _reranked(collection, run, texts, depth, models, index_path, progress)


def _reranked(
    collection: StoredCollection,
    run: Run | PassageRun,
    texts: Texts,
    depth: int,
    models: Models,
    index_path: Path | str,
    progress: Progress,
) -> Run | PassageRun:
    """Put the results of a run into the order of a reranker; those without a place come last.

    Raises:
        IndexingError: It reranks by vectors, and the results are passages.
    """
    joined = ["\n".join(parts) for parts in texts.values()]
    if isinstance(run, Run):
        index = open_index(collection, BM25, models, index_path, progress)
        rankings = index.rerank(joined, [run.rankings[query_id] for query_id in texts])
        best = (ranking[:depth] for ranking in rankings)
        return Run(run.name, dict(zip(texts, best, strict=True)))
    if models.reranker is None or isinstance(models.reranker, Mmr):
        raise IndexingError(f"mmr reranks chunks of the index, and {run.name} has passages")
    files, searches, placed = collection.files, list[Search](), list[list[Place]]()
    for text, query_id in zip(joined, texts, strict=True):
        scores = run.passages.get(query_id, {})
        placed.append(places := sorted(scores, key=lambda place: (-scores[place], place)))
        shown = (f"{place.path}\n{files.passage(place)}" for place in places)
        searches.append(Search(text, {f"{n:04}": each for n, each in enumerate(shown)}))
    passages = {
        query_id: {places[int(n)]: score for n, score in ranked(scores, depth)}
        for query_id, places, scores in zip(
            texts, placed, rescored(models.reranker, searches), strict=True
        )
    }
    lowest = {query: min(scores.values(), default=0.0) - 1 for query, scores in passages.items()}
    unplaced = {query: [lowest[query]] * len(lost) for query, lost in run.unplaced.items()}
    return PassageRun(run.name, passages, unplaced, run.repeated)


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


def check_retriever(retriever: str, models: Models) -> None:
    """Check a retriever's name before anything is read or built."""
    plain = [BM25, "lsa", *(embedder.name for embedder in models.embedders), HYBRID]
    plain += filter(is_imported, [base_of(retriever)])
    names = reranked_names(plain, models.reranker)
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
    *,
    k1: float | None = None,
    b: float | None = None,
) -> HybridIndex:
    """Open an index of a collection's chunks, or build one.

    Raises:
        CollectionError: No chunk has a text.
        IndexingError: The chunks cannot be indexed.
    """
    by_words = base_of(retriever) == BM25 and not isinstance(models.reranker, Mmr)
    if by_words:
        models = models._replace(embedders=())
    recorded: Any = collection.manifest.config.get("index") or {}
    lexical: Lexical = (
        "lance" if isinstance(path_or_uri(root), Uri) else recorded.get("lexical", "bm25s")
    )
    languages: Any = collection.manifest.config.get("languages") or ENGLISH
    settings = Settings(
        recorded.get("dimensions", DIMENSIONS),
        lexical,
        languages=tuple(languages),
        k1=recorded.get("k1", K1) if k1 is None else k1,
        b=recorded.get("b", B) if b is None else b,
    )
    corpus, chunks = collection.manifest.files.get(CORPUS_FILE, ""), collection.corpus
    own = f"{collection.name}-{collection.manifest.content_hash[:12]}"
    words = settings._replace(dimensions=0)
    places = [(collection.name, settings), (own, settings), *[(own, words)] * by_words]
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
        k1=settings.k1,
        b=settings.b,
        progress=progress,
    )


# Retrievers of your own: functions, and objects recognised by their methods; none is imported here

_KINDS = (
    "a list of chunk ids, of (id, score), of dictionaries with path and text or start and end, "
    "or of documents of LangChain, LlamaIndex or Haystack"
)
_PATHS = ("path", "file_path", "source", "filename", "file_name")
"""Under which names the metadata of a document hold the path of its file."""
_IDS = ("chunk_id", "id", "docno")
_CHUNK_ID = re.compile(r"[^/]+/.+_\d+_\d+", re.DOTALL)


def run_retriever(
    retriever: Any,
    texts: Mapping[str, str],
    depth: int,
    progress: Progress | None = None,
) -> dict[str, list[Hit]]:
    """Search for the text of each query id, one after the other; give the best hits of each.

    Raises:
        CollectionError: It is no retriever, raises, returns other things, or nothing for any query.
    """
    progress, search = progress or NoProgress(), OwnSearch(retriever, depth)
    best: dict[str, list[Hit]] = {}
    progress.start("search", len(texts))
    for done, (query_id, text) in enumerate(texts.items()):
        best[query_id] = search(text, f"at query {query_id!r}, after {done} of {len(texts)}")
        progress.advance("search")
    progress.finish("search", f"{len(texts):,} queries")
    if not any(best.values()):
        raise CollectionError(f"{search.name} returned nothing for any of {len(texts)} queries")
    search.warn_if_reversed()
    return best


class OwnSearch:
    """A retriever of one's own: from a text to its best hits, the best first.

    Raises:
        CollectionError: It is no retriever, raises, or returns other things.
    """

    def __init__(self, retriever: Any, depth: int, name: str | None = None) -> None:
        self.name, self._depth = name or name_of(retriever), depth
        self._search, self._rises = search_of(retriever, depth), set[bool]()

    def __call__(self, text: str, where: str) -> list[Hit]:
        """Search for one text; errors say `where`."""
        try:
            results = self._search(text)
            if isinstance(results, Iterator):
                results = list(results)
        except Exception as error:  # a retriever may raise anything
            fault = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise CollectionError(f"{self.name} raised {fault}, {where}") from error
        try:
            hits = hits_of(results)
        except CollectionError as error:
            raise CollectionError(f"{self.name} returned {error}, {where}") from None
        steps = (second.score - first.score for first, second in pairwise(hits))
        self._rises.update(step > 0 for step in steps if step)
        return sorted(hits, key=lambda hit: -hit.score)[: self._depth]

    def warn_if_reversed(self) -> None:
        """Warn of scores that only rise, as distances do."""
        if self._rises == {True}:
            warnings.warn(
                f"the results of {self.name} come with the lowest score first, and the highest "
                "counts as the best: where scores are distances, return them negated, or without "
                "scores",
                stacklevel=2,
            )


def check_ids(name: str, hits: Sequence[Hit], chunk_ids: Set[str]) -> None:
    """Check that results that are ids alone are not those of another version of the corpus.

    Raises:
        CollectionError: Ids look like those of chunks of this corpus, which lacks them.
    """
    bare = (hit.chunk_id for hit in hits if hit.path is None and hit.text is None)
    lacking = [id_ for id_ in bare if id_ and _CHUNK_ID.fullmatch(id_) and id_ not in chunk_ids]
    sources = {id_.partition("/")[0] for id_ in chunk_ids} if lacking else ()
    if stale := [id_ for id_ in lacking if id_.partition("/")[0] in sources]:
        examples = " and ".join(map(repr, [*dict.fromkeys(stale)][:2]))
        raise CollectionError(
            f"{len(stale):,} of {len(hits):,} results of {name} are ids of chunks that this corpus "
            f"lacks, such as {examples}: its index is of another version of the documents or of "
            "other chunks. Index the collection's own, `Collection.load(PATH).chunks()`; or "
            "return passages, with path and text or offsets"
        )


def check_placed(name: str, lost: int, results: int, why: str) -> None:
    """Warn of results without a place in the corpus.

    Raises:
        CollectionError: None has one.
    """
    if lost:
        message = (
            f"{lost:,} of {results:,} results of {name} cannot be placed in a file of the corpus; "
            f"the first: {why}"
        )
        if lost == results:
            raise CollectionError(message)
        warnings.warn(message, stacklevel=3)


def own_retriever(name: str, what: str, folder: Path) -> Any:
    """Import a retriever; what can be called without arguments is called, and gives it.

    Raises:
        ConfigError: There is no such module or object; `what` names it.
    """
    retriever = imported(name, what, folder)
    try:
        inspect.signature(retriever).bind()
    except (TypeError, ValueError):  # no function, or it needs the text
        return retriever
    return retriever()


def search_of(retriever: Any, depth: int) -> Callable[[str], Any]:
    """Give the function from a text to results that a retriever has, with its number of results."""
    if isinstance(retriever, type):
        raise CollectionError(f"{name_of(retriever)} is a class; give an object of it")
    if hasattr(retriever, "transform") and hasattr(retriever, "search"):  # PyTerrier
        return partial(retriever.search)
    if hasattr(retriever, "invoke"):  # LangChain
        settings = getattr(retriever, "search_kwargs", None)  # of a vector store's retriever
        k = {} if settings is None or "k" in settings else {"k": depth}
        return partial(retriever.invoke, **k)
    if hasattr(retriever, "retrieve"):  # LlamaIndex
        return partial(retriever.retrieve)
    if hasattr(retriever, "run"):  # Haystack
        run = partial(retriever.run, **_number_of_results(retriever.run, depth))
        return lambda text: run(query=text)["documents"]
    if callable(retriever):
        return partial(retriever, **_number_of_results(retriever, depth))
    hint = "; did you mean its .as_retriever()?" if hasattr(retriever, "as_retriever") else ""
    raise CollectionError(
        f"{name_of(retriever)} is no retriever{hint}; give a function from a text to results, or "
        "a retriever of LangChain, LlamaIndex, Haystack or PyTerrier"
    )


def _number_of_results(function: Callable[..., Any], depth: int) -> dict[str, int]:
    try:
        names = inspect.signature(function).parameters
    except (TypeError, ValueError):  # written in C
        return {}
    return next(({name: depth} for name in ("k", "top_k") if name in names), {})


def hits_of(results: Any) -> list[Hit]:
    """Take results of any known kind; where one has no score, their order counts.

    Raises:
        CollectionError: They are of another kind; it says of which.
    """
    if hasattr(results, "itertuples"):  # a frame of pandas
        results = results.to_dict("records")
    if isinstance(results, str | bytes | Mapping) or not isinstance(results, Iterable):
        raise CollectionError(f"{_named(results)}, and not {_KINDS}")
    hits = [_hit(result) for result in results]
    if any(math.isnan(hit.score) for hit in hits):
        return [hit._replace(score=-float(rank)) for rank, hit in enumerate(hits, 1)]
    return hits


def _hit(result: Any) -> Hit:
    """Take one result; its score is NaN where it has none."""
    if isinstance(result, tuple | list) and len(result) == 2 and isinstance(result[1], Real):
        return _hit(result[0])._replace(score=_score(result[1]))
    if isinstance(result, str):
        return Hit(math.nan, chunk_id=result)
    values = result if isinstance(result, Mapping) else _of_document(result)
    if isinstance(metadata := values.get("metadata"), Mapping):  # LangChain's, as JSON
        values = {"path": _first(metadata, _PATHS), "start": metadata.get("start_index"), **values}
    chunk_id, path = _first(values, _IDS), _first(values, ("path", "file_path"))
    text, unit = _first(values, ("text", "page_content", "content")), values.get("unit", "chars")
    if chunk_id is None and path is None and text is None:
        names = ", ".join(map(str, values)) or "nothing"
        raise CollectionError(f"a dictionary with {names}, without path, text or chunk_id")
    if unit not in ("chars", "bytes"):
        raise CollectionError(f"unit {unit!r}; it is 'chars' or 'bytes'")
    start, end = _offset(values.get("start")), _offset(values.get("end"))
    return Hit(
        _score(values.get("score")), chunk_id, values.get("source"), path, text, start, end, unit
    )


def _of_document(result: Any) -> dict[str, Any]:
    """Give a document of a framework as a dictionary."""
    if hasattr(result, "page_content"):  # LangChain
        text, metadata, start = result.page_content, result.metadata, "start_index"
    elif hasattr(result, "node"):  # LlamaIndex
        node = result.node
        text, start = node.get_content(), "start_char_idx"
        metadata = {start: getattr(node, start, None), "id": node.node_id, **node.metadata}
    elif hasattr(result, "content") and hasattr(result, "meta"):  # Haystack
        text, metadata, start = result.content, result.meta, "split_idx_start"
    else:
        raise CollectionError(f"a list of {type(result).__name__}, and not {_KINDS}")
    return {
        "chunk_id": _first({"id": getattr(result, "id", None), **metadata}, _IDS),
        "path": _first(metadata, _PATHS),
        "text": text,
        "start": metadata.get(start),
        "score": getattr(result, "score", None),
    }


def _first(values: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """The first that is there, as text: ids of other systems are often numbers."""
    return next((str(values[name]) for name in names if values.get(name) is not None), None)


def _offset(value: Any) -> int | None:
    """An offset, if it is one: unknown ones are None, -1, or NaN in a frame."""
    return int(value) if isinstance(value, Integral) and int(value) >= 0 else None


def _score(value: Any) -> float:
    if value is None:
        return math.nan
    if not isinstance(value, Real):
        raise CollectionError(f"the score {value!r}, which is no number")
    return float(value)


def _named(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
