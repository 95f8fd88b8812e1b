"""Building an index, with the vectors that the one before has already."""

import hashlib
import json
import logging
import tempfile
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.metadata import version
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy.config import RETRIEVERS
from freshstack_dspy.corpus.parquet import ChunkFile, chunks_in
from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.lexical import CorpusTerms, LexicalIndex, cut_batches, indexed_text
from freshstack_dspy.index.lsa import MOST_CHUNKS, fit_lsa
from freshstack_dspy.index.models import Embedder, EmbeddingError, HostedEmbedder
from freshstack_dspy.index.ranking import unit_rows
from freshstack_dspy.index.storage import (
    SCHEMA_VERSION,
    IndexManifest,
    Place,
    Settings,
    VectorColumn,
    find,
)
from freshstack_dspy.index.table import (
    ChunkTable,
    content_hash,
    rows_of,
    table_schema,
    vector_array,
)
from freshstack_dspy.lm.workers import packed
from freshstack_dspy.processes import map_in_processes

Notify = Callable[[str, float], None]
"""Is called with the name of a stage and the fraction of it that is done."""
BM25, LSA = "bm25", "lsa"
"""Names of stages, and of what is in the folder of an index."""
CHUNKS = "chunks.parquet"
_EMBEDDED_AT_ONCE = 32_768
_CUT_AT_ONCE = 16 << 20
"""Bytes of chunks whose terms are counted at once: the more, the more words are cut once for all."""
_log = logging.getLogger(__name__)


Vectors = NDArray[np.float32]
VectorLookup = Callable[[Sequence[str]], dict[str, Vectors]]
"""Gives the vectors that are there already, by the hashes of their texts."""


def _nothing(_: Sequence[str]) -> dict[str, Vectors]:
    return {}


