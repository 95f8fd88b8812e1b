"""Building a version of an index, with the vectors that the version before has already."""

import hashlib
import json
import logging
import unicodedata
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy.config import RETRIEVERS
from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.lexical import K1, B, CorpusTerms, LexicalIndex, indexed_text
from freshstack_dspy.index.lsa import fit_lsa
from freshstack_dspy.index.models import Embedder, HostedEmbedder
from freshstack_dspy.index.ranking import unit_rows
from freshstack_dspy.index.storage import (
    MANIFEST,
    SCHEMA_VERSION,
    IndexedFile,
    IndexManifest,
    VectorColumn,
    new_version,
    only_writer,
    read_manifest,
    remove_versions,
    write_manifest,
)
from freshstack_dspy.index.table import ChunkTable
from freshstack_dspy.records import Chunk

Notify = Callable[[str, float], None]
"""Is called with the name of a stage and the fraction of it that is done."""
BM25, LSA, TABLE = "bm25", "lsa", "table"
"""Names of stages, and of what is in the folder of a version."""
VECTORS = "vectors.npy"
"""The vectors of `lsa`, beside its model, as they are in the table too."""
_log = logging.getLogger(__name__)


class Draft:
    """What an index is to be made from; chunks, texts and hashes are in the order of the ids."""

    def __init__(
        self,
        chunks: Sequence[Chunk],
        dimensions: int,
        embedders: Sequence[Embedder],
        files: Sequence[IndexedFile] = (),
        cut_by: str = "",
        report: Notify | None = None,
    ) -> None:
        if not chunks:
            raise IndexingError(
                "there are no chunks to index; is the corpus empty, or all skipped?"
            )
        names = [*RETRIEVERS, *(embedder.name for embedder in embedders)]
        if len(set(names)) < len(names):
            raise IndexingError(f"a name of a retriever is taken: {', '.join(names)}")
        self.chunks = sorted(chunks, key=lambda chunk: chunk.chunk_id)
        self.texts = [indexed_text(chunk) for chunk in self.chunks]
        self.hashes = [hashlib.sha256(text.encode()).hexdigest() for text in self.texts]
        self.fingerprint = _fingerprint(self.chunks, dimensions)
        self.revisions = _revisions(self.chunks)
        self.dimensions = dimensions
        self.embedders = embedders
        with_chunks = {(chunk.source, chunk.path) for chunk in chunks}
        self.files = sorted(file for file in files if (file.source, file.path) in with_chunks)
        self.cut_by = cut_by
        self.report: Notify = report or (lambda _stage, _fraction: None)
        self._recorded: dict[str, NDArray[np.float32]] = {}

    def recorded(self, embedder: Embedder) -> NDArray[np.float32]:
        """The vectors of all chunks by an embedder whose replies are recorded; asked for once."""
        if embedder.name not in self._recorded:
            self._recorded[embedder.name] = _embedded(embedder, self.texts, self.report)
        return self._recorded[embedder.name]

    def is_in(self, folder: Path, manifest: IndexManifest) -> bool:
        """Whether an index holds this; its files and revisions may be others.

        The vectors of a recorded embedder are those that its records hold now.
        """
        vectors = {(column.name, column.identity) for column in manifest.vectors}
        table = ChunkTable(folder / manifest.version / TABLE)
        return (
            manifest.fingerprint == self.fingerprint
            and all((each.name, each.identity) in vectors for each in self.embedders)
            and all(
                np.array_equal(table.matrix(each.name), self.recorded(each))
                for each in self.embedders
                if isinstance(each, HostedEmbedder)
            )
        )

    def described(self, manifest: IndexManifest) -> IndexManifest:
        """Put files and revisions of now into the manifest of an index that holds this."""
        changes: dict[str, object] = {"revisions": self.revisions}
        if self.files:
            changes |= {"files": tuple(self.files), "cut_by": self.cut_by}
        return manifest.model_copy(update=changes)


def build(folder: Path, draft: Draft) -> IndexManifest:
    """The manifest of the index of a draft: the one that is there, or a new one."""
    before = _readable(folder)
    if before and draft.is_in(folder, before) and draft.described(before) == before:
        return before
    with only_writer(folder):
        before = _readable(folder)
        if before and draft.is_in(folder, before):
            manifest = draft.described(before)
        else:
            if before is None and (folder / MANIFEST).exists():
                _log.warning("%s: damaged, or of another version; it is built again", folder)
            manifest = _write(folder, draft, before)
        write_manifest(folder, manifest)
        remove_versions(folder, but={each.version for each in (manifest, before) if each})
    return manifest


