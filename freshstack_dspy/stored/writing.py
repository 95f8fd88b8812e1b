"""Writing a collection: whole or not at all, and the same content always to the same bytes."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from freshstack_dspy.corpus.parquet import (
    ChunkFile,
    batches_of,
    merged,
    sorted_batches,
    write_chunks,
)
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.files import replace_folder
from freshstack_dspy.records import Chunk
from freshstack_dspy.stored.card import CARD_FILE, data_card
from freshstack_dspy.stored.contents import Contents, count, reference_faults
from freshstack_dspy.stored.manifest import (
    CORPUS_FILE,
    MANIFEST_FILE,
    SCHEMA_VERSION,
    SUMS_FILE,
    Manifest,
    Provenance,
    encode_manifest,
    encode_sums,
    hash_content,
    is_collection,
    read_sums,
)
from freshstack_dspy.stored.record_files import (
    RECORD_FILES,
    RecordFile,
    lines_sha256,
    rows,
)

COLLECTION_FILES = frozenset(
    (
        MANIFEST_FILE,
        SUMS_FILE,
        CARD_FILE,
        CORPUS_FILE,
        *(name for file in RECORD_FILES for name in file.filenames),
    )
)
"""All that a collection's folder holds."""
_NAMES_A_CALL = frozenset(("call_id", "votes", "relevance"))
"""Fields that name a reply, or hold what names one."""


def write_folder(
    path: Path,
    contents: Contents,
    chunks: Iterable[Chunk],
    provenance: Provenance,
    rejected: Mapping[str, int],
) -> Manifest:
    """Write the folder of a collection whole, or leave what was there; see `write_collection`."""
    check_replaceable(path)
    passages = contents.passages
    contents = Contents(**contents.records(), threshold=provenance.scale.threshold)
    with replace_folder(path) as folder:
        corpus = _write_corpus(folder / CORPUS_FILE, chunks, passages)
        manifest = manifest_of(contents, corpus, provenance, rejected)
        for file, records in _written(contents):
            file.write(folder, records)
        (folder / CARD_FILE).write_text(data_card(contents, corpus, manifest), encoding="utf-8")
        (folder / MANIFEST_FILE).write_bytes(encode_manifest(manifest))
        sums = {path.name: file_sha256(path) for path in folder.iterdir()}
        (folder / SUMS_FILE).write_bytes(encode_sums(sums))
    return manifest


def _write_corpus(path: Path, chunks: Iterable[Chunk], passages: Sequence[Chunk]) -> ChunkFile:
    """Write chunks, and those that a step wrote, in the order of their ids."""
    if isinstance(chunks, ChunkFile) and not passages:
        return chunks.copy(path)
    runs = [sorted_batches(batches_of(passages), path.parent)]
    if isinstance(chunks, ChunkFile):
        runs.append(chunks.batches())
    else:
        runs.append(sorted_batches(batches_of(chunks), path.parent))
    return ChunkFile(path, write_chunks(path, merged(runs)))


def _written(contents: Contents) -> Iterator[tuple[RecordFile, Sequence[Any]]]:
    for file in RECORD_FILES:
        records = getattr(contents, file.name)
        if records or not file.optional:
            yield file, records


def manifest_of(
    contents: Contents,
    chunks: ChunkFile,
    provenance: Provenance,
    rejected: Mapping[str, int],
) -> Manifest:
    """Describe a collection of these records and chunks.

    Raises:
        CollectionError: An id names nothing or is there twice, or a label is not on the scale.
    """
    for fault in reference_faults(contents, chunks.ids, provenance.scale):
        raise CollectionError(fault)
    files = {file.filename: lines_sha256(records) for file, records in _written(contents)}
    files[CORPUS_FILE] = chunks.sums.sha256
    return Manifest(
        **{field: getattr(provenance, field) for field in Provenance.model_fields},
        schema_version=SCHEMA_VERSION,
        content_hash=hash_content(files),
        counts=count(contents, len(chunks), rejected),
        files=files,
    )


def check_replaceable(path: Path) -> None:
    """Check that nothing but a collection would be replaced, and no other files in its folder."""
    if not path.exists():
        return
    if not path.is_dir():
        raise CollectionError(f"{path}: a file, and the folder of a collection is wanted")
    names = {entry.name for entry in path.iterdir()}
    if names and not is_collection(path):
        raise CollectionError(
            f"{path}: the folder is not empty and not a collection, so nothing was written; "
            "name another folder"
        )
    if others := sorted(names - COLLECTION_FILES):
        raise CollectionError(
            f"{path}: with the collection the folder holds {others[0]!r} ({len(others)} such), "
            "which would be lost; move it elsewhere"
        )


def is_as_written(folder: Path) -> bool:
    """Tell whether a collection's folder has the files and bytes that were written.

    Raises:
        OSError: A file cannot be read.
    """
    names = COLLECTION_FILES - {SUMS_FILE}
    return read_sums(folder) == {
        path.name: file_sha256(path) for path in folder.iterdir() if path.name in names
    }


def file_sha256(path: Path) -> str:
    """Hash a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def call_ids_of(contents: Contents) -> frozenset[str]:
    """The keys of the replies that records name."""
    keys: set[Any] = set()
    for file in RECORD_FILES:
        for name in _NAMES_A_CALL & file.record.model_fields.keys():
            for (value,) in rows(getattr(contents, file.name), name):
                each = value if isinstance(value, tuple) else (value,)
                keys.update(getattr(part, "call_id", part) for part in each)
    return frozenset(keys - {None})
