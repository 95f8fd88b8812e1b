"""Writing a collection: whole or not at all, and the same content always to the same bytes."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from freshstack_dspy.collection.card import CARD_FILE, data_card
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contents import RECORD_FILES, Contents
from freshstack_dspy.collection.corpus import (
    CORPUS_FILE,
    Corpus,
    corpus_schema,
    corpus_sha256,
    sorted_chunks,
    write_rows,
)
from freshstack_dspy.collection.counts import count
from freshstack_dspy.collection.intact import FOLDER, fingerprint_folder
from freshstack_dspy.collection.jsonl import encode_records
from freshstack_dspy.collection.manifest import (
    MANIFEST_FILE,
    SCHEMA_VERSION,
    Manifest,
    Provenance,
    encode_manifest,
    hash_content,
    is_collection,
    read_manifest,
)
from freshstack_dspy.collection.references import check_references
from freshstack_dspy.collection.staging import names_in, staged_folder
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.records import Chunk

COLLECTION_FILES = frozenset(
    (MANIFEST_FILE, CARD_FILE, CORPUS_FILE, *(file.filename for file in RECORD_FILES))
)
"""All that a collection's folder holds."""


def write_collection(
    path: Path | str,
    contents: Contents,
    chunks: Iterable[Chunk],
    provenance: Provenance,
    *,
    rejected: Mapping[str, int] | None = None,
) -> Collection:
    """Write a collection, in place of an older one or where nothing stands.

    Args:
        path: The folder; a collection in it is replaced as a whole.
        contents: The records.
        chunks: All chunks of the corpus, in any order.
        provenance: How it was made.
        rejected: How many questions of the source did not become queries, by reason.

    Returns:
        The collection, as it stands on disk.

    Raises:
        CollectionError: The folder holds something else, an id stands twice or leads nowhere, or
            the folder cannot be written. What stood there still stands.
    """
    path = Path(os.path.realpath(path))
    refuse_foreign(path)
    ordered = sorted_chunks(chunks)
    records = {file.name: getattr(contents, file.name) for file in RECORD_FILES}
    contents = Contents(**records, threshold=provenance.scale.threshold)
    check_references(contents, {chunk.chunk_id for chunk in ordered}, provenance.scale)
    data = {file.filename: encode_records(records[file.name]) for file in RECORD_FILES}
    files = {name: hashlib.sha256(lines).hexdigest() for name, lines in data.items()}
    files[CORPUS_FILE] = corpus_sha256(ordered)
    told = {field: getattr(provenance, field) for field in Provenance.model_fields}
    manifest = Manifest(
        **told,
        schema_version=SCHEMA_VERSION,
        content_hash=hash_content(files),
        counts=count(contents, len(ordered), rejected or {}),
        files=files,
    )
    data[CARD_FILE] = data_card(contents, ordered, manifest).encode("utf-8")
    with staged_folder(path) as folder:
        for name, content in data.items():
            (folder / name).write_bytes(content)
        write_rows(folder / CORPUS_FILE, corpus_schema(), (chunk.model_dump() for chunk in ordered))
        manifest = _with_fingerprint(manifest, folder)
        (folder / MANIFEST_FILE).write_bytes(encode_manifest(manifest))
    corpus = Corpus(path / CORPUS_FILE, files[CORPUS_FILE])
    return Collection(
        **records, threshold=contents.threshold, manifest=read_manifest(path), corpus=corpus
    )


def _with_fingerprint(manifest: Manifest, folder: Path) -> Manifest:
    """Add the fingerprint of the folder, where there are others that it goes with."""
    if not manifest.fingerprints:
        return manifest
    marks = {**manifest.fingerprints, FOLDER: fingerprint_folder(folder, manifest)}
    return manifest.model_copy(update={"fingerprints": marks})


def refuse_foreign(path: Path) -> None:
    """Refuse to replace anything but a collection, and a collection with other files in it.

    Raises:
        CollectionError: Writing a collection there would lose something.
    """
    if not path.exists():
        return
    names = names_in(path)
    if names and not is_collection(path):
        raise CollectionError(
            f"{path}: the folder is not empty and not a collection, so nothing was written; "
            "name another folder"
        )
    if foreign := sorted(names - COLLECTION_FILES):
        raise CollectionError(
            f"{path}: beside a collection the folder holds {foreign[0]!r} ({len(foreign)} such), "
            "which would be lost; move it elsewhere"
        )
