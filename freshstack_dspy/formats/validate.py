"""Validating a collection, every reference, count and hash; or an export of one, which is read back."""

from collections import defaultdict
from collections.abc import Collection as Ids
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from freshstack_dspy.corpus.parquet import ROWS, ChunkFile
from freshstack_dspy.errors import CollectionError, FreshstackError
from freshstack_dspy.files import existing_folder
from freshstack_dspy.formats import FORMATS
from freshstack_dspy.formats.format import Format, read_layout
from freshstack_dspy.formats.imported import EXPORT_FILE, Description, read_description
from freshstack_dspy.pages.page import counted
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.records import Judgment
from freshstack_dspy.stored.contents import Contents, Counts, count, missing_of, reference_faults
from freshstack_dspy.stored.manifest import CORPUS_FILE, MANIFEST_FILE, read_manifest, trust_line
from freshstack_dspy.stored.record_files import NO_LINES, RECORD_FILES, rows, tally


@dataclass(frozen=True, repr=False)
class Validation(Shown):
    """What was validated, and what is wrong with it."""

    format: str
    """`collection`, or that of an export."""
    faults: tuple[str, ...]
    """Each with its file, and the line where there is one."""
    counts: dict[str, int]
    """How many records of each kind were read."""
    agreement: str = ""
    """For a collection: how far its labels agree with people, in one line."""
    missing: str = ""
    """For a collection: what failed while it was built, in one line; see `counts.missing_of`."""
    calibrated: bool = False
    """For a collection: whether its labels agree with people as far as `[trust]` asks."""

    def __repr__(self) -> str:
        verdict = counted(len(self.faults), "fault") if self.faults else "ok"
        return f"Validation({verdict}, {self.format})"


def validate(path: Path | str) -> Validation:
    """Check a collection, or an export of one.

    For a collection: files, hashes, counts, references, labels on their scale. An export is read
    back by its importer, and compared with the counts that it gives.

    Raises:
        CollectionError: It is neither, or its manifest cannot be read.
        SourceError: Its `export.json` cannot be read.
    """
    folder = existing_folder(Path(path))
    if (description := read_description(folder)) is not None:
        return _validate_export(folder, description)
    if not (folder / MANIFEST_FILE).is_file():
        raise CollectionError(
            f"{folder}: neither a collection nor an export: it has no {MANIFEST_FILE} and no "
            f"{EXPORT_FILE}"
        )
    return _validate_collection(folder)


def _validate_export(folder: Path, description: Description) -> Validation:
    try:
        counts = _read_back(folder, description.format)
    except FreshstackError as error:
        return Validation(description.format, (_below(folder, error),), {})
    faults = [
        f"{EXPORT_FILE}: counts.{name} is {description.counts.get(name)}, the files have {counted}"
        for name, counted in counts.items()
        if counted != description.counts.get(name)
    ]
    return Validation(description.format, tuple(faults), counts)


def _read_back(folder: Path, name: str) -> dict[str, int]:
    """Count what is in an export, by its importer."""
    layout: Format = FORMATS.get(name)
    imported = read_layout(layout, folder)
    chunks, _ = imported.with_existing_chunks(drop=False)
    queries = len(imported.queries) + sum(imported.rejected.values())
    counts = {"queries": queries, "chunks": len(chunks), "nuggets": len(imported.nuggets)}
    if "nuggets" in layout.cannot_hold:
        del counts["nuggets"]
    return counts


def _validate_collection(folder: Path) -> Validation:
    """Check files, hashes, counts, references, and labels on their scale.

    Raises:
        CollectionError: Its manifest cannot be read.
    """
    manifest = read_manifest(folder)
    faults: list[str] = []
    records: dict[str, Any] = {}
    for file in RECORD_FILES:
        try:
            opened = file.open(folder)
            if opened.sha256() != manifest.files.get(file.filename, NO_LINES):
                name = file.path(folder).name
                faults.append(f"{name}: is not the file whose hash the manifest has")
            len(opened)  # decodes lines
            records[file.name] = opened
        except CollectionError as error:
            faults.append(_below(folder, error))
    chunk_ids: Ids[str] = frozenset()
    try:
        corpus = ChunkFile(folder / CORPUS_FILE)
        chunk_ids = corpus.ids
        if corpus.sums.sha256 != manifest.files.get(CORPUS_FILE):
            faults.append(f"{CORPUS_FILE}: the chunks are not those of the manifest's hash")
        faults += _evidence_faults(records.get("judgments", ()), corpus)
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
    return Validation(
        "collection",
        tuple(faults),
        counts,
        trust_line(manifest),
        missing_of(contents),
        manifest.trust is not None and manifest.trust.calibrated,
    )


def _evidence_faults(judgments: Sequence[Judgment], corpus: ChunkFile) -> Iterator[str]:
    """Say which spans are not of whole characters with some text among them, inside their chunk."""
    by_chunk: defaultdict[str, list[tuple[str, int, int]]] = defaultdict(list)
    if not any(map(any, tally(judgments, "evidence", "votes"))):
        return
    fields = "nugget_id", "chunk_id", "evidence", "votes"
    for nugget_id, chunk_id, evidence, votes in rows(judgments, *fields):
        if spans := {*evidence, *(span for vote in votes for span in vote.evidence)}:
            by_chunk[chunk_id] += [(nugget_id, *span) for span in sorted(spans)]
    ids = sorted(chunk_id for chunk_id in by_chunk if chunk_id in corpus.ids)
    for first in range(0, len(ids), ROWS):
        for chunk_id, chunk in corpus.chunks(ids[first : first + ROWS]).items():
            for nugget_id, start, end in by_chunk[chunk_id]:
                places = chunk.place_at(start), chunk.place_at(end)
                whole = (start, end) == tuple(map(chunk.byte_at, places))
                if not whole or not chunk.text[slice(*places)].strip():
                    yield (
                        f"judgments.jsonl: nugget {nugget_id!r} and chunk {chunk_id!r}: the evidence "
                        f"from byte {start} to {end} is no text of the chunk"
                    )


def _below(folder: Path, error: Exception) -> str:
    """Give a message with the file as it is called in the folder."""
    return str(error).removeprefix(f"{folder}/")
