"""Validating a collection, or an export of one: every reference, count and hash."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from freshstack_dspy.collection.collection import CORPUS_FILE, Corpus, corpus_sha256
from freshstack_dspy.collection.contents import RECORD_FILES, Contents, reference_faults
from freshstack_dspy.collection.counts import Counts, count, missing_of
from freshstack_dspy.collection.exports import EXPORT_FILE, Description, ExportFormat
from freshstack_dspy.collection.imports import read_description, read_layout
from freshstack_dspy.collection.manifest import MANIFEST_FILE, read_manifest, trust_line
from freshstack_dspy.errors import CollectionError, FreshstackError
from freshstack_dspy.files import decode_records, existing_folder, read_lines
from freshstack_dspy.records import Judgment
from freshstack_dspy.rows import read_rows


class Report(NamedTuple):
    """What was validated, and what is wrong with it."""

    format: Literal["collection"] | ExportFormat
    faults: tuple[str, ...]
    """Each with its file, and the line where there is one."""
    counts: dict[str, int]
    """How many records of each kind were read."""
    agreement: str = ""
    """Of a collection: how far its labels agree with people, in one line."""
    missing: str = ""
    """Of a collection: what failed in the making of it, in one line; see `counts.missing_of`."""
    calibrated: bool = False
    """Of a collection: whether its labels agree with people as far as `[trust]` asks."""


def validate(path: Path | str) -> Report:
    """Check a collection, or an export of one.

    Of a collection: files, hashes, counts, references, labels on their scale. An export is read
    back by its importer where there is one, and compared with the counts that it gives.

    Raises:
        CollectionError: It is neither, or its manifest cannot be read.
        SourceError: Its `export.json` cannot be read.
    """
    folder = existing_folder(Path(path))
    if (description := read_description(folder)) is not None:
        return _check_export(folder, description)
    if not (folder / MANIFEST_FILE).is_file():
        raise CollectionError(f"{folder}: has no {MANIFEST_FILE} and no {EXPORT_FILE}")
    return _check_collection(folder)


def _check_collection(folder: Path) -> Report:
    manifest = read_manifest(folder)
    faults: list[str] = []
    written = [one for one in RECORD_FILES if not one.optional or one.filename in manifest.files]
    records: dict[str, Any] = {one.name: () for one in RECORD_FILES if one not in written}
    for file in written:
        name = file.filename
        try:
            data = (folder / name).read_bytes()
            if hashlib.sha256(data).hexdigest() != manifest.files.get(name):
                faults.append(f"{name}: is not the file whose hash the manifest has")
            records[file.name] = decode_records(data, file.record, Path(name))
        except OSError as error:
            faults.append(f"{name}: cannot be read: {error.strerror}")
        except CollectionError as error:
            faults.append(str(error))
    chunk_ids: set[str] = set()
    try:
        corpus = Corpus(folder / CORPUS_FILE)
        chunk_ids.update(corpus.rows)
        if corpus_sha256(corpus) != manifest.files.get(CORPUS_FILE):
            faults.append(f"{CORPUS_FILE}: the chunks are not those of the manifest's hash")
        faults += evidence_faults(records.get("judgments", ()), corpus)
    except CollectionError as error:
        faults.append(_below(folder, error))
    contents = Contents(**records, threshold=manifest.scale.threshold)
    found = count(contents, len(chunk_ids), manifest.counts.rejected)
    if len(records) == len(RECORD_FILES):  # else, what is missing would be missed everywhere
        faults += reference_faults(contents, chunk_ids, manifest.scale)
    for name in Counts.model_fields:
        stored, counted = getattr(manifest.counts, name), getattr(found, name)
        if stored != counted:
            faults.append(f"{MANIFEST_FILE}: counts.{name} is {stored}, the files have {counted}")
    counts = {name: value for name, value in found if isinstance(value, int)}
    return Report(
        "collection",
        tuple(faults),
        counts,
        trust_line(manifest),
        missing_of(contents),
        manifest.trust is not None and manifest.trust.calibrated,
    )


def evidence_faults(judgments: Iterable[Judgment], corpus: Corpus) -> Iterator[str]:
    """Say which spans are not of whole characters with some text among them, inside their chunk."""
    by_chunk: defaultdict[str, list[tuple[str, int, int]]] = defaultdict(list)
    for one in judgments:
        spans = {*one.evidence, *(span for vote in one.votes for span in vote.evidence)}
        by_chunk[one.chunk_id] += [(one.nugget_id, *span) for span in sorted(spans)]
    for chunk_id in sorted(chunk_id for chunk_id, spans in by_chunk.items() if spans):
        chunk = corpus.chunk(chunk_id)
        for nugget_id, start, end in by_chunk[chunk_id]:
            places = chunk.place_at(start), chunk.place_at(end)
            whole = (start, end) == tuple(map(chunk.byte_at, places))
            if not whole or not chunk.text[slice(*places)].strip():
                yield (
                    f"judgments.jsonl: nugget {nugget_id!r} and chunk {chunk_id!r}: the evidence from "
                    f"byte {start} to {end} is no text of the chunk"
                )


def _check_export(folder: Path, description: Description) -> Report:
    try:
        counts = _read_back(folder, description.format)
    except FreshstackError as error:
        return Report(description.format, (_below(folder, error),), {})
    faults = [
        f"{EXPORT_FILE}: counts.{name} is {description.counts.get(name)}, the files have {counted}"
        for name, counted in counts.items()
        if counted != description.counts.get(name)
    ]
    return Report(description.format, tuple(faults), counts)


def _read_back(folder: Path, format_: ExportFormat) -> dict[str, int]:
    """Count what is in an export, by its importer or by lines and rows."""
    if format_ == "hf":
        tables = {"queries": "queries", "nuggets": "nuggets", "chunks": "corpus"}
        return {name: sum(1 for _ in read_rows(folder / it, ())) for name, it in tables.items()}
    if format_ == "trec":
        files = {"queries": "topics.tsv", "nuggets": "nuggets.jsonl", "chunks": "corpus.jsonl"}
        return {name: sum(1 for _ in read_lines(folder / it)) for name, it in files.items()}
    if format_ == "mteb":
        format_ = "beir"
    found = read_layout(format_, folder)
    chunks, _ = found.with_existing_chunks(drop=False)
    queries = len(found.queries) + sum(found.rejected.values())
    counts = {"queries": queries, "chunks": len(chunks), "nuggets": len(found.nuggets)}
    if format_ == "beir":  # each query is one nugget there
        del counts["nuggets"]
    return counts


def _below(folder: Path, error: Exception) -> str:
    """Give a message with the file as it is called in the folder."""
    return str(error).removeprefix(f"{folder}/")