def _readable(folder: Path) -> IndexManifest | None:
    try:
        return read_manifest(folder)
    except IndexingError:
        return None  # missing, damaged or outdated: nothing is taken from it


def _write(folder: Path, draft: Draft, before: IndexManifest | None) -> IndexManifest:
    """Write a version of an index; its manifest commits it."""
    report = draft.report
    corpus = CorpusTerms.of(draft.texts, lambda done: report("terms", done))
    version = new_version(folder)
    report(BM25, 0)
    LexicalIndex.build(corpus).save(version / BM25)
    report(BM25, 1)
    vectors: dict[str, NDArray[np.float32]] = {}
    identities = {LSA: draft.fingerprint}
    if draft.dimensions:
        report(LSA, 0)
        model, vectors[LSA] = fit_lsa(corpus, draft.dimensions, lambda done: report(LSA, done))
        model.save(version / LSA)
        np.save(version / LSA / VECTORS, vectors[LSA])
    for embedder in draft.embedders:
        known = _known_vectors(embedder, folder, before)
        vectors[embedder.name] = _vectors(embedder, draft, known)
        identities[embedder.name] = embedder.identity
    report(TABLE, 0)
    ChunkTable.create(version / TABLE, draft.chunks, draft.hashes, vectors)
    report(TABLE, 1)
    return IndexManifest(
        version=version.name,
        fingerprint=draft.fingerprint,
        cut_by=draft.cut_by,
        files=tuple(draft.files),
        revisions=draft.revisions,
        chunks=len(draft.chunks),
        tokens=sum(chunk.tokens for chunk in draft.chunks),
        vectors=tuple(
            VectorColumn(name=name, identity=identities[name], dimensions=matrix.shape[1])
            for name, matrix in vectors.items()
        ),
    )


def _known_vectors(
    embedder: Embedder, folder: Path, before: IndexManifest | None
) -> dict[str, NDArray[np.float32]]:
    """The vectors of an embedder in the version before, by the hash of their text."""
    columns = before.vectors if before else ()
    name = next((each.name for each in columns if each.identity == embedder.identity), None)
    if before is None or name is None or isinstance(embedder, HostedEmbedder):
        return {}
    table = ChunkTable(folder / before.version / TABLE)
    return dict(zip(table.values("content_sha256"), table.matrix(name), strict=True))


def _vectors(
    embedder: Embedder, draft: Draft, known: dict[str, NDArray[np.float32]]
) -> NDArray[np.float32]:
    """The vectors of all chunks: recorded, known of equal content, or made now."""
    if isinstance(embedder, HostedEmbedder):
        return draft.recorded(embedder)
    new = {
        digest: text
        for digest, text in zip(draft.hashes, draft.texts, strict=True)
        if digest not in known
    }
    if new:
        made = _embedded(embedder, list(new.values()), draft.report)
        known = {**known, **dict(zip(new, made, strict=True))}
    return np.stack([known[digest] for digest in draft.hashes])


def _embedded(embedder: Embedder, texts: Sequence[str], report: Notify) -> NDArray[np.float32]:
    report(embedder.name, 0)
    made = embedder.embed_passages(texts, lambda done: report(embedder.name, done))
    report(embedder.name, 1)
    return unit_rows(made, embedder.name, len(texts)).astype(np.float32)


def _revisions(chunks: Sequence[Chunk]) -> dict[str, str | None]:
    revisions: dict[str, str | None] = {}
    for chunk in chunks:
        if revisions.setdefault(chunk.source, chunk.revision) != chunk.revision:
            raise IndexingError(
                f"source {chunk.source!r} has two revisions: {chunk.revision!r} and "
                f"{revisions[chunk.source]!r}"
            )
    return revisions


def mark_of(file_sha256: str, dimensions: int) -> str:
    """The name of the empty file that says of a version: it is of the chunks in this file."""
    return f"of-{hashlib.sha256(_settings(dimensions) + file_sha256.encode()).hexdigest()}"


def _settings(dimensions: int) -> bytes:
    settings = [SCHEMA_VERSION, dimensions, K1, B]
    terms_by = [version("PyStemmer"), unicodedata.unidata_version]
    return json.dumps([settings, terms_by]).encode()


def _fingerprint(chunks: Sequence[Chunk], dimensions: int) -> str:
    """Hash all that rankings depend on: revisions are left out, for they change no ranking."""
    digest = hashlib.sha256(_settings(dimensions))
    before = None
    for chunk in chunks:
        if chunk.chunk_id == before:
            raise IndexingError(f"two chunks have the id {before!r}; each needs one of its own")
        before = chunk.chunk_id
        digest.update(chunk.model_dump_json(exclude={"revision"}).encode())
    return digest.hexdigest()
