"""The hybrid index of a corpus: BM25, vectors and their fusion over its chunks."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy.config import (
    APPROXIMATE_ABOVE,
    DIMENSIONS,
    K1,
    B,
    FusionConfig,
    Lexical,
    base_of,
    reranked_names,
)
from freshstack_dspy.corpus.parquet import ChunkFile, ChunkIds, chunks_in
from freshstack_dspy.engines import mapper
from freshstack_dspy.errors import CollectionError, IndexingError
from freshstack_dspy.files import Uri, path_or_uri
from freshstack_dspy.index.building import BM25, CHUNKS, LSA, Draft
from freshstack_dspy.index.fusion import PAPER_FUSION, fuse
from freshstack_dspy.index.lexical import LexicalIndex, indexed_text
from freshstack_dspy.index.lsa import VECTORS, LsaModel
from freshstack_dspy.index.models import HERE, NO_MODELS, Models
from freshstack_dspy.index.ranking import RowScore, nearest, unit_rows
from freshstack_dspy.index.reranking import Mmr, Reranker, Search, rescored, scores_by_place
from freshstack_dspy.index.storage import (
    TABLE,
    Folder,
    IndexManifest,
    Place,
    Settings,
    find,
    place_of,
)
from freshstack_dspy.index.table import ID, ChunkTable, vector_array
from freshstack_dspy.languages import ENGLISH
from freshstack_dspy.lm.reply import encodable
from freshstack_dspy.processes import map_in_processes
from freshstack_dspy.progress import Fractions, Progress, showing
from freshstack_dspy.records import Chunk, ScoredChunk, ranked
from freshstack_dspy.text import terms

HYBRID = "hybrid"
_MUCH, _SHARD = 100_000_000, 50
"""Scores from which on questions are searched for by several processes, and how many of them at a time."""


class HybridIndex:
    """A searchable corpus; what it reads stays as it was opened until the second rebuild.

    Attributes:
        path: The folder of this index, or its URI.
        manifest: What it is made from, and what it holds.
    """

    def __init__(
        self, place: Place, manifest: IndexManifest, models: Models, fused: Sequence[str]
    ) -> None:
        """Use `build` or `open`."""
        self.path: Path | Uri = place.path
        self.manifest = manifest
        self._place = place
        self._folder = place.path / manifest.key if isinstance(place, Folder) else None
        self._models = models
        self._embedders = {embedder.name: embedder for embedder in models.embedders}
        own = (BM25, LSA) if any(column.name == LSA for column in manifest.vectors) else (BM25,)
        self._own, self._fused = own, (*own, *fused)

    @classmethod
    def build(  # noqa: PLR0913 - each is a setting of its own
        cls,
        root: Path | str,
        name: str,
        chunks: Iterable[Chunk] | ChunkFile,
        *,
        models: Models = NO_MODELS,
        dimensions: int = DIMENSIONS,
        lexical: Lexical = "bm25s",
        approximate_above: int = APPROXIMATE_ABOVE,
        languages: Sequence[str] = ENGLISH,
        k1: float = K1,
        b: float = B,
        progress: Progress | bool | None = None,
    ) -> Self:
        """Open the index of these chunks, settings and embedders, or build it.

        Vectors of the same embedder for the same content are taken from the index that is there;
        `bm25` and `lsa` are made anew. Until the new index is whole, others open the old one.

        Args:
            root: The folder, or the URI of the place in an object store, where indexes are kept.
            name: Of this index, and of its folder.
            chunks: In any order, with distinct ids; or a file of them.
            models: What gives the chunks vectors, next to `lsa`, and what reranks; and where.
            dimensions: Of the `lsa` vectors, at most; a small corpus has fewer. 0: no `lsa`.
            lexical: What `bm25` is: `bm25s`, or `lance`, the full-text index of LanceDB, which an
                object store needs and which has no `lsa`.
            approximate_above: With more chunks embedders' vectors are searched approximately.
            languages: By whose stems and stop words terms are made, those of a chunk by its own
                where it is among them; codes as `de`. From an index of
                other languages only vectors are reused.
            k1: How slowly a repeated term saturates in `bm25`, from 0.
            b: How far `bm25` normalises by a chunk's length, from 0 to 1.
            progress: Notified how far each stage is: `terms`, `bm25`, `lsa`, the names of the
                embedders, and `table`; or whether bars show it, by default where a person looks on.

        Raises:
            IndexingError: No chunk, two chunks with one id, no word in any chunk, a place that
                cannot be written, an embedder that gives no vectors, or a k1 or b that is out of
                range or that `lance` does not take.
        """
        place = place_of(path_or_uri(root) / name)
        if lexical == "bm25s" and not isinstance(place, Folder):
            raise IndexingError(f"{place.path}: bm25s needs a folder; name lexical='lance'")
        if not (0 <= k1 < math.inf and 0 <= b <= 1):
            raise IndexingError(f"k1 is {k1} and b {b}; k1 is a number from 0, b from 0 to 1")
        if lexical == "lance" and (k1, b) != (K1, B):
            raise IndexingError(
                f"lexical='lance' has k1 {K1} and b {B} alone, not {k1} and {b}; take 'bm25s'"
            )
        try:
            file = chunks if isinstance(chunks, ChunkFile) else ChunkFile.holding(chunks)
        except CollectionError as error:
            raise IndexingError(str(error)) from None
        settings = Settings(dimensions, lexical, approximate_above, tuple(languages), k1, b)
        with showing(progress) as shown:
            report = Fractions(shown)
            draft = Draft(file, settings, models.embedders, report, mapper(models.engine))
            manifest = draft.build(place)
        return cls(place, manifest, models, [each.name for each in models.embedders])

    @classmethod
    def open(cls, path: Path | str, *, models: Models = NO_MODELS) -> Self:
        """Open the index in a folder.

        Args:
            path: The folder of the index, that of its name, or its URI.
            models: Those of the index that are to be searched by.

        Raises:
            IndexingError: There is none, it is of another version of this program, or it has no
                vectors of one of these embedders as that is now. Or, when it is searched, a file
                of it is damaged.
        """
        place = place_of(path)
        manifest = place.read()
        stored = {each.name: each.identity for each in manifest.vectors if each.name != LSA}
        for embedder in models.embedders:
            if stored.get(embedder.name) != embedder.identity:
                raise IndexingError(
                    f"{path}: no vectors of embedder {embedder.name!r} as it is configured now; "
                    "make them with: freshstack index CONFIG"
                )
        return cls(place, manifest, models, list(stored))

    def reranked_by(self, reranker: Reranker | Mmr | None, depth: int) -> Self:
        """Give the same index with another reranker, which reranks `depth` chunks."""
        models = self._models._replace(reranker=reranker, rerank_depth=depth)
        other = type(self).__new__(type(self))
        vars(other).update(vars(self), _models=models)
        return other

    @classmethod
    def find(
        cls,
        root: Path | str,
        name: str,
        chunks: ChunkFile,
        settings: Settings,
        *,
        models: Models = NO_MODELS,
        sha256: str = "",
    ) -> Self | None:
        """Open an index if it is of these chunks, settings and embedders; `sha256` is the chunks'."""
        place = place_of(path_or_uri(root) / name)
        draft = Draft(chunks, settings, models.embedders, sha256=sha256)
        if (manifest := find(place)) is None or not draft.in_index(manifest):
            return None
        return cls(place, manifest, models, [each.name for each in models.embedders])

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (str(self.path), self.manifest.model_dump_json())

    @property
    def retrievers(self) -> tuple[str, ...]:
        """The names that `search` takes."""
        own = (*self._own, *self._embedders, *([] if self._missing else [HYBRID]))
        return tuple(reranked_names(own, self._models.reranker))

    def search(
        self,
        retriever: str,
        texts: Sequence[str],
        depth: int,
        *,
        fusion: FusionConfig = PAPER_FUSION,
    ) -> list[list[ScoredChunk]]:
        """Rank the chunks for each text: by score descending, then by chunk id.

        Only chunks of positive score are found (a reranker's scores may be any), so a ranking may
        be shorter than `depth`, and a text without any known term finds nothing by `bm25` and `lsa`.

        Args:
            retriever: One of `retrievers`; `hybrid` fuses `bm25`, `lsa` and all embedders, each
                at the same depth; `NAME+rerank` puts the first chunks of another into a new order.
            texts: What to search for.
            depth: How many chunks to give at most, from 1.
            fusion: How `hybrid` fuses.

        Raises:
            IndexingError: The retriever is unknown or lacks its model.
        """
        self._check(retriever)
        if not texts:
            return []
        if (base := base_of(retriever)) != retriever:
            results = self.search(base, texts, self._models.rerank_depth, fusion=fusion)
            return [ranking[:depth] for ranking in self.rerank(texts, results)]
        if retriever != HYBRID:
            return self._by_one(retriever, texts, depth)
        rankings = (self._by_one(name, texts, depth) for name in self._fused)
        return [
            fuse(dict(zip(self._fused, of_text, strict=True)), depth, fusion)
            for of_text in zip(*rankings, strict=True)
        ]

    def rerank(
        self, texts: Sequence[str], rankings: Sequence[Sequence[ScoredChunk]]
    ) -> list[list[ScoredChunk]]:
        """Put the first chunks of rankings, one for each text, into the order of the reranker.

        Raises:
            IndexingError: The index was opened without one, or it cannot rerank.
        """
        reranker, most = self._models.reranker, self._models.rerank_depth
        if reranker is None:
            raise IndexingError(f"{self.path}: to rerank, it needs a [reranker]")
        rankings = [ranking[:most] for ranking in rankings]
        if isinstance(reranker, Mmr):
            return self._by_marginal_relevance(reranker, texts, rankings)
        chunks = self.chunks_by_id(entry.chunk_id for ranking in rankings for entry in ranking)
        passages = {chunk_id: indexed_text(chunk) for chunk_id, chunk in chunks.items()}
        searches = [
            Search(text, {entry.chunk_id: passages[entry.chunk_id] for entry in ranking})
            for text, ranking in zip(texts, rankings, strict=True)
        ]
        return [ranked(scores) for scores in rescored(reranker, searches)]

    def frequencies(self, terms: Iterable[str]) -> dict[str, int]:
        """How many chunks have each of some terms, those of `text.terms`, in path, title or text."""
        if self.manifest.lexical == "lance":
            return self._table.frequencies(terms)
        return {term: self._lexical.frequency(term) for term in terms}

    def chunks_by_id(self, chunk_ids: Iterable[str]) -> dict[str, Chunk]:
        """Give chunks by their ids, in the given order.

        Raises:
            IndexingError: There is none of one of these ids.
        """
        wanted = list(dict.fromkeys(chunk_ids))
        if self._file is not None:
            ids = self._file.ids
            chunks = self._file.chunks([each for each in wanted if each in ids])
        else:
            chunks = {chunk.chunk_id: chunk for chunk in self._table.chunks(wanted)}
        if unknown := next((each for each in wanted if each not in chunks), None):
            raise IndexingError(f"no chunk {unknown!r} in {self.path}")
        return {chunk_id: chunks[chunk_id] for chunk_id in wanted}

    def chunks(self) -> Iterator[Chunk]:
        """Read all chunks, in the order of their ids."""
        for batch in self._batches(Chunk.model_fields):
            yield from chunks_in(batch)

    def file_of(self, chunk_id: str) -> tuple[str, str]:
        """The source and path of a chunk that is there."""
        ids, *parts = self._files
        row = ids.row(chunk_id)
        source, path = (part[row].as_py() for part in parts)
        return source, path

    @cached_property
    def _files(self) -> tuple[ChunkIds, Any, Any]:
        """The ids of all chunks, their sources and their paths."""
        import pyarrow as pa

        table = pa.Table.from_batches(self._batches(["chunk_id", "source", "path"]))
        ids, sources, paths = table.columns
        array = pa.concat_arrays(ids.cast(pa.large_string()).chunks)
        return ChunkIds(array), sources.dictionary_encode(), paths.dictionary_encode()

    def _batches(self, columns: Iterable[str]) -> Iterator[Any]:
        return (self._table if self._file is None else self._file).batches(list(columns))

    def __len__(self) -> int:
        return self.manifest.chunks

    @cached_property
    def _file(self) -> ChunkFile | None:
        """The chunks in a folder, for `bm25` alone: LanceDB takes a second or two to import."""
        return None if self._folder is None else ChunkFile(self._checked(CHUNKS))

    @cached_property
    def _table(self) -> ChunkTable:
        self._place.check(self.manifest, TABLE + ".lance")
        return self._place.table(self.manifest.key)

    @cached_property
    def _lexical(self) -> LexicalIndex:
        return LexicalIndex.load(self._checked(BM25))

    @cached_property
    def _lsa(self) -> LsaModel:
        return LsaModel.load(self._checked(LSA))

    @cached_property
    def _lsa_vectors(self) -> NDArray[np.float32]:
        """Those of all chunks: shape (chunks, dimensions)."""
        vectors: NDArray[np.float32] = np.load(self._checked(LSA) / VECTORS, mmap_mode="r")
        return vectors

    def _checked(self, part: str) -> Path:
        """A file or folder of this index, once it is known to be as it was written."""
        assert self._folder is not None
        self._place.check(self.manifest, part)
        return self._folder / part

    @property
    def _missing(self) -> list[str]:
        """The embedders of the index that it was opened without."""
        return [name for name in self._fused if name not in (*self._own, *self._embedders)]

    def _check(self, retriever: str) -> None:
        if retriever in self.retrievers:
            return
        needed = ""
        if base_of(retriever) in (*self._own, *self._embedders, *self._missing, HYBRID):
            missing = [f"the embedder {name!r} ([[embedder]]" for name in self._missing]
            missing.append("a reranker ([reranker]")
            needed = f" needs {missing[0]} in the configuration)"
        no = "" if needed else "no "
        raise IndexingError(
            f"{no}retriever {retriever!r}{needed}; there are: {', '.join(self.retrievers)}"
        )

    def _by_one(self, retriever: str, texts: Sequence[str], depth: int) -> list[list[ScoredChunk]]:
        """Rank by a retriever that fuses no others; where there is much to do, in many places."""
        vectors = None if retriever == BM25 else self._embedded(retriever, texts)
        rank, spread = partial(self._ranked, retriever, depth), self._spread(retriever, len(texts))
        return rank(texts, vectors) if spread is None else _searched(spread, rank, texts, vectors)

    def _spread(self, retriever: str, questions: int) -> Callable[..., Iterable[Any]] | None:
        """What searches for many questions in many places: a cluster, or processes for bm25s.

        LanceDB takes all cores by itself, and all vectors are compared in one pass.
        """
        engine = self._models.engine
        if self._folder is None:
            apart = retriever == BM25 or self.manifest.approximate
            return mapper(engine) if engine != HERE and apart and questions > _SHARD else None
        by_bm25s = retriever == BM25 and self.manifest.lexical == "bm25s"
        return map_in_processes if by_bm25s and questions * len(self) > _MUCH else None

    def _ranked(
        self, retriever: str, depth: int, texts: Sequence[str], vectors: NDArray[np.float64] | None
    ) -> list[list[ScoredChunk]]:
        """Rank in this process."""
        if retriever == LSA:
            assert vectors is not None
            return self._with_ids(nearest(vectors, [self._lsa_vectors], depth))
        if vectors is not None:
            return self._table.by_vectors(retriever, vectors, depth)
        if self.manifest.lexical == "lance":
            return self._table.by_terms(self._terms(texts), depth)
        return self._with_ids(self._lexical.search(self._terms(texts), depth))

    def _with_ids(self, rankings: Iterable[Sequence[RowScore]]) -> list[list[ScoredChunk]]:
        """Name the chunks of rows of the folder's file."""
        assert self._file is not None
        ids = self._file.ids
        return [[ScoredChunk(ids[row], score) for row, score in rows] for rows in rankings]

    def _terms(self, texts: Sequence[str]) -> list[list[str]]:
        return [terms(text, self.manifest.languages) for text in texts]

    def _embedded(self, retriever: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """What texts are searched for with by vectors: rows of length 1 or 0."""
        if retriever == LSA:
            return self._lsa.embed(self._terms(texts))
        queries = self._embedders[retriever].embed_queries(texts)
        return unit_rows(queries, retriever, len(texts))

    def _by_marginal_relevance(
        self, mmr: Mmr, texts: Sequence[str], rankings: Sequence[Sequence[ScoredChunk]]
    ) -> list[list[ScoredChunk]]:
        if mmr.vectors not in (*self._own[1:], *self._embedders):
            there = ", ".join((*self._own[1:], *self._embedders)) or "none"
            raise IndexingError(
                f"no vectors {mmr.vectors!r} for mmr in {self.path}; there: {there}"
            )
        ids = list(dict.fromkeys(entry.chunk_id for ranking in rankings for entry in ranking))
        if mmr.vectors == LSA and self._file is not None:
            places = [row for each in ids if (row := self._file.ids.row(each)) is not None]
            vectors = dict(zip(ids, self._lsa_vectors[places], strict=True))
        else:
            vectors = self._table.vectors(mmr.vectors, ids, by=ID)
        reranked = []
        for query, ranking in zip(self._embedded(mmr.vectors, texts), rankings, strict=True):
            chunk_ids = [entry.chunk_id for entry in ranking]
            rows = np.array([vectors[each] for each in chunk_ids]).reshape(len(ranking), len(query))
            order = mmr.order(query, unit_rows(rows, mmr.vectors, len(ranking)))
            scores = scores_by_place(order)
            reranked.append(ranked(dict(zip(chunk_ids, scores, strict=True))))
        return reranked


def _searched(
    map_batches: Callable[..., Iterable[Any]],
    rank: Callable[..., list[list[ScoredChunk]]],
    texts: Sequence[str],
    vectors: NDArray[np.float64] | None,
) -> list[list[ScoredChunk]]:
    """Have shards of questions searched for."""
    import pyarrow as pa

    from freshstack_dspy.arrow_batches import search_batch

    columns: dict[str, Any] = {"query": range(len(texts)), "text": map(encodable, texts)}
    if vectors is not None:
        columns["vector"] = vector_array(vectors)
    questions = pa.record_batch(columns)
    shards = (questions.slice(start, _SHARD) for start in range(0, len(texts), _SHARD))
    rankings: list[list[ScoredChunk]] = [[] for _ in texts]
    for batch in map_batches(partial(search_batch, rank=rank), shards):
        rows = (batch[name].to_pylist() for name in ("query", "chunk_id", "score"))
        for query, chunk_id, score in zip(*rows, strict=True):
            rankings[query].append(ScoredChunk(chunk_id, score))
    return rankings


@lru_cache(maxsize=1)
def _opened(path: str, manifest: str) -> HybridIndex:
    """The index of a worker's process, which searches for one batch after the other."""
    return HybridIndex(place_of(path), IndexManifest.model_validate_json(manifest), NO_MODELS, ())
