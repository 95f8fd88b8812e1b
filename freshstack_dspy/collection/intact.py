"""Whether a collection's folder is byte for byte as it was written."""

import hashlib
import re
from pathlib import Path
from typing import NamedTuple

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contents import RECORD_FILES, Contents
from freshstack_dspy.collection.manifest import (
    MANIFEST_FILE,
    Manifest,
    encode_manifest,
    hash_content,
)
from freshstack_dspy.collection.staging import names_in
from freshstack_dspy.sources.regular import check_regular

FOLDER = "folder"
"""The fingerprint in the manifest that stands for the folder as it was written."""

_CALL_ID = re.compile(rb'"(?:importance_)?call_id":"([0-9a-f]{64})"')
"""In a canonical line; a quotation mark inside a text has a backslash before it."""
_WITH_CALL_ID = [file for file in RECORD_FILES if "call_id" in file.record.model_fields]


class Intact(NamedTuple):
    """A collection that stands as it was written."""

    collection: Collection
    """Its records are read when one is first asked for."""
    call_ids: frozenset[str]
    """Keys of all replies that it was made from, those that were sent back as invalid included."""


def intact_collection(folder: Path, manifest: Manifest) -> Intact | None:
    """The collection of a manifest, or None where a byte of its folder is not as it was written.

    Args:
        folder: Of the collection.
        manifest: As `read_manifest` gives it.

    Raises:
        CollectionError: The folder cannot be listed.
    """
    call_ids: set[str] = set(manifest.reasked)
    try:
        if fingerprint_folder(folder, manifest) != manifest.fingerprints.get(FOLDER):
            return None
        for file in _WITH_CALL_ID:
            named = set(_CALL_ID.findall((folder / file.filename).read_bytes()))
            call_ids.update(call_id.decode() for call_id in named)
    except OSError:
        return None
    return Intact(Collection.unread(folder, manifest), frozenset(call_ids))


def fingerprint_folder(folder: Path, manifest: Manifest) -> str:
    """SHA-256 over all in a collection's folder, and over the manifest but for this fingerprint.

    Raises:
        CollectionError: The folder cannot be listed.
        OSError: A file in it cannot be read.
    """
    hashes = {}
    for name in names_in(folder) - {MANIFEST_FILE}:
        check_regular(folder / name)
        with (folder / name).open("rb") as file:
            hashes[name] = hashlib.file_digest(file, "sha256").hexdigest()
    others = {name: value for name, value in manifest.fingerprints.items() if name != FOLDER}
    told = encode_manifest(manifest.model_copy(update={"fingerprints": others}))
    return hash_content({**hashes, MANIFEST_FILE: hashlib.sha256(told).hexdigest()})


def call_ids_of(contents: Contents) -> frozenset[str]:
    """The keys of the replies that records name."""
    found = {record.call_id for file in _WITH_CALL_ID for record in getattr(contents, file.name)}
    found.update(nugget.importance_call_id for nugget in contents.nuggets)
    for judgment in (*contents.judgments, *contents.single_judgments):
        found.update(vote.call_id for vote in judgment.votes)
    return frozenset(call_id for call_id in found if call_id is not None)
