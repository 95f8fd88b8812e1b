"""The judged collection, as it stands on disk."""

import gc
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from freshstack_dspy.collection.contents import RECORD_FILES, Contents, RecordFile
from freshstack_dspy.collection.corpus import CORPUS_FILE, Corpus
from freshstack_dspy.collection.counts import count
from freshstack_dspy.collection.jsonl import decode_records
from freshstack_dspy.collection.lengths import ChunkLengths
from freshstack_dspy.collection.manifest import MANIFEST_FILE, Manifest, read_manifest
from freshstack_dspy.collection.references import check_references
from freshstack_dspy.collection.staging import standing_folder
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.records import Chunk, LicenceFile, Record, SkippedFile, SliceName
from freshstack_dspy.sources.regular import check_regular

if TYPE_CHECKING:
    from freshstack_dspy.measures.qrels import NuggetQrels

_RECORDS = tuple(file.name for file in RECORD_FILES)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Read records in half the time: there are many, and no cycle among them to be found."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@dataclass(frozen=True, kw_only=True)
class Collection(Contents):
    """A judged collection: its records, its manifest and its chunks.

    Two collections are equal when their records and manifests are.

    Attributes:
        manifest: What it is, how it was made, and the hashes of its files.
        corpus: The chunks; read from disk when first needed.
    """

    manifest: Manifest
    corpus: Corpus = field(compare=False, repr=False)

    @classmethod
    @_without_garbage_collection()
    def load(cls, path: Path | str) -> Self:
        """Read and check a collection; the texts of its chunks are read and checked later.

        Args:
            path: Its folder.

        Raises:
            CollectionError: In one line, where a file is missing, of another schema version,
                damaged or not that of the manifest, or where an id leads nowhere.
        """
        folder = standing_folder(Path(os.path.realpath(path)))
        manifest = read_manifest(folder)
        corpus = Corpus(folder / CORPUS_FILE, _hash_of(CORPUS_FILE, folder, manifest))
        records: dict[str, Any] = {
            file.name: _read_records(folder, file, manifest) for file in RECORD_FILES
        }
        threshold = manifest.scale.threshold
        collection = cls(**records, threshold=threshold, manifest=manifest, corpus=corpus)
        try:
            check_references(collection, corpus.rows.keys(), manifest.scale)
        except CollectionError as error:
            raise CollectionError(f"{folder}: {error}") from None
        if count(collection, len(corpus.rows), manifest.counts.rejected) != manifest.counts:
            raise CollectionError(f"{folder / MANIFEST_FILE}: counts are not those of the files")
        return collection

    @classmethod
    def unread(cls, path: Path, manifest: Manifest) -> Self:
        """Give a collection whose records are read when one of them is first asked for.

        They are checked as by `load`, which then raises its errors.

        Args:
            path: Its folder.
            manifest: As it stands there.
        """
        corpus = Corpus(path / CORPUS_FILE, _hash_of(CORPUS_FILE, path, manifest))
        collection = object.__new__(cls)
        threshold = manifest.scale.threshold
        vars(collection).update(manifest=manifest, corpus=corpus, threshold=threshold, _unread=path)
        return collection

    def read_skipped(self) -> tuple[SkippedFile, ...]:
        """Give the skipped files, and of an unread collection read nothing else.

        Raises:
            CollectionError: The file is missing, damaged or not that of the manifest.
        """
        return cast("tuple[SkippedFile, ...]", self._read_alone("skipped"))

    def read_licences(self) -> tuple[LicenceFile, ...]:
        """Give the licence files, and of an unread collection read nothing else.

        Raises:
            CollectionError: As for `read_skipped`.
        """
        return cast("tuple[LicenceFile, ...]", self._read_alone("licences"))

    def _read_alone(self, name: str) -> tuple[Record, ...]:
        path = vars(self).get("_unread")
        if path is None:
            records: tuple[Record, ...] = vars(self)[name]
            return records
        (file,) = (file for file in RECORD_FILES if file.name == name)
        return _read_records(path, file, self.manifest)

    if not TYPE_CHECKING:  # for a type checker, any name at all would now be an attribute

        def __getattr__(self, name: str) -> Any:
            """Read the records of an unread collection."""
            path = vars(self).get("_unread")
            if path is None or name not in _RECORDS:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            loaded = type(self).load(path)
            if loaded.manifest != self.manifest:
                raise CollectionError(f"{path}: another collection stands here by now; load that")
            vars(self).update({record: vars(loaded)[record] for record in _RECORDS})
            return vars(self)[name]

    @property
    def name(self) -> str:
        """The name of the collection."""
        return self.manifest.name

    @property
    def recipe(self) -> str:
        """The recipe that built it."""
        return self.manifest.recipe

    def chunks(self) -> Iterator[Chunk]:
        """Give all chunks of the corpus, by chunk_id.

        Raises:
            CollectionError: The corpus is not that of the manifest.
        """
        return iter(self.corpus)

    def chunk(self, chunk_id: str) -> Chunk:
        """Give one chunk of the corpus.

        Raises:
            CollectionError: There is no such chunk, or the corpus is not that of the manifest.
        """
        return self.corpus.chunk(chunk_id)

    def query_ids(self, slices: Sequence[SliceName] | None = None) -> tuple[str, ...]:
        """List the queries that an evaluation uses, ascending; those without nuggets never are.

        Args:
            slices: Which slices; None: those that the manifest names as evaluated.

        Raises:
            CollectionError: A name is not that of a slice.
        """
        return self.queries_in(self.manifest.evaluated_slices if slices is None else slices)

    def qrels(self, slices: Sequence[SliceName] | None = None) -> "NuggetQrels":
        """Give the judgments of these queries as the measures read them.

        The lengths of chunks are read only if a measure asks for one.

        Args:
            slices: As in `query_ids`.

        Raises:
            CollectionError: A name is not that of a slice.
        """
        chosen = self.manifest.evaluated_slices if slices is None else slices
        return self.qrels_of(chosen, ChunkLengths(self.corpus))


def _hash_of(name: str, folder: Path, manifest: Manifest) -> str:
    try:
        return manifest.files[name]
    except KeyError:
        raise CollectionError(f"{folder / MANIFEST_FILE}: files has no hash of {name}") from None


def _read_records(folder: Path, file: RecordFile, manifest: Manifest) -> tuple[Record, ...]:
    path = folder / file.filename
    try:
        check_regular(path)
        data = path.read_bytes()
    except FileNotFoundError:
        raise CollectionError(f"{path}: the file is missing") from None
    except OSError as error:
        raise CollectionError(f"{path}: cannot be read: {error.strerror}") from None
    # Read before hashed: a line that was mistyped is named by its number.
    records = decode_records(data, file.record, path)
    if hashlib.sha256(data).hexdigest() != _hash_of(file.filename, folder, manifest):
        raise CollectionError(
            f"{path}: not the file that the manifest was written for; "
            "get the collection again or rebuild it"
        )
    return records
