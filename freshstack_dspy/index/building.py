"""Building an index, with the vectors that the one before has already."""

import hashlib
import json
import logging
import tempfile
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy.config import RETRIEVERS
from freshstack_dspy.corpus.parquet import ChunkFile, chunks_in
from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.lexical import (
    K1,
    B,
    CorpusTerms,
    CutTerms,
    LexicalIndex,
    cut_batch,
    indexed_text,
)
from freshstack_dspy.index.lsa import MOST_CHUNKS, fit_lsa
from freshstack_dspy.index.models import Embedder, EmbeddingError, HostedEmbedder
from freshstack_dspy.index.ranking import unit_rows
from freshstack_dspy.index.storage import (
    SCHEMA_VERSION,
    IndexManifest,
    NewIndex,
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
from freshstack_dspy.processes import map_in_processes

Notify = Callable[[str, float], None]
"""Is called with the name of a stage and the fraction of it that is done."""
BM25, LSA = "bm25", "lsa"
"""Names of stages, and of what is in the folder of an index."""
CHUNKS = "chunks.parquet"
_EMBEDDED_AT_ONCE = 32_768
_log = logging.getLogger(__name__)


Vectors = NDArray[np.float32]
Known = Callable[[Sequence[str]], dict[str, Vectors]]
"""Gives the vectors that are there already, by the hashes of their texts."""


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

    def check(self) -> None:
        """Raise an error if no index can be made of it."""
        if not len(self.chunks):
            raise IndexingError(
                "there are no chunks to index; is the corpus empty, or all skipped?"
            )
        names = [*RETRIEVERS, *(embedder.name for embedder in self.embedders)]
        if len(set(names)) < len(names):
            raise IndexingError(f"a name of a retriever is taken: {', '.join(names)}")

    @cached_property
    def terms(self) -> str:
        """Hash all that the rankings by `bm25` and `lsa` depend on."""
        settings = self.settings
        depends = [
            *(SCHEMA_VERSION, settings.lexical, K1, B),
            settings.dimensions if settings.lexical == "bm25s" else 0,
            *(version("PyStemmer"), unicodedata.unidata_version, *settings.languages),
            self.sha256 or self.chunks.sums.sha256,
        ]
        return _hash(depends)

    @property
    def approximate(self) -> bool:
        """Whether vectors are searched by an approximate index."""
        return bool(self.embedders) and len(self.chunks) > self.settings.approximate_above

    @property
    def needs_table(self) -> bool:
        """Whether there is a LanceDB table: an index of `bm25` alone, by bm25s, has none."""
        settings = self.settings
        return bool(self.embedders or settings.dimensions) or settings.lexical == "lance"

    def in_index(self, manifest: IndexManifest | None, hosted: Mapping[str, Vectors]) -> bool:
        """Whether an index has all of this; it may have vectors of more embedders."""
        if manifest is None or manifest.terms != self.terms:
            return False
        has = {(column.name, column.identity, column.sha256) for column in manifest.vectors}
        same = not self.embedders or manifest.approximate == self.approximate
        return same and has.issuperset(self.columns(hosted))

    def columns(self, hosted: Mapping[str, Vectors]) -> list[tuple[str, str, str]]:
        """Name the embedders and all that their vectors depend on."""
        return sorted(
            (each.name, each.identity, _sum(hosted, each.name)) for each in self.embedders
        )

    def vectors(self, embedder: Embedder, known: Known) -> Vectors:
        """The vectors of all chunks, in a file that ends with the array: known ones, or made now."""
        done, size = 0, len(self.chunks)
        self.report(embedder.name, 0)

        def progress(fraction: float) -> None:
            self.report(embedder.name, (done + fraction * len(texts)) / size)

        with tempfile.TemporaryFile() as file:
            for texts in self._texts():
                hashes = [content_hash(text) for text in texts]
                by_hash = known(list(dict.fromkeys(hashes)))
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
        texts: list[str] = []
        for batch in self.chunks.batches():
            texts += map(indexed_text, chunks_in(batch))
            if len(texts) >= _EMBEDDED_AT_ONCE:
                yield texts
                texts = []
        if texts:
            yield texts


def hosted_vectors(draft: Draft) -> dict[str, Vectors]:
    """The vectors of hosted embedders as they are recorded now, on which the index depends."""
    hosted = (each for each in draft.embedders if isinstance(each, HostedEmbedder))
    return {embedder.name: draft.vectors(embedder, lambda _: {}) for embedder in hosted}


def build(place: Place, draft: Draft) -> IndexManifest:
    """The manifest of the index of a draft: of one that is there, or a new one."""
    draft.check()
    before = find(place)
    hosted = hosted_vectors(draft)
    if before and draft.in_index(before, hosted):
        return before
    key = _hash([draft.terms, draft.approximate, *draft.columns(hosted)])[:32]
    with place.only_writer():
        manifest = find(place, key)
        if manifest is None:
            with place.new(key) as new:
                manifest = new.finished(_write(new, key, draft, hosted, place, before))
        place.choose(manifest)
    return manifest


def _write(
    new: NewIndex,
    key: str,
    draft: Draft,
    hosted: Mapping[str, Vectors],
    place: Place,
    before: IndexManifest | None,
) -> IndexManifest:
    """Write the files of an index."""
    identities, vectors = {LSA: draft.terms}, dict[str, Vectors]()
    if new.folder is not None:
        draft.chunks.copy(new.folder / CHUNKS, link=True)
        if draft.settings.lexical == "bm25s":
            vectors |= _write_words(new.folder, draft)
    for embedder in draft.embedders:
        known = hosted.get(embedder.name)
        if known is None:
            known = draft.vectors(embedder, _known(embedder, place, before))
        vectors[embedder.name], identities[embedder.name] = known, embedder.identity
    if draft.needs_table:
        _write_table(new.table, draft, vectors)
    sums = draft.chunks.sums
    return IndexManifest(
        key=key,
        terms=draft.terms,
        lexical=draft.settings.lexical,
        languages=draft.settings.languages,
        approximate=draft.approximate,
        corpus=sums.sha256,
        revisions=sums.revisions,
        chunks=sums.chunks,
        tokens=sums.tokens,
        vectors=tuple(
            VectorColumn(
                name=name,
                identity=identities[name],
                dimensions=matrix.shape[1],
                sha256=_sum(hosted, name),
            )
            for name, matrix in vectors.items()
        ),
    )


def _write_words(folder: Path, draft: Draft) -> dict[str, Vectors]:
    """Write `bm25` and the model of `lsa`, and give the vectors of `lsa`, if it is made."""
    report = draft.report
    parts = draft.map_batches(
        partial(cut_batch, languages=draft.settings.languages), draft.chunks.batches()
    )
    corpus = CorpusTerms.of(_counted(parts, len(draft.chunks), partial(report, "terms")))
    report(BM25, 0)
    LexicalIndex.build(corpus).save(folder / BM25)
    report(BM25, 1)
    if not draft.settings.dimensions:
        return {}
    if len(draft.chunks) > MOST_CHUNKS:
        _log.warning(
            f"lsa is left out: it is for at most {MOST_CHUNKS:,} chunks, and there are "
            f"{len(draft.chunks):,}; hybrid fuses the others"
        )
        return {}
    report(LSA, 0)
    model, vectors = fit_lsa(corpus, draft.settings.dimensions, partial(report, LSA))
    model.save(folder / LSA)
    return {LSA: vectors}


def _counted(
    parts: Iterable[CutTerms], size: int, report: Callable[[float], None]
) -> Iterator[CutTerms]:
    done = 0
    for part in parts:
        yield part
        done += len(part.counts.indptr) - 1
        report(done / size)


def _write_table(table: ChunkTable, draft: Draft, vectors: dict[str, Vectors]) -> None:
    import pyarrow as pa

    draft.report("table", 0)
    lexical = draft.settings.lexical == "lance"
    sizes = {name: matrix.shape[1] for name, matrix in vectors.items()}
    schema = table_schema(sizes, lexical=lexical)

    def rows() -> Iterator[pa.RecordBatch]:
        done = 0
        make = partial(rows_of, lexical=lexical, languages=draft.settings.languages)
        for batch in draft.map_batches(make, draft.chunks.batches()):
            block = slice(done, done + len(batch))
            columns = [vector_array(matrix[block]) for matrix in vectors.values()]
            yield pa.RecordBatch.from_arrays([*batch.columns, *columns], schema=schema)
            done += len(batch)
            draft.report("table", 0.7 * done / len(draft.chunks))

    table.write(schema, rows())
    table.index(
        approximate=[embedder.name for embedder in draft.embedders] if draft.approximate else []
    )
    draft.report("table", 1)


def _known(embedder: Embedder, place: Place, before: IndexManifest | None) -> Known:
    """What gives the vectors of an embedder in the index before."""
    columns = before.vectors if before else ()
    name = next((each.name for each in columns if each.identity == embedder.identity), None)
    if before is None or name is None:
        return lambda _: {}
    return partial(place.table(before.key).vectors, name)


def _sum(vectors: Mapping[str, Vectors], name: str) -> str:
    return hashlib.sha256(vectors[name].data).hexdigest() if name in vectors else ""


def _hash(depends: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps(depends).encode()).hexdigest()
