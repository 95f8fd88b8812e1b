"""Building a version of an index, with the vectors that the version before has already."""

import hashlib
import json
import logging
import tempfile
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

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
    Folder,
    IndexManifest,
    Place,
    Settings,
    VectorColumn,
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
"""Names of stages, and of what is in the folder of a version."""
CHUNKS = "chunks.parquet"
_EMBEDDED_AT_ONCE = 32_768
_log = logging.getLogger(__name__)


class Draft(NamedTuple):
    """What an index is to be made from."""

    chunks: ChunkFile
    settings: Settings
    embedders: Sequence[Embedder]
    report: Notify = lambda _stage, _fraction: None
    map_batches: Callable[..., Iterator[Any]] = map_in_processes

    def check(self) -> None:
        """Raise an error if no index can be made of it."""
        if not len(self.chunks):
            raise IndexingError(
                "there are no chunks to index; is the corpus empty, or all skipped?"
            )
        names = [*RETRIEVERS, *(embedder.name for embedder in self.embedders)]
        if len(set(names)) < len(names):
            raise IndexingError(f"a name of a retriever is taken: {', '.join(names)}")

    def check_revisions(self) -> None:
        """Raise an error if a source has two revisions: all its chunks are given one."""
        known: dict[str, str | None] = {}
        for source, revision in self.chunks.sources:
            if known.setdefault(source, revision) != revision:
                raise IndexingError(
                    f"source {source!r} has two revisions, {known[source]!r} and {revision!r}; give "
                    "all its chunks one, or each revision a source of its own"
                )

    @property
    def fingerprint(self) -> str:
        """Hash all that `bm25` and `lsa` depend on."""
        return fingerprint_of(self.settings, self.chunks.sums.content)

    @property
    def approximate(self) -> bool:
        """Whether vectors are searched by an approximate index."""
        return bool(self.embedders) and len(self.chunks) > self.settings.approximate_above

    @property
    def needs_table(self) -> bool:
        """Whether there is a LanceDB table: an index of `bm25` alone, by bm25s, has none."""
        settings = self.settings
        return bool(self.embedders or settings.dimensions) or settings.lexical == "lance"

    def is_in(self, place: Place, manifest: IndexManifest) -> bool:
        """Whether an index holds this; its revisions may be others.

        The vectors of a recorded embedder are those that its records hold now.
        """
        held = {(column.name, column.identity) for column in manifest.vectors}
        return (
            manifest.fingerprint == self.fingerprint
            and (not self.embedders or manifest.approximate == self.approximate)
            and all((each.name, each.identity) in held for each in self.embedders)
            and all(
                self._is_recorded_in(place.table(manifest.version), each)
                for each in self.embedders
                if isinstance(each, HostedEmbedder)
            )
        )

    def described(self, manifest: IndexManifest) -> IndexManifest:
        """Put the revisions of now into the manifest of an index that holds this."""
        sums = self.chunks.sums
        return manifest.model_copy(update={"revisions": sums.revisions, "corpus": sums.sha256})

    def vectors(
        self, embedder: Embedder, known: Callable[[Sequence[str]], dict[str, NDArray[np.float32]]]
    ) -> NDArray[np.float32]:
        """The vectors of all chunks, in a file that ends with the array: known ones, or made now."""
        done, size = 0, len(self.chunks)
        self.report(embedder.name, 0)

        def progress(fraction: float) -> None:
            self.report(embedder.name, (done + fraction * len(texts)) / size)

        with tempfile.TemporaryFile() as file:
            for texts in self._texts():
                hashes = [content_hash(text) for text in texts]
                found = known(list(dict.fromkeys(hashes)))
                held: dict[str, NDArray[np.float32]] = {}
                if isinstance(embedder, HostedEmbedder):
                    by_text = zip(texts, hashes, strict=True)
                    held = {text: found[digest] for text, digest in by_text if digest in found}
                    found = {}  # what is recorded decides
                new = {
                    digest: text
                    for digest, text in zip(hashes, texts, strict=True)
                    if digest not in found
                }
                if new:
                    made = self._made(embedder, list(new.values()), progress, held)
                    found |= dict(zip(new, made, strict=True))
                np.stack([found[digest] for digest in hashes]).tofile(file)
                done += len(texts)
            file.flush()
            self.report(embedder.name, 1)
            return np.memmap(file, np.float32, "r").reshape(size, -1)

    def _made(
        self,
        embedder: Embedder,
        texts: Sequence[str],
        progress: Callable[[float], None],
        held: Mapping[str, NDArray[np.float32]],
    ) -> NDArray[np.float32]:
        """The vectors of texts; the chunk of one that cannot be embedded is named."""
        try:
            return embedded(embedder, texts, progress, held)
        except EmbeddingError as error:
            of_it = (chunk for chunk in self.chunks if indexed_text(chunk) == error.text)
            raise IndexingError(
                f"embedder {embedder.name!r} cannot embed the chunk {next(of_it).chunk_id!r}: "
                f"{error.why}; leave its file out of the corpus, or embed by another model"
            ) from None

    def _is_recorded_in(self, table: ChunkTable, embedder: HostedEmbedder) -> bool:
        for texts in self._texts():
            hashes = {text: content_hash(text) for text in texts}
            vectors = table.vectors(embedder.name, list(dict.fromkeys(hashes.values())))
            held = {text: vectors[digest] for text, digest in hashes.items() if digest in vectors}
            recorded = embedded(embedder, texts, lambda _: None, held)
            for text, vector in zip(texts, recorded, strict=True):
                if text not in held or not np.array_equal(held[text], vector):
                    return False
        return True

    def _texts(self) -> Iterator[list[str]]:
        texts: list[str] = []
        for batch in self.chunks.batches():
            texts += map(indexed_text, chunks_in(batch))
            if len(texts) >= _EMBEDDED_AT_ONCE:
                yield texts
                texts = []
        if texts:
            yield texts


