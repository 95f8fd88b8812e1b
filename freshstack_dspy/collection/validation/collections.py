"""Validating a collection: every file, hash, count and reference, and what the records say."""

import hashlib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from freshstack_dspy.collection.contents import RECORD_FILES, Contents, RecordFile
from freshstack_dspy.collection.corpus import CORPUS_FILE, Corpus
from freshstack_dspy.collection.counts import Counts, count
from freshstack_dspy.collection.intact import FOLDER, fingerprint_folder
from freshstack_dspy.collection.jsonl import canonical_line, first_fault
from freshstack_dspy.collection.manifest import (
    MANIFEST_FILE,
    Manifest,
    hash_content,
    manifest_values,
    read_manifest,
)
from freshstack_dspy.collection.references import reference_faults
from freshstack_dspy.collection.staging import names_in
from freshstack_dspy.collection.validation.findings import Findings
from freshstack_dspy.collection.validation.meaning import check_meaning
from freshstack_dspy.collection.writing import COLLECTION_FILES
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.records import Record
from freshstack_dspy.sources.regular import check_regular


def check_collection(folder: Path, findings: Findings) -> None:
    """Find all that is wrong with a collection.

    Args:
        folder: Of the collection.
        findings: Takes what is found.

    Raises:
        CollectionError: There is no such folder.
    """
    names = names_in(folder)
    manifest = _manifest(folder, findings)
    if manifest is None:
        return
    for name in sorted(COLLECTION_FILES - names):
        findings.fault(name, "the file is missing")
    for name in sorted(names - COLLECTION_FILES):
        findings.warn(name, "no file of a collection; writing the collection again refuses it")
    records: dict[str, Any] = {
        file.name: _records(folder, file, manifest, findings) for file in RECORD_FILES
    }
    contents = Contents(**records, threshold=manifest.scale.threshold)
    rows = _corpus(folder, manifest, findings)
    _check_counts(manifest.counts, contents, rows, findings)
    for fault in reference_faults(contents, rows, manifest.scale):
        findings.fault(*_placed(fault))
    check_meaning(contents, rows, findings)
    _check_folder(folder, manifest, findings)


def _manifest(folder: Path, findings: Findings) -> Manifest | None:
    try:
        return read_manifest(folder)
    except CollectionError as error:
        findings.fault(MANIFEST_FILE, str(error).removeprefix(f"{folder / MANIFEST_FILE}: "))
    try:
        manifest = Manifest.model_validate(manifest_values(folder))
    except (CollectionError, ValidationError):
        return None  # the fault is taken already
    return manifest if hash_content(manifest.files) != manifest.content_hash else None


def _records(
    folder: Path, file: RecordFile, manifest: Manifest, findings: Findings
) -> tuple[Record, ...]:
    """Read the lines that are records, and say of each other one what it is."""
    name = file.filename
    try:
        check_regular(folder / name)
        data = (folder / name).read_bytes()
    except FileNotFoundError:
        return ()
    except OSError as error:
        findings.fault(name, f"cannot be read: {error.strerror}")
        return ()
    if hashlib.sha256(data).hexdigest() != manifest.files.get(name):
        findings.fault(name, "is not the file whose hash the manifest has")
    lines = data.split(b"\n")
    if lines.pop():
        findings.fault(name, "the last line has no end; the file was cut short")
    records, positions = [], []
    for number, line in enumerate(lines, start=1):
        try:
            record = file.record.model_validate_json(line)
        except ValidationError as error:
            findings.fault(
                f"{name}:{number}", f"not a {file.record.__name__}: {first_fault(error)}"
            )
            continue
        if canonical_line(record).encode() != line + b"\n":
            findings.fault(f"{name}:{number}", "is not written as a collection writes it")
        records.append(record)
        positions.append(number)
    for number, one, other in zip(positions, file.sort(records), records, strict=True):
        if one is not other and one != other:
            findings.fault(f"{name}:{number}", f"is not in the order of {', '.join(file.order)}")
            break
    return tuple(records)


def _corpus(folder: Path, manifest: Manifest, findings: Findings) -> dict[str, int]:
    """Read all chunks; give the row of each id."""
    corpus = Corpus(folder / CORPUS_FILE, manifest.files.get(CORPUS_FILE, ""))
    rows: dict[str, int] = {}
    without_text = []
    try:
        rows = corpus.rows
        for chunk in corpus:
            if not chunk.titled.strip():
                without_text.append(chunk.chunk_id)
            if chunk.end_byte < chunk.start_byte:
                findings.fault(CORPUS_FILE, f"chunk {chunk.chunk_id!r} ends before it begins")
    except CollectionError as error:
        if (folder / CORPUS_FILE).exists():
            findings.fault(CORPUS_FILE, str(error).removeprefix(f"{folder / CORPUS_FILE}: "))
    findings.warn_of(CORPUS_FILE, "chunks have no text", without_text)
    return rows


def _check_counts(
    told: Counts, contents: Contents, rows: dict[str, int], findings: Findings
) -> None:
    found = count(contents, len(rows), told.rejected)
    for name in Counts.model_fields:
        one, other = getattr(told, name), getattr(found, name)
        if one != other:
            findings.fault(MANIFEST_FILE, f"counts.{name} is {one}, and the files have {other}")
        if isinstance(other, int):
            findings.counts[name] = other


def _check_folder(folder: Path, manifest: Manifest, findings: Findings) -> None:
    if FOLDER not in manifest.fingerprints or findings.found:
        return
    try:
        written = fingerprint_folder(folder, manifest) == manifest.fingerprints[FOLDER]
    except OSError:  # a folder or a pipe: nothing that was written with it
        written = False
    if not written:
        findings.warn(
            MANIFEST_FILE,
            "something in the folder is not as it was written (the card, or the manifest itself), "
            "so that a build makes it anew",
        )


def _placed(fault: str) -> tuple[str, str]:
    """Part `nuggets.jsonl: …` or `nuggets.jsonl names …` into the file and what is wrong."""
    file, _, rest = fault.partition(" ")
    return file.rstrip(":"), rest
