"""Validating a collection: every reference, count and hash."""

from collections import defaultdict
from collections.abc import Collection as Ids
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from freshstack_dspy.corpus.parquet import ROWS, ChunkFile
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.pages.page import Page, Table, Text, counted
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.records import Judgment
from freshstack_dspy.stored.contents import Contents, reference_faults
from freshstack_dspy.stored.corpus import CORPUS_FILE
from freshstack_dspy.stored.counts import Counts, count, missing_of
from freshstack_dspy.stored.manifest import MANIFEST_FILE, read_manifest, trust_line
from freshstack_dspy.stored.record_files import NO_LINES, RECORD_FILES, rows


@dataclass(frozen=True, repr=False)
class Report(Shown):
    """What was validated, and what is wrong with it."""

    format: str
    """`collection`, or that of an export."""
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

    def __repr__(self) -> str:
        return f"Report({self._found}, {self.format})"

    @property
    def _found(self) -> str:
        return counted(len(self.faults), "fault") if self.faults else "ok"

    def page(self, path: Path | None = None) -> Page:
        """Give every fault, and what was read at `path`."""
        counts = ", ".join(f"{number:,} {name}" for name, number in self.counts.items() if number)
        agreement = (Text(self.agreement),) if self.agreement else ()
        return Page(
            f"{path or self.format}: {self._found}, {self.format}: {counts}",
            (*(Text(f"fault: {fault}", "warning") for fault in self.faults), *agreement),
            data={name: getattr(self, name) for name in _FIELDS},
            rows=Table(("fault",), [(fault,) for fault in self.faults]),
        )


_FIELDS = ("format", "faults", "counts", "agreement", "missing", "calibrated")


def validate_collection(folder: Path) -> Report:
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
            records[file.name] = opened.read()
        except CollectionError as error:
            faults.append(below(folder, error))
    chunk_ids: Ids[str] = frozenset()
    try:
        corpus = ChunkFile(folder / CORPUS_FILE)
        chunk_ids = corpus.ids
        if corpus.sums.sha256 != manifest.files.get(CORPUS_FILE):
            faults.append(f"{CORPUS_FILE}: the chunks are not those of the manifest's hash")
        faults += evidence_faults(records.get("judgments", ()), corpus)
    except CollectionError as error:
        faults.append(below(folder, error))
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


def evidence_faults(judgments: Sequence[Judgment], corpus: ChunkFile) -> Iterator[str]:
    """Say which spans are not of whole characters with some text among them, inside their chunk."""
    by_chunk: defaultdict[str, list[tuple[str, int, int]]] = defaultdict(list)
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


def below(folder: Path, error: Exception) -> str:
    """Give a message with the file as it is called in the folder."""
    return str(error).removeprefix(f"{folder}/")