def embedded(
    embedder: Embedder,
    texts: Sequence[str],
    progress: Callable[[float], None],
    held: Mapping[str, NDArray[np.float32]],
) -> NDArray[np.float32]:
    """The vectors of texts, of length 1 or 0; those held are recorded where no reply is."""
    hosted = isinstance(embedder, HostedEmbedder)
    made = embedder.embed_passages(texts, progress, **({"held": held} if hosted else {}))
    return unit_rows(made, embedder.name, len(texts)).astype(np.float32)


def build(place: Place, draft: Draft) -> IndexManifest:
    """The manifest of the index of a draft: the one that is there, or a new one."""
    draft.check()
    before = intact(place)
    if before and draft.is_in(place, before) and draft.described(before) == before:
        return before
    draft.check_revisions()
    with place.only_writer():
        before = intact(place)
        if before and draft.is_in(place, before):
            manifest = draft.described(before)
        else:
            if before is None and place.exists():
                _log.warning("%s: damaged, or of another version; it is built again", place.path)
            manifest = _write(place, draft, before)
        place.commit(manifest)
    return manifest


def intact(place: Place) -> IndexManifest | None:
    """The manifest of an index, all of whose files are as they were written."""
    try:
        manifest = place.manifest()
        place.check(manifest)
    except IndexingError:
        return None  # missing, damaged or outdated: nothing is taken from it
    return manifest


def _write(place: Place, draft: Draft, before: IndexManifest | None) -> IndexManifest:
    """Write a version of an index; its manifest commits it."""
    name = place.new_version()
    identities = {LSA: draft.fingerprint}
    vectors: dict[str, NDArray[np.float32]] = {}
    if isinstance(place, Folder):
        draft.chunks.copy(place.folder(name) / CHUNKS, link=True)
    if isinstance(place, Folder) and draft.settings.lexical == "bm25s":
        vectors |= _write_words(place.folder(name), draft)
    for embedder in draft.embedders:
        vectors[embedder.name] = draft.vectors(embedder, _known(embedder, place, before))
        identities[embedder.name] = embedder.identity
    if draft.needs_table:
        _write_table(place.table(name), draft, vectors)
    sums = draft.chunks.sums
    return IndexManifest(
        version=name,
        before=before.version if before else None,
        lexical=draft.settings.lexical,
        languages=draft.settings.languages,
        fingerprint=draft.fingerprint,
        approximate=draft.approximate,
        content=sums.content,
        corpus=sums.sha256,
        revisions=sums.revisions,
        chunks=sums.chunks,
        tokens=sums.tokens,
        vectors=tuple(
            VectorColumn(name=each, identity=identities[each], dimensions=matrix.shape[1])
            for each, matrix in vectors.items()
        ),
        files=place.sums(name),
    )


def _write_words(folder: Path, draft: Draft) -> dict[str, NDArray[np.float32]]:
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


def _write_table(table: ChunkTable, draft: Draft, vectors: dict[str, NDArray[np.float32]]) -> None:
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
    table.index(approximate=[one.name for one in draft.embedders] if draft.approximate else [])
    draft.report("table", 1)


def _known(
    embedder: Embedder, place: Place, before: IndexManifest | None
) -> Callable[[Sequence[str]], dict[str, NDArray[np.float32]]]:
    """What gives the vectors of an embedder in the version before, by the hash of their text."""
    columns = before.vectors if before else ()
    name = next((each.name for each in columns if each.identity == embedder.identity), None)
    if before is None or name is None:
        return lambda _: {}
    return partial(place.table(before.version).vectors, name)


def fingerprint_of(settings: Settings, content: str) -> str:
    """Hash all that `bm25` and `lsa` depend on: revisions are left out, for they change no ranking."""
    dimensions = settings.dimensions if settings.lexical == "bm25s" else 0
    terms_by = [version("PyStemmer"), unicodedata.unidata_version]
    terms_by += settings.languages
    of = [SCHEMA_VERSION, settings.lexical, dimensions, K1, B, *terms_by, content]
    return hashlib.sha256(json.dumps(of).encode()).hexdigest()