@dataclass(frozen=True)
class Draft:
    """What an index is to be made from."""

    chunks: ChunkFile
    settings: Settings
    embedders: Sequence[Embedder] = ()
    report: Notify = lambda _stage, _fraction: None
    map_batches: Callable[..., Iterator[Any]] = map_in_processes
    sha256: str = ""
    """The hash of the chunks, where it is known, so that they need not be read to find their index."""

    @cached_property
    def terms(self) -> str:
        """Hash all that the rankings by `bm25` and `lsa` depend on."""
        settings = self.settings
        depends = [
            *(SCHEMA_VERSION, settings.lexical, settings.k1, settings.b),
            settings.dimensions if settings.lexical == "bm25s" else 0,
            *(version("PyStemmer"), unicodedata.unidata_version, *settings.languages),
            self.sha256 or self.chunks.sums.sha256,
        ]
        return _hash(depends)

    @property
    def approximate(self) -> bool:
        """Whether vectors are searched by an approximate index."""
        return bool(self.embedders) and len(self.chunks) > self.settings.approximate_above

    def in_index(self, manifest: IndexManifest) -> bool:
        """Whether an index has all of this; it may have vectors of more embedders."""
        if manifest.terms != self.terms:
            return False
        has = {(column.name, column.identity, column.sha256) for column in manifest.vectors}
        same = not self.embedders or manifest.approximate == self.approximate
        return same and has.issuperset(self.columns)

    @cached_property
    def hosted(self) -> dict[str, Vectors]:
        """The vectors of hosted embedders as they are recorded now, on which the index depends."""
        hosted = (each for each in self.embedders if isinstance(each, HostedEmbedder))
        return {embedder.name: self._vectors(embedder) for embedder in hosted}

    @cached_property
    def columns(self) -> list[tuple[str, str, str]]:
        """The names of the embedders, and all that their vectors depend on."""
        return sorted((each.name, each.identity, self._sum(each.name)) for each in self.embedders)

    def build(self, place: Place) -> IndexManifest:
        """The manifest of the index of this: of one that is there, or a new one."""
        if not len(self.chunks):
            raise IndexingError(
                "there are no chunks to index; is the corpus empty, or all skipped?"
            )
        names = [*RETRIEVERS, *(embedder.name for embedder in self.embedders)]
        if len(set(names)) < len(names):
            raise IndexingError(f"a name of a retriever is taken: {', '.join(names)}")
        before = find(place)
        if before and self.in_index(before):
            return before
        key = _hash([self.terms, self.approximate, *self.columns])[:32]

        def existing_vectors(embedder: Embedder) -> VectorLookup:
            """What gives the vectors that the index before has of an embedder."""
            for column in before.vectors if before else ():
                if before and column.identity == embedder.identity:
                    return partial(place.table(before.key).vectors, column.name)
            return _nothing

        with place.only_writer():
            manifest = find(place, key) or place.write(
                key, partial(self._fill, key, existing_vectors)
            )
            place.choose(manifest)
        return manifest

    def _fill(
        self,
        key: str,
        existing_vectors: Callable[[Embedder], VectorLookup],
        table: ChunkTable,
        folder: Path | None,
    ) -> IndexManifest:
        """Write the files of an index."""
        identities, vectors = {LSA: self.terms}, dict[str, Vectors]()
        if folder is not None:
            self.chunks.copy(folder / CHUNKS, link=True)
            if self.settings.lexical == "bm25s":
                vectors |= self._write_words(folder)
        for embedder in self.embedders:
            name = embedder.name
            hosted = self.hosted.get(name)
            vectors[name] = (
                self._vectors(embedder, existing_vectors(embedder)) if hosted is None else hosted
            )
            identities[name] = embedder.identity
        if self.embedders or self.settings.lexical == "lance":
            self._write_table(table, {each.name: vectors[each.name] for each in self.embedders})
        sums = self.chunks.sums
        return IndexManifest(
            key=key,
            terms=self.terms,
            lexical=self.settings.lexical,
            languages=self.settings.languages,
            approximate=self.approximate,
            revisions=sums.revisions,
            chunks=sums.chunks,
            tokens=sums.tokens,
            vectors=tuple(
                VectorColumn(
                    name=name,
                    identity=identities[name],
                    dimensions=matrix.shape[1],
                    sha256=self._sum(name),
                )
                for name, matrix in vectors.items()
            ),
        )

    def _write_words(self, folder: Path) -> dict[str, Vectors]:
        """Write `bm25` and `lsa`, and give the vectors of `lsa`, if it is made."""
        cut = partial(cut_batches, languages=self.settings.languages)
        done, size = 0, len(self.chunks)

        def parts() -> Iterator[CorpusTerms]:
            nonlocal done
            packs = packed(self.chunks.batches(), attrgetter("nbytes"), most_size=_CUT_AT_ONCE)
            for part in self.map_batches(cut, packs):
                yield part
                done += part.rows
                self.report("terms", done / size)

        corpus = CorpusTerms.of(parts())
        self.report(BM25, 0)
        LexicalIndex.build(corpus, self.settings.k1, self.settings.b).save(folder / BM25)
        self.report(BM25, 1)
        if not self.settings.dimensions:
            return {}
        if size > MOST_CHUNKS:
            _log.warning(
                f"lsa is left out: it is for at most {MOST_CHUNKS:,} chunks, and there are "
                f"{size:,}; hybrid fuses the others"
            )
            return {}
        self.report(LSA, 0)
        model, vectors = fit_lsa(corpus, self.settings.dimensions, partial(self.report, LSA))
        model.save(folder / LSA, vectors)
        return {LSA: vectors}

    def _write_table(self, table: ChunkTable, vectors: Mapping[str, Vectors]) -> None:
        import pyarrow as pa

        self.report("table", 0)
        lexical, size = self.settings.lexical == "lance", len(self.chunks)
        dimensions = {name: matrix.shape[1] for name, matrix in vectors.items()}
        schema = table_schema(dimensions, lexical=lexical)
        make = partial(rows_of, lexical=lexical, languages=self.settings.languages)

        def rows() -> Iterator[pa.RecordBatch]:
            done = 0
            for batch in self.map_batches(make, self.chunks.batches()):
                block = slice(done, done + len(batch))
                columns = [vector_array(matrix[block]) for matrix in vectors.values()]
                yield pa.RecordBatch.from_arrays([*batch.columns, *columns], schema=schema)
                done += len(batch)
                self.report("table", 0.7 * done / size)

        names = [each.name for each in self.embedders] if self.approximate else []
        table.write(schema, rows(), approximate=names)
        self.report("table", 1)

    def _vectors(self, embedder: Embedder, existing: VectorLookup = _nothing) -> Vectors:
        """The vectors of all chunks, in a file that ends with the array: known ones, or made now."""
        done, size = 0, len(self.chunks)
        self.report(embedder.name, 0)

        def progress(fraction: float) -> None:
            self.report(embedder.name, (done + fraction * len(texts)) / size)

        with tempfile.TemporaryFile() as file:
            for texts in self._texts():
                hashes = [content_hash(text) for text in texts]
                by_hash = existing(list(dict.fromkeys(hashes)))
                pairs = zip(hashes, texts, strict=True)
                if new := {digest: text for digest, text in pairs if digest not in by_hash}:
                    rows = self._embed(embedder, list(new.values()), progress)
                    by_hash |= dict(zip(new, rows, strict=True))
                np.stack([by_hash[digest] for digest in hashes]).tofile(file)
                done += len(texts)
            file.flush()
            self.report(embedder.name, 1)
            return np.memmap(file, np.float32, "r").reshape(size, -1)

    def _embed(
        self, embedder: Embedder, texts: Sequence[str], progress: Callable[[float], None]
    ) -> Vectors:
        """The vectors of texts, of length 1 or 0; the chunk of one that cannot be embedded is named."""
        try:
            rows = embedder.embed_passages(texts, progress)
            return unit_rows(rows, embedder.name, len(texts)).astype(np.float32)
        except EmbeddingError as error:
            wrong = (chunk for chunk in self.chunks if indexed_text(chunk) == error.text)
            raise IndexingError(
                f"embedder {embedder.name!r} cannot embed the chunk {next(wrong).chunk_id!r}: "
                f"{error.why}; leave its file out of the corpus, or embed by another model"
            ) from None

    def _texts(self) -> Iterator[list[str]]:
        """The texts that the chunks are found by, a batch at a time."""
        texts: list[str] = []
        for batch in self.chunks.batches():
            texts += map(indexed_text, chunks_in(batch))
            if len(texts) >= _EMBEDDED_AT_ONCE:
                yield texts
                texts = []
        if texts:
            yield texts

    def _sum(self, name: str) -> str:
        vectors = self.hosted.get(name)
        return "" if vectors is None else hashlib.sha256(vectors.data).hexdigest()


def _hash(depends: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps(depends).encode()).hexdigest()
